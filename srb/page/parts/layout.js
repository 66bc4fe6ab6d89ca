/** Handles between the panes, which a person moves: the bar beside the manuscript, and on a phone the handle of the branches' sheet. */

import { msg } from "../languages.js";
import { iconElement } from "./icons.js";

/** @typedef {import("../desk.js").Desk} Desk */

const SHEETS = ["low", "middle", "high"];
const [NARROWEST, USUAL, WIDEST] = [25, 46, 75]; // share of the manuscript in percent
const STEP = 2;
const SHARE = "srb.share";
const SIDE = "srb.side"; // main.js reads both, so that nothing moves when this is loaded

/** The bar between manuscript and branches: dragged, or moved with the arrow keys. @param {HTMLElement} root */
export function divider(root) {
  const bar = document.createElement("div");
  bar.id = "divider";
  bar.tabIndex = 0;
  bar.setAttribute("role", "separator");
  bar.setAttribute("aria-orientation", "vertical");
  bar.setAttribute("aria-label", msg`Width of the manuscript`);
  bar.setAttribute("aria-valuemin", String(NARROWEST));
  bar.setAttribute("aria-valuemax", String(WIDEST));
  let share = USUAL;
  const move = (/** @type {number} */ wanted) => {
    share = Math.round(Math.max(NARROWEST, Math.min(WIDEST, wanted)));
    root.style.setProperty("--text-share", String(share / 100));
    bar.setAttribute("aria-valuenow", String(share));
    dispatchEvent(new Event("resize")); // for parts that lay themselves out by their width
  };
  move(keptShare());
  bar.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    bar.setPointerCapture(event.pointerId);
  });
  bar.addEventListener("pointermove", (event) => {
    if (!bar.hasPointerCapture(event.pointerId)) return;
    const { left } = /** @type {Element} */ (root.querySelector("main")).getBoundingClientRect(); // the side panel's end
    move((100 * (event.clientX - left)) / (root.clientWidth - left));
  });
  bar.addEventListener("pointerup", () => keep(SHARE, share));
  bar.addEventListener("dblclick", () => {
    move(USUAL);
    keep(SHARE, share);
  });
  bar.addEventListener("keydown", ({ code }) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[code];
    if (step === undefined) return;
    move(share + step);
    keep(SHARE, share);
  });
  return bar;
}

function keptShare() {
  try {
    return Number(localStorage.getItem(SHARE)) || USUAL;
  } catch {
    return USUAL; // storage is switched off in this browser
  }
}

/** @param {string} name @param {string | number} value */
function keep(name, value) {
  try {
    localStorage.setItem(name, String(value));
  } catch {
    // full or switched off: it is kept until the page is closed
  }
}

/** Give the side panel its column, or take it away. @param {HTMLElement} root @param {boolean} isOpen */
export function keepSide(root, isOpen) {
  root.dataset.side = isOpen ? "open" : "closed";
  keep(SIDE, root.dataset.side);
  dispatchEvent(new Event("resize")); // for parts that lay themselves out by their width
}

/**
 * On a phone the branches are a sheet, whose button changes its height; a round that begins brings it up.
 * @param {HTMLElement} root @param {Desk} desk
 */
export function sheetHandle(root, desk) {
  const handle = document.createElement("button");
  handle.id = "sheet-handle";
  handle.append(iconElement("height"));
  handle.setAttribute("aria-label", msg`Height of the cards`);
  const height = () => SHEETS.indexOf(root.dataset.sheet ?? "");
  const show = (/** @type {number} */ next) => {
    root.dataset.sheet = SHEETS[next % SHEETS.length];
  };
  handle.addEventListener("click", () => show(height() + 1));
  show(1);
  desk.addEventListener("round", () => {
    if (desk.round?.state === "asking" && height() === 0) show(1);
  });
  return handle;
}
