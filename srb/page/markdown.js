/**
 * The Markdown that prose is written with: emphasis, headings, and breaks between scenes. The text itself keeps its signs; this
 * module says where they stand, for the editor and for every format that prints the story.
 *
 * A line is a paragraph, as everywhere in a story, so no emphasis goes beyond its line. Emphasis is read by the rules of
 * CommonMark 0.31 ("emphasis and strong emphasis"), without its other inline signs: a backslash takes the meaning of `*` and `_`
 * alone, and of a heading's first `#`; a picture's marker is read as one thing. Lists, quotes and code are no part of prose: their signs are text.
 */

import { markersOf } from "./markers.js";

/** @typedef {"em" | "strong"} Kind */
/** @typedef {{kind: Kind, from: number, to: number, size: number}} Span  without its signs, `size` units long, on both sides */
/** @typedef {{from: number, to: number}} Range */
/**
 * @typedef {object} Line
 * @property {"text" | "heading" | "break"} kind
 * @property {number} level  of a heading: 1 to 6; else 0
 * @property {number} from  where its words begin
 * @property {number} to  and end
 * @property {Span[]} spans  an inner one before those around it
 * @property {Range[]} signs  all that is no word, in the order of the text
 * @property {number[]} escapes  the backslashes among them
 */
/** @typedef {{text: string, em: boolean, strong: boolean}} Run */
/** @typedef {Run & {at: number}} PlacedRun */
/**
 * @typedef {object} Delimiter  a run of `*` or `_`, of which `from` to `to` is not used yet
 * @property {string} sign
 * @property {number} start
 * @property {number} from
 * @property {number} to
 * @property {boolean} opens
 * @property {boolean} closes
 * @property {number} length
 */

/** @type {Record<Kind, string>} */
export const SIGNS = { em: "*", strong: "**" };
/** A longer line is read as words alone: the visible lines are read at each key. */
export const LONGEST = 100_000;

const MARKED = /\\[*_]|\*+|_+/g;
const BREAK = /^(?!\*{4}$) {0,3}([*_-])[ \t]*(?:\1[ \t]*){2,}$/; // but not the signs of bold in which nothing is written yet
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const NO_HEADING = /^ {0,3}\\(?=#{1,6}[ \t])/; // words that begin like one
const SPACE = /^\s$/u;
const PUNCTUATION = /^[\p{P}\p{S}]$/u;

/**
 * @param {string} text  without line ends
 * @returns {Line}
 */
export function readLine(text) {
  if (text.length > LONGEST) return lineOf("text", 0, 0, text.length);
  if (BREAK.test(text))
    return { ...lineOf("break", 0, text.length, text.length), signs: [{ from: 0, to: text.length }] };
  const { level, from, to } = headingOf(text);
  const line = lineOf(level > 0 ? "heading" : "text", level, from, to);
  const escape = Number(NO_HEADING.exec(text)?.[0].length) - 1;
  if (escape >= 0) {
    line.signs.push({ from: escape, to: escape + 1 });
    line.escapes.push(escape);
  }
  readEmphasis(text, line);
  if (from > 0) line.signs.unshift({ from: 0, to: from });
  if (to < text.length && level > 0) line.signs.push({ from: to, to: text.length });
  return line;
}

/** @param {Line["kind"]} kind @param {number} level @param {number} from @param {number} to @returns {Line} */
const lineOf = (kind, level, from, to) => ({ kind, level, from, to, spans: [], signs: [], escapes: [] });

/** @param {string} text */
function headingOf(text) {
  const none = { level: 0, from: 0, to: text.length };
  const [all = "", signs = ""] = HEADING.exec(text) ?? [];
  if (all === "") return none;
  const words = text.trimEnd();
  let closing = words.length;
  while (words[closing - 1] === "#") closing -= 1;
  const to = /[ \t]/.test(words[closing - 1] ?? "") ? words.slice(0, closing).trimEnd().length : words.length;
  return to > all.length ? { level: signs.length, from: all.length, to } : none; // signs without words are text
}

/** Find a line's emphasis, and put it with its signs into the line. @param {string} text @param {Line} line */
function readEmphasis(text, line) {
  if (!/[*_]/.test(text)) return;
  /** @type {Delimiter[]} */
  const openers = [];
  /** @type {Map<string, number>} before which place no opener is, by the kind of what would close it */
  const bottoms = new Map();
  for (const delimiter of delimitersOf(text, line)) {
    if (delimiter.closes) close(delimiter, openers, bottoms, line);
    if (delimiter.opens && delimiter.to > delimiter.from) openers.push(delimiter);
  }
  line.signs.sort((a, b) => a.from - b.from);
}

/** @param {string} text @param {Line} line gets the backslashes among them @returns {Delimiter[]} */
function delimitersOf(text, { from, to, signs, escapes }) {
  const markers = markersOf(text);
  const found = [];
  for (const { 0: all, index: at } of text.matchAll(MARKED)) {
    while (markers[0] && markers[0].to <= at) markers.shift();
    if (at < from || at >= to || (markers[0] && markers[0].from <= at)) continue;
    if (all[0] === "\\") {
      signs.push({ from: at, to: at + 1 });
      escapes.push(at);
    } else found.push(delimiter(text, at, all, { from, to }));
  }
  return found;
}

/** @param {string} text @param {number} at @param {string} all @param {Range} words @returns {Delimiter} */
function delimiter(text, at, all, words) {
  const end = at + all.length;
  const before = at > words.from ? [...text.slice(Math.max(words.from, at - 2), at)].at(-1) : " ";
  const after = end < words.to ? String.fromCodePoint(text.codePointAt(end) ?? 32) : " ";
  const [isSpaceBefore, isSpaceAfter] = [SPACE.test(before ?? " "), SPACE.test(after)];
  const [isSignBefore, isSignAfter] = [PUNCTUATION.test(before ?? " "), PUNCTUATION.test(after)];
  const isLeft = !isSpaceAfter && (!isSignAfter || isSpaceBefore || isSignBefore);
  const isRight = !isSpaceBefore && (!isSignBefore || isSpaceAfter || isSignAfter);
  const isWithin = all[0] === "_"; // an underscore inside a word is a letter
  return {
    sign: all[0] ?? "",
    start: at,
    from: at,
    to: end,
    opens: isLeft && (!isWithin || !isRight || isSignBefore),
    closes: isRight && (!isWithin || !isLeft || isSignAfter),
    length: all.length,
  };
}

/** Close what a run of signs can close. @param {Delimiter} closer @param {Delimiter[]} openers @param {Map<string, number>} bottoms @param {Line} line */
function close(closer, openers, bottoms, { spans, signs }) {
  const kind = `${closer.sign}${closer.opens}${closer.length % 3}`;
  while (closer.to > closer.from) {
    const index = openerOf(closer, openers, bottoms.get(kind) ?? -1);
    if (index < 0) {
      bottoms.set(kind, closer.start);
      return;
    }
    openers.length = index + 1; // those between are text
    const opener = /** @type {Delimiter} */ (openers[index]);
    const size = opener.to - opener.from >= 2 && closer.to - closer.from >= 2 ? 2 : 1;
    spans.push({ kind: size === 2 ? "strong" : "em", from: opener.to, to: closer.from, size });
    signs.push({ from: opener.to - size, to: opener.to }, { from: closer.from, to: closer.from + size });
    opener.to -= size;
    closer.from += size;
    if (opener.to === opener.from) openers.pop();
  }
}

/** @param {Delimiter} closer @param {Delimiter[]} openers @param {number} bottom @returns {number} its index, or -1 */
function openerOf(closer, openers, bottom) {
  for (let index = openers.length - 1; index >= 0; index -= 1) {
    const opener = /** @type {Delimiter} */ (openers[index]);
    if (opener.start < bottom) return -1;
    const isOdd =
      (opener.closes || closer.opens) &&
      (opener.length + closer.length) % 3 === 0 &&
      (opener.length % 3 !== 0 || closer.length % 3 !== 0);
    if (opener.sign === closer.sign && !isOdd) return index;
  }
  return -1;
}

/** Bits of `stylesOf`. @type {Record<Kind, number>} */
export const BITS = { em: 1, strong: 2 };

/**
 * Return the emphasis of each unit of a line.
 * @param {string} text @param {Line} line
 * @returns {Uint8Array}
 */
export function stylesOf({ length }, { spans }) {
  const styles = new Uint8Array(length);
  for (const kind of /** @type {Kind[]} */ (["em", "strong"])) {
    const steps = new Int32Array(length + 1); // spans that begin, less those that end
    for (const span of spans) {
      if (span.kind !== kind) continue;
      steps[span.from] += 1;
      steps[span.to] -= 1;
    }
    for (let at = 0, depth = 0; at < length; at += 1) {
      depth += steps[at];
      if (depth > 0) styles[at] |= BITS[kind];
    }
  }
  return styles;
}

/**
 * Return a line's words without its signs, cut where their emphasis changes.
 * @param {string} text
 * @returns {Run[]}
 */
export const runsOf = (text) => placedRunsOf(text).map(({ at: _at, ...run }) => run);

/**
 * Return the same with the places where they begin in the line, cut also at other places.
 * @param {string} text
 * @param {number[]} [cuts]
 * @returns {PlacedRun[]}
 */
export function placedRunsOf(text, cuts = []) {
  const line = readLine(text);
  const styles = stylesOf(text, line);
  /** @type {PlacedRun[]} */
  const runs = [];
  let at = line.from;
  for (const { from, to } of [...line.signs, { from: line.to, to: line.to }]) {
    while (at < from) {
      let end = at + 1;
      while (end < from && styles[end] === styles[at] && !cuts.includes(end)) end += 1;
      const begins = runs.at(-1)?.at ?? 0;
      const isCut = cuts.some((cut) => cut > begins && cut <= at);
      add(runs, { text: text.slice(at, end), at }, styles[at], isCut);
      at = end;
    }
    at = Math.max(at, to);
  }
  return runs;
}

/** @param {PlacedRun[]} runs @param {{text: string, at: number}} words @param {number} style @param {boolean} isCut */
function add(runs, words, style, isCut) {
  const [em, strong] = [(style & BITS.em) > 0, (style & BITS.strong) > 0];
  const last = runs.at(-1);
  if (last && !isCut && last.em === em && last.strong === strong) last.text += words.text;
  else runs.push({ ...words, em, strong });
}

/** Return a line's words alone. @param {string} text */
export function wordsOf(text) {
  return runsOf(text)
    .map((run) => run.text)
    .join("");
}
