import "../page/parts/manuscript.js";
import { FakeDesk } from "./fake_desk.js";

const desk = new FakeDesk();
const manuscript = document.createElement("srb-manuscript");
desk.manuscript = manuscript;
manuscript.desk = desk;
document.querySelector("main").append(manuscript);
desk.load();
manuscript.focus();
Object.assign(window, { desk, manuscript, ready: true });
