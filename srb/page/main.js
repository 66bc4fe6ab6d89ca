/** The page: builds the desk and its parts, and opens the story that was open last. */

import { Api } from "./api.js";
import { Desk } from "./desk.js";
import { Keeper } from "./keep.js";
import { bindKeys } from "./keys.js";
import { LANGUAGE } from "./languages.js";
import "./parts/header.js";
import { Later } from "./parts/later.js";
import "./parts/manuscript.js";

/** @param {HTMLElement} root */
async function start(root) {
  document.documentElement.lang = LANGUAGE;
  const api = new Api();
  const desk = new Desk({ api, keeper: new Keeper({ api }) });
  const later = new Later(desk, root);
  const make = (/** @type {string} */ name) => {
    const part = /** @type {HTMLElement & {desk: Desk}} */ (document.createElement(name));
    part.desk = desk;
    return part;
  };
  const manuscript = make("srb-manuscript");
  const main = document.createElement("main");
  main.append(manuscript);
  api.askKey = async (message) => (await later.load()).key.ask(message);
  showLayout(root);
  root.append(make("srb-header"), main);
  bindKeys(desk);
  showSettings(desk);
  desk.addEventListener("story", () => showSettings(desk));
  addEventListener("pagehide", () => desk.leave());
  document.addEventListener("visibilitychange", () => (document.hidden ? desk.leave() : desk.comeBack()));
  /** @type {any} */ (globalThis).desk = desk; // for people who look inside, and for tests
  await desk.start(/** @type {any} */ (manuscript));
  manuscript.focus();
  await later.load().catch(() => {}); // the server went away: it comes when that is back
}

/** Apply the settings that concern the page's look. @param {Desk} desk */
function showSettings(desk) {
  const { theme, font, size, measure } = desk.settings;
  const root = document.documentElement;
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  root.style.setProperty("--size", `${size}px`);
  root.style.setProperty("--measure", `${measure}ch`);
  root.style.setProperty("--text-font", font === "mono" ? "var(--mono)" : "var(--prose)");
  document.title = `${desk.title} · SRB`;
}

/** Give the panes the places that they were given last (parts/layout.js), so that nothing moves later. @param {HTMLElement} root */
function showLayout(root) {
  try {
    const share = Number(localStorage.getItem("srb.share"));
    if (share) root.style.setProperty("--text-share", String(share / 100));
    root.dataset.side = localStorage.getItem("srb.side") ?? "closed";
  } catch {
    // storage is switched off in this browser
  }
}

start(/** @type {HTMLElement} */ (document.getElementById("desk")));
