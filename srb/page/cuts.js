// Cuts of a text: ends of words and sentences, and places where a text may be divided. Offsets are UTF-16 units.

/** Make a segmenter, or null where the browser has none. @param {"word"|"sentence"|"grapheme"} granularity */
function segmenter(granularity) {
  return typeof Intl !== "undefined" && "Segmenter" in Intl ? new Intl.Segmenter(undefined, { granularity }) : null;
}

const words = segmenter("word");
const graphemes = segmenter("grapheme");
const WINDOW = 400; // characters around an offset that are segmented: cost does not grow with the text
const SPACE = /[\s\u3000-\u3002\uff01-\uff0f\uff1a-\uff20]/u; // or a mark of a script without spaces
const WORD = /[\p{L}\p{N}\p{M}_]/u;
const SENTENCE_END = /[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？｡]["'”’」』）]*|[؟।](?=\s|$)|\n(?=\s*\n)/gu;

/** @typedef {{from: number, to: number, isWord: boolean}} Segment */

/** Yield words and what stands between them, from somewhere before `offset` on. @param {string} text @param {number} offset
 * @returns {Generator<Segment>} */
function* segments(text, offset) {
  const from = safeStart(text, offset - WINDOW);
  const part = text.slice(from, offset + WINDOW);
  if (words) {
    for (const each of words.segment(part)) {
      yield { from: from + each.index, to: from + each.index + each.segment.length, isWord: !!each.isWordLike };
    }
    return;
  }
  for (const each of part.matchAll(/[\p{L}\p{N}\p{M}_]+(?:['’][\p{L}\p{N}\p{M}_]+)*|\s+|./gsu)) {
    const isWord = WORD.test(each[0]);
    yield { from: from + each.index, to: from + each.index + each[0].length, isWord };
  }
}

/** A place at or before `at` where a word begins, so that segments there are those of the whole text. @param {string} text @param {number} at */
function safeStart(text, at) {
  if (at <= 0) return 0;
  for (let place = at; place > Math.max(0, at - WINDOW); place--) {
    if (SPACE.test(text.charAt(place)) && !SPACE.test(text.charAt(place - 1))) return place;
  }
  return onBoundary(text, at);
}

/** The end of the word at `offset`; in a space, of the word before it. @param {string} text @param {number} offset */
export function wordEndAt(text, offset) {
  const at = clamp(text, offset);
  let before = 0;
  for (const { from, to } of segments(text, at)) {
    if (from > at) break;
    if (isBlank(text, from, to)) {
      if (to > at) return before || to;
      continue;
    }
    before = to;
    if (to > at) return to;
  }
  return before;
}

/** The beginning of the word at `offset`, which may be its end. @param {string} text @param {number} offset */
export function wordStartAt(text, offset) {
  const at = clamp(text, offset);
  let start = at;
  for (const { from, to } of segments(text, at)) {
    if (from >= at) break;
    start = isBlank(text, from, to) ? to : from;
    if (to >= at && !isBlank(text, from, to)) return from;
  }
  return Math.min(start, at);
}

/** The end of the first word after `offset`; the text's end if there is none. @param {string} text @param {number} offset */
export function nextWord(text, offset) {
  let at = clamp(text, offset);
  while (at < text.length) {
    for (const { to, isWord } of segments(text, at)) {
      if (isWord && to > at) return to;
    }
    at = Math.min(text.length, at + WINDOW);
  }
  return text.length;
}

/** The end of the last word that ends before `offset`; 0 if there is none. @param {string} text @param {number} offset */
export function previousWord(text, offset) {
  let at = clamp(text, offset);
  for (;;) {
    let found = 0;
    for (const { to, isWord } of segments(text, at)) {
      if (to >= at) break;
      if (isWord) found = to;
    }
    if (found > 0 || at === 0) return found;
    at = Math.max(0, safeStart(text, at - WINDOW));
  }
}

/** The end of the first sentence that ends after `offset`, with its closing quotes; the text's end if there is none.
 * @param {string} text @param {number} offset */
export function sentenceEnd(text, offset) {
  const at = clamp(text, offset);
  SENTENCE_END.lastIndex = Math.max(0, at - 1);
  for (let found = SENTENCE_END.exec(text); found; found = SENTENCE_END.exec(text)) {
    const end = found.index + found[0].length;
    if (end > at && !isAbbreviation(text, found)) return text[found.index] === "\n" ? found.index : end;
  }
  return text.length;
}

const LONGEST_SENTENCE = 1000; // units before a place in which its sentence's beginning is looked for

/** Whether a sentence ends in a text, behind a word. @param {string} text */
export function hasSentence(text) {
  const word = text.search(/[\p{L}\p{N}]/u);
  const rest = text.slice(word);
  return word >= 0 && sentenceEnd(`${rest} A`, 0) <= rest.length; // what follows tells an abbreviation from an end
}

/** The sentence of a text in which a place stands, without the spaces before it. @param {string} text @param {number} at */
export function sentenceAt(text, at) {
  let from = onBoundary(text, Math.max(0, at - LONGEST_SENTENCE));
  for (let end = sentenceEnd(text, from); end <= at && end > from && end < text.length; end = sentenceEnd(text, from))
    from = end + (/\s*/u.exec(text.slice(end))?.[0].length ?? 0);
  return { from: Math.min(from, at), to: sentenceEnd(text, at) };
}

/** Whether a mark stands after a short title or initial, or before a lower-case letter. @param {string} text @param {RegExpExecArray} found */
function isAbbreviation(text, found) {
  if (found[0] === "\n" || !/^[.…]/.test(found[0]))
    return /^["'”’»]?\s+\p{Ll}/u.test(text.slice(found.index + 1, found.index + 8));
  const after = text.slice(found.index + found[0].length, found.index + found[0].length + 8);
  const before =
    /(?:^|[\s("“‘«])([\p{L}.]{1,5})$/u.exec(text.slice(Math.max(0, found.index - 8), found.index))?.[1] ?? "";
  return /^\s+\p{Ll}/u.test(after) || /^(?:Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|No|Nr|vs|\p{Lu}|\p{Lu}\.\p{Lu})$/u.test(before);
}

/** A place at or before `at` where the text may be cut: not inside a character, not after a space. Newlines stay.
 * @param {string} text @param {number} at */
export function trimCut(text, at) {
  let cut = onBoundary(text, clamp(text, at));
  while (cut > 0 && /[^\S\n\r]/u.test(text.charAt(cut - 1))) cut--;
  return cut;
}

/** The nearest place at or before `at` between two characters as people see them. @param {string} text @param {number} at */
export function onBoundary(text, at) {
  if (at <= 0 || at >= text.length) return clamp(text, at);
  if (graphemes) {
    let from = at - 1;
    while (from > 0 && from > at - 64 && (text.charCodeAt(from) > 0x7e || text.charCodeAt(from) < 0x20)) from--;
    if (isLow(text, from)) from--;
    const found = graphemes.segment(text.slice(from, at + 64)).containing(at - from);
    return found ? from + found.index : at;
  }
  let place = at;
  while (place > 0 && (isLow(text, place) || /\p{M}|\u200d/u.test(text.charAt(place)))) place--;
  return place;
}

/** Count the characters (code points) of the first `at` units. @param {string} text @param {number} at */
export function codePoints(text, at) {
  let count = 0;
  for (let place = 0; place < at; place++) {
    if (!isLow(text, place)) count++;
  }
  return count;
}

/** Return how many units the first `count` characters (code points) take. @param {string} text @param {number} count */
export function unitsOf(text, count) {
  let place = 0;
  for (let left = count; place < text.length && (left > 0 || isLow(text, place)); place++)
    if (!isLow(text, place)) left--;
  return place;
}

/** Whether the unit at a place is the second half of a surrogate pair. @param {string} text @param {number} at */
function isLow(text, at) {
  return at > 0 && (text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800;
}

/** @param {string} text @param {number} from @param {number} to */
function isBlank(text, from, to) {
  return !/\S/u.test(text.slice(from, to));
}

/** @param {string} text @param {number} at */
function clamp(text, at) {
  return Math.max(0, Math.min(text.length, at));
}
