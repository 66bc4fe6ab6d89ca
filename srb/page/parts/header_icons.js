/** Icons: lines of one width on a field of 24 units, in the colour of the words beside them. Here are those of the header, which is there first. */

import { html } from "../vendor/lit.js";

/** @type {Record<string, string>} */
export const PATHS = {
  undo: "M9 6 4 11l5 5M4 11h10a5 5 0 0 1 0 10h-3",
  redo: "m15 6 5 5-5 5M20 11H10a5 5 0 0 0 0 10h3",
  more: "M5 11.5a.5.5 0 1 0 .01 0zM12 11.5a.5.5 0 1 0 .01 0zM19 11.5a.5.5 0 1 0 .01 0z",
  down: "m6 9 6 6 6-6",
  task: "M4 5h16v11H10l-4 4v-4H4zM8 9h8M8 12h5",
  side: "M4 5h16v14H4zM10 5v14M6.5 9h1M6.5 12h1",
  picture: "M4 5h16v14H4zm0 11 5-5 4 4 3-3 4 4M15 9h.01",
  sound: "M9 18V6l10-2v12M9 18a3 3 0 1 1-3-3 3 3 0 0 1 3 3zm10-2a3 3 0 1 1-3-3 3 3 0 0 1 3 3z",
};

/** An icon as a template; the words for those who do not see it are the button's. @param {string} name */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]}></path></svg>`;
}
