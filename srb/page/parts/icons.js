/** The page's own icons: lines of one width on a field of 24 units, in the colour of the words beside them. */

import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";

/** @type {Readonly<Record<string, string>>} */
const PATHS = {
  undo: "M9 6 4 11l5 5M4 11h10a5 5 0 0 1 0 10h-3",
  redo: "m15 6 5 5-5 5M20 11H10a5 5 0 0 0 0 10h3",
  more: "M5 11.5a.5.5 0 1 0 .01 0zM12 11.5a.5.5 0 1 0 .01 0zM19 11.5a.5.5 0 1 0 .01 0z",
  down: "m6 9 6 6 6-6",
  up: "m6 15 6-6 6 6",
  right: "m9 6 6 6-6 6",
  height: "m8 8 4-4 4 4M8 16l4 4 4-4M5 12h14",
  swap: "M4 8h13l-3-3m6 11H7l3 3",
  read: "M12 6C10 4.5 7 4 3 4v14c4 0 7 .5 9 2 2-1.5 5-2 9-2V4c-4 0-7 .5-9 2zm0 0v14",
  vary: "M6 4v5a5 5 0 0 0 5 5h7M6 9v11m8-10 4 4-4 4",
  extend: "M4 12h15m-6-6 6 6-6 6",
  prune: "m6 6 12 12M18 6 6 18",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6",
  tree: "M5 5v14M5 8h6M5 16h6M11 8v3h8M11 8V5h8M11 16h8",
  filter: "M4 6h16M7 12h10M10 18h4",
  star: "m12 4 2.4 5 5.6.7-4.1 3.8 1.1 5.5-5-2.7-5 2.7 1.1-5.5L4 9.7 9.6 9z",
  note: "m5 19 1-4L16 5l3 3L9 18zM14 7l3 3",
  task: "M4 5h16v11H10l-4 4v-4H4zM8 9h8M8 12h5",
  side: "M4 5h16v14H4zM10 5v14M6.5 9h1M6.5 12h1",
  picture: "M4 5h16v14H4zm0 11 5-5 4 4 3-3 4 4M15 9h.01",
  sound: "M9 18V6l10-2v12M9 18a3 3 0 1 1-3-3 3 3 0 0 1 3 3zm10-2a3 3 0 1 1-3-3 3 3 0 0 1 3 3z",
};

/** An icon as a template; the words for those who do not see it are the button's. @param {string} name */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]}></path></svg>`;
}

/** The button that closes something. @param {() => unknown} act @param {string} [words] */
export function closeButton(act, words = msg`Close`) {
  return html`<button type="button" class="quiet close" aria-label=${words} @click=${act}>${icon("prune")}</button>`;
}

const SVG = "http://www.w3.org/2000/svg";

/** An icon as an element. @param {string} name */
export function iconElement(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] ?? "");
  svg.append(path);
  return svg;
}
