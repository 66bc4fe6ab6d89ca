/**
 * The number of words at a place of the story. A text differs from its parent's by one splice: where that one was counted, a key
 * costs what it changed, however long the story is.
 */

import { countWords } from "../keep/describe.js";
import { alike } from "../story/text.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{at: number, words: number, own: string}} Count   of a node's first `at` units, when its own text was `own` */

const KEPT = 1000; // nodes whose counts are known
const NEAR = 8; // a place with more splices after the last counted one is counted as a whole
const AROUND = 400; // units in which the space beside a word is looked for

export class WordCount {
  constructor() {
    /** @type {Map<string, Count>} */
    this.counts = new Map();
  }

  forget() {
    this.counts.clear();
  }

  /**
   * @param {Story} story @param {Place} place @param {number} [near] splices that may be counted on the way
   * @returns {number}
   */
  at(story, { node: id, at }, near = NEAR) {
    const node = story.nodes.get(id);
    if (!node) return 0;
    const words = this.bySplice(story, node, at, near) ?? countWords(story.text(id, at));
    if (this.counts.size >= KEPT) this.forget();
    this.counts.set(id, { at, words, own: node.text });
    return words;
  }

  /**
   * Count by way of the parent's text; null if that is not possible.
   * @param {Story} story @param {Node} node @param {number} at @param {number} near
   * @returns {number | null}
   */
  bySplice(story, { id, parent = "", keep = 0, text, tail }, at, near) {
    const isWhole = at === story.length(id);
    if (!isWhole && (tail !== undefined || at < keep)) return null;
    const base = this.count(story, parent, near);
    if (!base || base.at < (tail ?? keep)) return null;
    const before = story.text(parent, base.at);
    const from = spaceBefore(before, keep);
    const to = tail === undefined ? base.at : spaceAfter(before, tail);
    const after = before.slice(from, keep) + text.slice(0, at - keep) + before.slice(tail ?? to, to);
    return base.words - countWords(before.slice(from, to)) + countWords(after);
  }

  /**
   * Return the count of a node's whole text, made now if there is none.
   * @param {Story} story @param {string} id @param {number} near
   * @returns {{at: number, words: number} | null}
   */
  count(story, id, near) {
    if (id === "") return { at: 0, words: 0 };
    const known = this.counts.get(id);
    const at = story.length(id);
    if (known?.at === at && known.own === story.nodes.get(id)?.text) return known;
    if (near === 0) return null;
    return { at, words: this.at(story, { node: id, at }, near - 1) };
  }
}

/** The number of words before a place in a text: of one that was counted before, only those that are changed are counted again. */
export class WordsBefore {
  before = "";
  words = 0;

  /** @param {string} text @param {number} at @returns {number} */
  in(text, at) {
    const [was, now] = [this.before, text.slice(0, at)];
    const [first, last] = alike(was, now);
    const from = spaceBefore(now, first);
    const changed = (/** @type {string} */ each) => countWords(each.slice(from, spaceAfter(each, each.length - last)));
    this.words += changed(now) - changed(was);
    this.before = now;
    return this.words;
  }
}

/** The last space before an offset, near it. @param {string} text @param {number} at */
function spaceBefore(text, at) {
  const from = Math.max(0, at - AROUND);
  return from + Math.max(0, text.slice(from, at).search(/\s\S*$/u));
}

/** The first space from an offset on, near it. @param {string} text @param {number} at */
function spaceAfter(text, at) {
  const first = text.slice(at, at + AROUND).search(/\s/u);
  return first < 0 ? Math.min(text.length, at + AROUND) : at + first;
}
