/** Pinned cards: words of a branch that stay above the cards of later rounds, each a value of the story by itself, `pin.NODE`. */

import { isCount, isRecord } from "../story/check.js";
import { putAtCaret } from "./graft.js";
import { isStale, plainWords, seamOf } from "./seam.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{at: number, from: number, to: number | null}} Pin   words of a node's whole text, in which its card began at `at`; null: to its end, also
 *   while it grows */
/** @typedef {Pin & {to: number, node: string, text: string, before: string}} Pinned   `before`: the words that its card went on from */

const PREFIX = "pin.";
const MOST = 100; // of a story
const SHOWN = 40; // characters of what a card went on from

/** @param {unknown} value @returns {value is Pin} */
const isPin = (value) =>
  isRecord(value) && isCount(value.at) && isCount(value.from) && (value.to === null || isCount(value.to));

/** The pinned cards of a story, the newest first; what a file has in their place and is none is left out. @param {Story} story @returns {Pinned[]} */
export function pinsOf(story) {
  const { values, times } = story.stampsOf(null);
  return Object.entries(values)
    .filter(([key, pin]) => key.startsWith(PREFIX) && isPin(pin) && story.nodes.has(key.slice(PREFIX.length)))
    .sort(([one], [other]) => times[other] - times[one])
    .slice(0, MOST)
    .map(([key, pin]) => pinned(story, key.slice(PREFIX.length), /** @type {Pin} */ (pin)));
}

/** A starred branch as what it would be if it were pinned. @param {Story} story @param {string} id */
export function starred(story, id) {
  const { keep = 0, text = "" } = story.nodes.get(id) ?? {};
  return pinned(story, id, { at: keep, from: keep, to: keep + text.length });
}

/** @param {Story} story @param {string} node @param {Pin} pin @returns {Pinned} */
function pinned(story, node, pin) {
  const whole = story.text(node);
  const to = Math.min(whole.length, pin.to ?? whole.length);
  const from = Math.min(pin.from, to);
  const at = Math.min(pin.at, from);
  const line = plainWords(whole.slice(Math.max(0, at - 2 * SHOWN), at)).trimEnd();
  const before = line.length > SHOWN ? `…\u00a0${line.slice(-SHOWN).replace(/^\S*\s+/u, "")}` : line.trimStart();
  return { node, text: whole.slice(from, to), before, at, from, to };
}

/** @param {Story} story @param {string} node */
export const isPinned = (story, node) => isPin(story.meta(PREFIX + node));

/** Pin a branch, or take it off; one step of undo. @param {Desk} desk @param {string} node @param {Pin} pin */
export function togglePin(desk, node, { at, from, to }) {
  const before = desk.story.meta(PREFIX + node) ?? null;
  desk.setMeta(PREFIX + node, before === null ? { at, from, to } : null);
  desk.recordMeta(PREFIX + node, before);
}

/** Where in the present text a pinned card stood; null if that text is not there any more. @param {Desk} desk @param {Pinned} pin @returns {number | null} */
export function placeOf({ story, head }, { node, at }) {
  const round = { base: { node, at }, keep: at, until: at, isInside: false };
  const seam = seamOf(story, /** @type {import("../round.js").Round} */ (round), head);
  return isStale({ ...seam, typed: "" }) ? null : seam.at;
}

/** Put a pinned card where the caret is, or where it went on. @param {Desk} desk @param {Pinned} pin @param {{isInPlace?: boolean}} [options] */
export function putPinned(desk, pin, { isInPlace = false } = {}) {
  const at = isInPlace ? placeOf(desk, pin) : null;
  putAtCaret(desk, pin, at === null ? undefined : { from: at, to: at });
}
