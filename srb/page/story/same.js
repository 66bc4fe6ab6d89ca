/**
 * Which characters of two texts are the same ones: a character is known by the node that brought it and its place in that node,
 * and a copy by the one that it is a copy of. So a place of one text is found in another, whatever was changed before it. Words
 * that are being typed in another window may be rewritten there after they were copied: the copies have what was there.
 *
 * @import {Node, Piece, Place, Stretch} from "./types.js"
 */
import { LONGEST_NODE, origin } from "./pen.js";
import { alike, stretches } from "./text.js";
import { getOrSet } from "./wire.js";

/** @typedef {{nodes: Map<string, Node>, text: (node: string, at?: number) => string, pieces: (node: string, at?: number) => Piece[]}} Texts */
/** @typedef {{from: number, to: number, by: string}} Range */
/** @typedef {Range & {node: string, at: number, was: string}} Known   a part of a text, and which characters it has: those of a node from
 *   `at` on, or one that was there (`was`) */

/** The characters of a text. */
export class Characters {
  /** @type {Map<string, Known[]>} by node, and by what it was */
  #known = new Map();
  /** @type {Set<string>} */
  #nodes = new Set();

  /**
   * @param {Map<string, Node>} nodes
   * @param {Piece[]} pieces
   */
  constructor(nodes, pieces) {
    this.nodes = nodes;
    for (const part of pieces.flatMap((piece) => knownIn(piece, nodes))) {
      this.#nodes.add(part.node);
      getOrSet(this.#known, keyOf(part), () => []).push(part);
    }
  }

  /** @param {Known} part @returns {Known[]} */
  #near(part) {
    return this.#known.get(keyOf(part)) ?? [];
  }

  /** The parts of a piece of another text, if that may have some of these characters: a book has thousands that have none.
   * @param {Piece} piece */
  #partsOf(piece) {
    return this.#nodes.has(origin(this.nodes.get(piece.node) ?? { id: piece.node }).node)
      ? knownIn(piece, this.nodes)
      : [];
  }

  /**
   * Return the offsets behind the last of these characters that another text has: in that text and in this one. 0 if it has none.
   * @param {Piece[]} pieces
   */
  endIn(pieces) {
    for (let index = pieces.length - 1; index >= 0; index -= 1) {
      for (const part of this.#partsOf(pieces[index]).reverse()) {
        const { from, at } = part;
        const there = this.#near(part).filter((each) => each.at < endOf(part) && endOf(each) > at);
        if (there.length === 0) continue;
        const last = there.reduce((later, each) => (endOf(each) > endOf(later) ? each : later));
        const until = Math.min(endOf(last), endOf(part));
        return { at: from + until - at, end: last.from + until - last.at };
      }
    }
    return { at: 0, end: 0 };
  }

  /**
   * Return the first offset of another text, from one on, at which it has one of these characters; null if there is none.
   * @param {Piece[]} pieces
   * @param {number} least
   */
  beginIn(pieces, least) {
    for (const piece of pieces) {
      if (piece.to <= least) continue;
      for (const part of this.#partsOf(piece)) {
        const { from, at } = part;
        const begins = this.#near(part).flatMap((each) => {
          const begin = from + Math.max(each.at, at) - at;
          const end = from + Math.min(endOf(each), endOf(part)) - at;
          return begin < end && end > least ? [Math.max(begin, least)] : [];
        });
        if (begins.length > 0) return Math.min(...begins);
      }
    }
    return null;
  }

  /**
   * Return the ranges of another text that have none of these characters.
   * @param {Piece[]} pieces
   * @returns {Range[]}
   */
  lackedBy(pieces) {
    return pieces.flatMap((piece) => united(knownIn(piece, this.nodes).flatMap((part) => this.#outside(part))));
  }

  /** @param {Known} part @returns {Range[]} */
  #outside(part) {
    const { at, from, to, by } = part;
    const end = endOf(part);
    const outside = [];
    let left = at;
    for (const each of [...this.#near(part)].sort((a, b) => a.at - b.at)) {
      if (endOf(each) <= left) continue;
      if (each.at >= end) break;
      if (each.at > left) outside.push({ from: from + left - at, to: from + each.at - at, by });
      left = endOf(each);
    }
    if (left < end) outside.push({ from: from + left - at, to, by });
    return outside;
  }
}

/** @param {Known} part */
const endOf = ({ at, from, to }) => at + to - from;

/** @param {Known} part */
const keyOf = ({ node, was }) => `${node} ${was}`;

/** @param {Piece} piece @param {Map<string, Node>} nodes @returns {Known[]} */
export function knownIn({ from, to, node, start, by }, nodes) {
  const { text = "", ...copy } = nodes.get(node) ?? { id: node };
  const of = origin(copy);
  const now = nodes.get(of.node)?.text.slice(of.at) ?? text;
  const [first, last] = now.startsWith(text) ? [text.length, 0] : alike(text, now);
  const changed = text.length - last;
  const gone = [...Array(changed - first).keys()].map((index) => {
    const begin = first + index;
    return { begin, end: begin + 1, shift: 0, was: text[begin] ?? "" };
  });
  const parts = [
    { begin: 0, end: first, shift: 0, was: "" },
    ...gone,
    { begin: changed, end: text.length, shift: now.length - text.length, was: "" },
  ];
  return parts.flatMap(({ begin, end, shift, was }) => {
    const [low, high] = [Math.max(begin, start), Math.min(end, start + to - from)];
    if (low >= high) return [];
    return [{ from: from + low - start, to: from + high - start, by, node: of.node, at: of.at + low + shift, was }];
  });
}

/**
 * Return ranges with those as one that go on where another ends, in the text and in the node.
 * @template {Range & {at?: number}} Part
 * @param {Part[]} ranges
 * @returns {Part[]}
 */
function united(ranges) {
  /** @type {Part[]} */
  const all = [];
  for (const range of ranges) {
    const last = all.at(-1);
    const goesOn = last?.to === range.from && (last.at === undefined || last.at + last.to - last.from === range.at);
    if (last && goesOn) last.to = range.to;
    else all.push({ ...range });
  }
  return all;
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
    const { run } = story.nodes.get(piece.node) ?? {};
    return united(knownIn(piece, story.nodes)).flatMap((part) => {
      const [first, last] = [Math.max(from, part.from), Math.min(to, part.to)];
      let copied = part.at + first - part.from;
      return stretches(text.slice(first, last), LONGEST_NODE).map((each) => {
        copied += each.length;
        const of = { node: part.node, at: copied - each.length };
        return { text: each, by: piece.by, ...(run === undefined ? {} : { run }), of };
      });
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
  const [same] = alike(text, other);
  const there = new Characters(story.nodes, story.pieces(after.node, after.at));
  const lacking = there.lackedBy(story.pieces(before.node, before.at));
  const typed = lacking.filter(({ by, to }) => by === "person" && to > same); // else the same was typed again
  return typed.map(({ from, to }) => text.slice(from, to).trim()).filter((each) => each !== "");
}
