/**
 * Which characters of two texts are the same ones: a character is known by the node that brought it and its place in that node,
 * and a copy by the one that it is a copy of. So a place of one text is found in another, whatever was changed before it.
 *
 * @import {Node, Piece, Place, Stretch} from "./types.js"
 */
import { LONGEST_NODE, origin } from "./pen.js";
import { stretches } from "./text.js";

/** @typedef {{nodes: Map<string, Node>, text: (node: string, at?: number) => string, pieces: (node: string, at?: number) => Piece[]}} Texts */
/** @typedef {{from: number, to: number, by: string}} Range */
/** @typedef {{from: number, to: number, offset: number}} Known   a range of a node's own text, and where it is in the text */

/** The characters of a text. */
export class Characters {
  /** @type {Map<string, Known[]>} by node */
  #ranges = new Map();

  /**
   * @param {Map<string, Node>} nodes
   * @param {Piece[]} pieces
   */
  constructor(nodes, pieces) {
    this.nodes = nodes;
    for (const piece of pieces) {
      const { node, at } = this.#originOf(piece);
      const ranges = this.#ranges.get(node) ?? [];
      ranges.push({ from: at, to: at + piece.to - piece.from, offset: piece.from });
      this.#ranges.set(node, ranges);
    }
  }

  /**
   * Return the offsets behind the last of these characters that another text has: in that text and in this one. 0 if it has none.
   * @param {Piece[]} pieces
   */
  endIn(pieces) {
    for (const piece of [...pieces].reverse()) {
      const { node, at } = this.#originOf(piece);
      const end = at + piece.to - piece.from;
      const there = (this.#ranges.get(node) ?? []).filter(({ from, to }) => from < end && to > at);
      const last = there.reduce((later, each) => (each.to > later.to ? each : later), { from: 0, to: 0, offset: 0 });
      const until = Math.min(last.to, end);
      if (until > 0) return { at: piece.from + until - at, end: last.offset + until - last.from };
    }
    return { at: 0, end: 0 };
  }

  /**
   * Return the ranges of another text that have none of these characters.
   * @param {Piece[]} pieces
   * @returns {Range[]}
   */
  lackedBy(pieces) {
    return pieces.flatMap((piece) => this.#outside(piece));
  }

  /** @param {Piece} piece @returns {Range[]} */
  #outside(piece) {
    const { node, at } = this.#originOf(piece);
    const ranges = this.#ranges.get(node);
    if (ranges === undefined) return [{ from: piece.from, to: piece.to, by: piece.by }];
    const end = at + piece.to - piece.from;
    const outside = [];
    let left = at;
    for (const { from, to } of [...ranges].sort((a, b) => a.from - b.from)) {
      if (to <= left) continue;
      if (from >= end) break;
      if (from > left) outside.push({ from: piece.from + left - at, to: piece.from + from - at, by: piece.by });
      left = to;
    }
    if (left < end) outside.push({ from: piece.from + left - at, to: piece.to, by: piece.by });
    return outside;
  }

  /** @param {Piece} piece */
  #originOf({ node, start }) {
    const of = origin(this.nodes.get(node) ?? { id: node });
    return { node: of.node, at: of.at + start };
  }
}

/**
 * @param {Texts} story
 * @param {Place} place
 * @param {number} from
 * @param {number} to
 * @returns {Stretch[]} a part of a text, by author, each as long as a node may be
 */
export function stretchesOf(story, { node, at }, from, to) {
  const text = story.text(node, at);
  return story.pieces(node, at).flatMap((piece) => {
    const [first, last] = [Math.max(from, piece.from), Math.min(to, piece.to)];
    const written = story.nodes.get(piece.node);
    if (first >= last || written === undefined) return [];
    const of = origin(written);
    const run = written.run === undefined ? {} : { run: written.run };
    let copied = of.at + piece.start + first - piece.from;
    return stretches(text.slice(first, last), LONGEST_NODE).map((part) => {
      copied += part.length;
      return { text: part, by: piece.by, ...run, of: { node: of.node, at: copied - part.length } };
    });
  });
}

/**
 * Return the texts that a person has typed in one text and that another one lacks.
 * @param {Texts} story
 * @param {Place} before
 * @param {Place} after
 * @returns {string[]}
 */
export function typedOnlyIn(story, before, after) {
  const [text, other] = [story.text(before.node, before.at), story.text(after.node, after.at)];
  if (other.startsWith(text)) return [];
  let alike = 0;
  while (alike < text.length && text.charCodeAt(alike) === other.charCodeAt(alike)) alike += 1;
  const there = new Characters(story.nodes, story.pieces(after.node, after.at));
  const lacking = there.lackedBy(story.pieces(before.node, before.at));
  const typed = lacking.filter(({ by, to }) => by === "person" && to > alike); // else the same was typed again
  return typed.map(({ from, to }) => text.slice(from, to).trim()).filter((each) => each !== "");
}
