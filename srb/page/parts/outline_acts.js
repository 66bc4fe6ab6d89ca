// Acts on the row of the outline that is chosen: the buttons below the tree.

import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";
import { icon } from "./icons.js";

/** @typedef {import("./outline.js").Outline} Outline */

/** Set a mark of a node, or take it away again. @param {import("../desk.js").Desk} desk @param {string} id @param {"star" | "pruned"} key */
export function toggleMark(desk, id, key) {
  desk.setNodeMark(id, key, desk.story.mark(id)[key] ? null : true);
}

/** @param {Outline} outline */
export function actsOf(outline) {
  const { desk, current } = outline;
  const { star, name, note, pruned } = desk.story.mark(current);
  const toggle = (/** @type {"star" | "pruned"} */ key) => () => toggleMark(desk, current, key);
  return html`<div class="acts" role="group" aria-label=${msg`The chosen branch`}>
    <button aria-pressed=${Boolean(star)} @click=${toggle("star")}>${icon("star")} ${msg`Star`}</button>
    <button aria-label=${name ? msg`Change the name` : msg`Name: a chapter, a version`} @click=${() => outline.ask("name")}>${msg`Name`}</button>
    <button aria-label=${note ? msg`Change the note` : msg`Note`} @click=${() => outline.ask("note")}>${icon("note")} ${msg`Note`}</button>
    <button aria-pressed=${Boolean(pruned)} @click=${toggle("pruned")}>${icon("prune")} ${msg`Set aside`}</button>
    <button aria-label=${msg`Compare with the text`} title=${msg`Compare with the text (C)`} @click=${() => outline.compare()}>${msg`Compare`}</button>
  </div>`;
}
