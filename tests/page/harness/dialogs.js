import "../page/parts/help.js";
import "../page/parts/settings.js";
import { settingsOf } from "../page/desk/defaults.js";
import { FakeDesk } from "./fake_desk.js";

const desk = new FakeDesk();
desk.settings = settingsOf(desk.story);
for (const name of ["srb-settings", "srb-help"]) {
  const part = document.createElement(name);
  part.desk = desk;
  document.body.append(part);
}
document.querySelector("button").addEventListener("click", () => desk.openDialog("settings"));
Object.assign(window, { desk, ready: true });
