// Sentences of a branch that the text before it has already. Pure; cost grows with what is new.

import { sentenceEnd } from "./cuts.js";

const MOST = 60_000; // characters before a branch that are looked through, in some milliseconds: a chapter or two
const LONGEST = 2000; // characters of a sentence: what has no end until then is compared with nothing
const LEAST_WORDS = 4; // shorter ones come again in any prose: "She nodded."
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff]{6}/u; // as long without spaces between words

const CLOSED = /(?:[.!?…。！？｡؟।]["'”’»」』）)\]]*|\n)\s*$/u; // the end of a text that no sentence is left open at

/** The sentences before a branch, and the beginning of one that the branch goes on with.
 * @typedef {{sentences: Set<string>, open: string}} Before */

/** @param {string} text the manuscript up to the branch @returns {Before} */
export function sentencesBefore(text) {
  const near = text.slice(-MOST);
  /** @type {Set<string>} */
  const sentences = new Set();
  let open = "";
  for (let at = begin(near, 0); at < near.length; ) {
    const end = sentenceEnd(near, at);
    const sentence = near.slice(at, end);
    if (end < near.length || CLOSED.test(sentence)) sentences.add(keyOf(sentence));
    else open = sentence.slice(-LONGEST);
    at = begin(near, end);
  }
  sentences.delete("");
  return { sentences, open };
}

/** The sentences of a growing text that stand before it already. */
export class Repeats {
  /** @param {Before} before */
  constructor(before) {
    this.before = before;
    /** @type {{from: number, to: number}[]} */
    this.ranges = [];
    this.at = 0; // up to where sentences have been looked up
  }

  /** Look up the sentences that have ended. @param {string} text that of the last call and more, or a new one from its beginning
   * @param {boolean} isWhole */
  follow(text, isWhole) {
    const { sentences, open } = this.before;
    if (text.length < this.at) Object.assign(this, new Repeats(this.before)); // another branch's text
    while (sentences.size) {
      const from = begin(text, this.at);
      const given = this.at ? "" : open;
      const start = given ? 0 : from;
      const part = given + text.slice(start, from + LONGEST);
      const length = sentenceEnd(part, given.length);
      const to = start + length - given.length;
      if (from >= text.length || (begin(text, to) >= text.length && !isWhole)) return; // what follows says whether a mark ends it
      if (to > from && sentences.has(keyOf(part.slice(0, length)))) this.ranges.push({ from, to });
      this.at = Math.max(to, 1); // an empty line ends what was open before any letter
    }
  }
}

/** Where a sentence begins: at the next character that is no space. @param {string} text @param {number} at */
function begin(text, at) {
  const space = /\s*/uy;
  space.lastIndex = at;
  space.exec(text);
  return space.lastIndex;
}

/** A sentence's words, alike whatever its marks and capitals; "" if it is too short to tell anything. @param {string} sentence */
function keyOf(sentence) {
  const words = sentence.toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  return words.length >= LEAST_WORDS || UNSPACED.test(sentence) ? words.join(" ") : "";
}
