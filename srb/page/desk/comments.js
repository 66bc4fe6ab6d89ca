/** Comments on passages of the text. Each is a value of the story by itself, `comment.ID`, and is fixed to the words that it is on, by the
 * nodes that brought them: so it moves with them, and stays with those that are left. */

import { isCount, isRecord } from "../story/check.js";
import { origin } from "../story/pen.js";
import { newId } from "../story.js";
import { changeAll, valuesOf } from "./values.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{from: number, to: number}} Range */
/** @typedef {{node: string, from: number, to: number}} Span   words of a node, as it first had them */
/** @typedef {{text: string, quote: string, on: Span[], author?: string}} Comment   `quote`: the first words that it is on; `author`: who wrote it in another program */

export const PREFIX = "comment.";
export const MOST = 1000; // comments of a story
const SPANS = 200; // of a comment; beyond them only its first words hold it
const QUOTED = 120; // characters
export const LONGEST = 20_000; // characters of a comment

/** @param {unknown} value @returns {value is Comment} */
function isComment(value) {
  if (!isRecord(value)) return false;
  const { text, quote, on, author = "" } = value;
  return (
    typeof text === "string" &&
    text.length <= LONGEST &&
    typeof quote === "string" &&
    typeof author === "string" &&
    areSpans(on)
  );
}

/** @param {unknown} on @returns {on is Span[]} */
export const areSpans = (on) =>
  Array.isArray(on) &&
  on.length <= SPANS &&
  on.every((span) => isRecord(span) && typeof span.node === "string" && isCount(span.from) && isCount(span.to));

/** The comments of a story by their ids. @param {Story} story @returns {Map<string, Comment>} */
export function commentsOf(story) {
  return new Map(
    [...valuesOf(story, PREFIX, isComment, MOST)].map(([key, value]) => [key.slice(PREFIX.length), value]),
  );
}

/** Put a comment on a passage; returns its id. @param {import("../desk.js").Desk} desk @param {Range} range */
export function addComment(desk, range, text = "") {
  const id = newId();
  changeAll(desk, [[PREFIX + id, commentOn(desk.story, desk.settle(), range, text)]]);
  return id;
}

/** A comment on a passage of a text that nobody changes any more. @param {Story} story @param {Place} place @param {Range} range @returns {Comment} */
export function commentOn(story, place, range, text = "") {
  const quote = story
    .text(place.node, place.at)
    .slice(range.from, Math.min(range.to, range.from + QUOTED))
    .replace(/\s+/gu, " ")
    .trim();
  return { text, quote, on: spansOf(story, place, range) };
}

/** The nodes' words that stand in a passage of such a text. @param {Story} story @param {Place} place @param {Range} range @returns {Span[]} */
export function spansOf(story, { node, at }, range) {
  return story
    .pieces(node, at)
    .filter(({ from, to }) => from < range.to && to > range.from)
    .slice(0, SPANS)
    .map((piece) => {
      const of = origin(nodeOf(story, piece.node));
      const begins = of.at + piece.start - piece.from;
      return {
        node: of.node,
        from: begins + Math.max(piece.from, range.from),
        to: begins + Math.min(piece.to, range.to),
      };
    });
}

/**
 * Return where the words of comments are in a text, by the comments' ids; one whose words are not there has no place.
 * @param {Story} story @param {Place} place @param {Map<string, Pick<Comment, "quote" | "on">>} comments @returns {Map<string, Range>}
 */
export function rangesOf(story, { node, at }, comments) {
  /** @type {Map<string, {id: string, span: Span}[]>} by node */
  const spans = new Map();
  for (const [id, { on }] of comments)
    for (const span of on) spans.set(span.node, [...(spans.get(span.node) ?? []), { id, span }]);
  /** @type {Map<string, Range>} */
  const ranges = new Map();
  if (comments.size === 0 || node === "") return ranges;
  for (const piece of story.pieces(node, at)) {
    const of = origin(nodeOf(story, piece.node));
    const begins = piece.from - of.at - piece.start; // of the node's first words, if all of them were there
    for (const { id, span } of spans.get(of.node) ?? []) {
      const from = Math.max(piece.from, begins + span.from);
      const to = Math.min(piece.to, begins + span.to);
      if (from >= to) continue;
      const known = ranges.get(id) ?? { from, to };
      ranges.set(id, { from: Math.min(known.from, from), to: Math.max(known.to, to) });
    }
  }
  for (const [id, { quote }] of comments) {
    const from = ranges.has(id) || quote === "" ? -1 : story.text(node, at).indexOf(quote);
    if (from >= 0) ranges.set(id, { from, to: from + quote.length }); // typed anew, or undone while it was typed
  }
  return ranges;
}

/** @param {Story} story @param {string} id */
const nodeOf = (story, id) => /** @type {import("../story/types.js").Node} */ (story.nodes.get(id));
