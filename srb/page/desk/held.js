/**
 * Places that are held by words: each stands before a word, and goes where that goes. A text made by a fork
 * before the place has none. Where the words are rewritten the place stays between those around them; where a chapter is moved, it
 * moves along.
 */

import { isCount, isRecord } from "../story/check.js";
import { origin } from "../story/pen.js";
import { areSpans, rangesOf, spansOf } from "./comments.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("./comments.js").Span} Span */
/** @typedef {{node: string, at: number, on: Span[], quote: string}} Held   before unit `at` of a node's text; `on`: the words there, `quote`: as they were */

const WORDS = 200; // characters that hold a place in texts whose path does not have its node
const QUOTED = 60; // characters

/** @param {unknown} value @returns {value is Held} */
export const isHeld = (value) =>
  isRecord(value) &&
  typeof value.node === "string" &&
  isCount(value.at) &&
  typeof value.quote === "string" &&
  areSpans(value.on);

/**
 * Return the place before the next word of a text. @param {Story} story @param {Place} place  of a text that nobody changes any more
 * @param {number} offset  behind which there is one @returns {Held}
 */
export function heldBefore(story, place, offset) {
  const text = story.text(place.node, place.at);
  const from = offset + text.slice(offset).search(/\S/u);
  const end = text.indexOf("\n", from);
  const to = Math.min(end < 0 ? text.length : end, from + WORDS);
  const quote = text.slice(from, Math.min(to, from + QUOTED)).trim();
  return { node: place.node, at: from, on: spansOf(story, place, { from, to }), quote };
}

/**
 * Return the first word of the paragraph of an offset, or of the last one before it that has words; null in a text without any.
 * @param {string} text @param {number} offset
 */
export function paragraphAt(text, offset) {
  const line = text.indexOf("\n", offset);
  const before = text.slice(0, line < 0 ? undefined : line).trimEnd();
  const begins = before === "" ? 0 : before.lastIndexOf("\n") + 1;
  const word = text.slice(begins).search(/\S/u);
  return word < 0 ? null : begins + word;
}

/**
 * Return where places are in a text, by their keys; those that are not there are left out.
 * @param {Story} story @param {Place} place @param {Map<string, Held>} held @param {Set<string>} [seen]  joined texts that are looked at already
 * @returns {Map<string, number>}
 */
export function placesIn(story, { node, at }, held, seen = new Set()) {
  /** @type {Map<string, number>} */
  const places = new Map();
  if (held.size === 0 || node === "") return places;
  const path = story.path(node);
  const indices = new Map(path.map((id, index) => [id, index]));
  /** @type {Map<string, Held>} */
  const others = new Map();
  for (const [key, each] of held) {
    const index = indices.get(each.node);
    const offset = index === undefined ? null : followed(story, path, index, each.at);
    if (offset !== null) places.set(key, offset);
    else others.set(key, each);
  }
  // The words of a joined, copied or taken text have other nodes on their path; a story that goes on in a new one has other nodes.
  for (const id of path) {
    const { joined } = nodeOf(story, id);
    if (!joined || others.size === 0 || seen.has(id)) continue;
    const there = placesIn(story, joined, others, seen.add(id));
    const words = new Map(
      [...there].map(([key, from]) => [key, { quote: "", on: spansOf(story, joined, { from, to: from + 1 }) }]),
    );
    for (const [key, { from }] of rangesOf(story, { node, at }, words)) if (others.delete(key)) places.set(key, from);
  }
  for (const [key, each] of others) if (story.nodes.has(each.node)) others.set(key, { ...each, quote: "" });
  for (const [key, { from }] of rangesOf(story, { node, at }, others)) places.set(key, from);
  for (const [key, offset] of places) if (offset >= at) places.delete(key);
  return places;
}

/**
 * Return where a place of a node's text is at the end of a path; null if a fork before it has left it behind.
 * @param {Story} story @param {string[]} path @param {number} from  the node's index @param {number} at
 */
function followed(story, path, from, at) {
  for (let index = from + 1; index < path.length; index += 1) {
    const { keep = 0, text, tail = Number.POSITIVE_INFINITY } = nodeOf(story, path[index]);
    if (at < keep) continue;
    if (at >= tail) {
      at += keep + text.length - tail;
      continue;
    }
    const moved = movedTo(story, path, index, at);
    if (moved) [index, at] = [moved.index, moved.at];
    else if (tail >= story.length(path[index - 1] ?? ""))
      return null; // nothing of the text before it follows
    else at = at === keep && text !== "" ? keep : keep + text.length;
  }
  return at;
}

/**
 * Return where the words at a place are that one node of an act takes out and a later one brings again.
 * @param {Story} story @param {string[]} path @param {number} index  of the first @param {number} at  in the text before it
 */
function movedTo(story, path, index, at) {
  const { act } = nodeOf(story, path[index]);
  if (act === undefined) return null;
  const piece = story.pieces(path[index - 1] ?? "").find(({ to }) => to > at);
  if (!piece) return null;
  const own = origin(nodeOf(story, piece.node));
  const word = own.at + piece.start + at - piece.from;
  for (let later = index + 1; later < path.length; later += 1) {
    const node = nodeOf(story, path[later]);
    if (node.act !== act && node.text !== "") return null; // an empty one only ends a text that may grow
    const { node: of, at: first } = origin(node);
    if (of === own.node && first <= word && word < first + node.text.length)
      return { index: later, at: (node.keep ?? 0) + word - first };
  }
  return null;
}

/** @param {Story} story @param {string} id */
const nodeOf = (story, id) => /** @type {Node} */ (story.nodes.get(id));
