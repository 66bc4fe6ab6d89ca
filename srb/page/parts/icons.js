/** The page's own icons, as templates and as elements. */

import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";
import { icon, PATHS } from "./header_icons.js";

export { icon };

Object.assign(PATHS, {
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
});

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
