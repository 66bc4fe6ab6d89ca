/** A text as a voice reads it. */

import { sentenceEnd } from "./cuts.js";
import { wordsOf } from "./markdown.js";
import { withoutMarkers } from "./markers.js";

const LONGEST = 300; // characters of one piece: the voices of some browsers fall silent in the midst of longer ones

/** Yield a text's sentences without the signs that nobody reads; a long one in several pieces. @param {string} text */
export function* piecesOf(text) {
  for (const line of withoutMarkers(text, (name) => name).split("\n")) {
    const words = wordsOf(line);
    for (let from = 0, to = 0; from < words.length; from = to) {
      to = sentenceEnd(words, from);
      if (to - from > LONGEST) to = from + LONGEST;
      const space = to < words.length ? words.lastIndexOf(" ", to) + 1 : to;
      if (space > from) to = space;
      const piece = words.slice(from, to).trim();
      if (/[\p{L}\p{N}]/u.test(piece)) yield piece;
    }
  }
}
