/** Grafts: words that the story has come to another place of it, with who wrote them. */

import { msg } from "../languages.js";
import { stretchesOf } from "../story/same.js";
import { newId } from "../story.js";
import { between, joined } from "./gap.js";
import { move } from "./moves.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Stretch} Stretch */
/** @typedef {{node: string, from: number, to: number}} Part   of a node's whole text */

/**
 * Put stretches in the place of a part of a text, with the space that what follows needs; return the place, and where they end in it.
 * @param {Story} story @param {Place} head @param {{from: number, to: number}} range @param {Stretch[]} stretches
 */
export function insert(story, head, { from, to }, stretches) {
  const text = story.text(head.node, head.at);
  const words = stretches.map((each) => each.text).join("");
  const gap = between(text.slice(0, from), words, text.slice(to));
  const place = story.graft(head, from, to, gap ? [...stretches, { text: gap, by: stretches[0].by }] : stretches);
  return { place, caret: from + words.length };
}

/**
 * Put a part of a node's text where the caret is, in the place of what is selected there; one step of undo.
 * @param {Desk} desk @param {Part} part @param {{from: number, to: number}} [range] where it goes instead
 */
export function putAtCaret(desk, { node, from, to }, range = desk.manuscript?.selection) {
  if (!range) return;
  const { story } = desk;
  const head = desk.settle();
  const words = joined(desk.text.slice(0, range.from), stretchesOf(story, { node, at: to }, from, to));
  const { place, caret } = insert(story, head, range, words);
  move(desk, place, "take", caret);
  desk.flush();
}

/**
 * Join a node's own words behind the text of another one; undo sets the branch aside. The manuscript stays as it is.
 * @param {Desk} desk @param {string} from @param {string} onto
 * @returns {string} the new branch
 */
export function graft(desk, from, onto) {
  desk.closeTyped();
  const { story } = desk;
  const [node, end] = [story.nodes.get(from), story.nodes.get(onto)];
  if (!node?.text.trim()) throw new Error(msg`This place has no words of its own.`);
  if (from === onto) throw new Error(msg`Words cannot go on behind themselves: choose another place.`);
  if (node.open || end?.open) throw new Error(msg`This is still being written: wait until it has ended.`);
  const { keep = 0, text } = node;
  const at = story.length(onto);
  const words = stretchesOf(story, { node: from, at: keep + text.length }, keep, keep + text.length);
  const act = newId();
  const stretches = joined(story.text(onto), words).map((each) => ({ ...each, act }));
  const branch = story.graft({ node: onto, at }, at, at, stretches).node;
  const setAside = (/** @type {true | null} */ value) => {
    story.setMark(branch, "pruned", value);
    tell(desk, branch);
  };
  tell(desk, branch);
  desk.record(
    () => setAside(true),
    () => setAside(null),
  );
  return branch;
}

/** @param {Desk} desk @param {string} branch */
function tell(desk, branch) {
  desk.changed();
  desk.tell("nodes", { ids: new Set([branch]) });
}
