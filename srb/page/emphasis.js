/**
 * Emphasis put on, or taken off, a part of a line by Markdown's signs. The words stay as they are and where they are: only signs
 * come and go, so that the story keeps who wrote which word.
 */

import { BITS, LONGEST, readLine, SIGNS, stylesOf } from "./markdown.js";

/** @typedef {import("./markdown.js").Kind} Kind */
/** @typedef {import("./markdown.js").Range} Range */
/** @typedef {{from: number, to: number, insert: string}} Change */
/** @typedef {{style: number, isSpace: boolean}} Look  of a unit, or of several that are alike */
/** @typedef {Look & {at: number}} Unit  a UTF-16 unit of the words, and its emphasis */

/** @type {Kind[]} */
const KINDS = ["em", "strong"];
const IN_WORD = /[\p{L}\p{M}\p{N}'’]/u;
const SIGN = /^[\p{P}\p{S}]$/u;
const HEADING = /^#{1,6}[ \t]+[^ \t]/;

/**
 * Whether all words of a part have an emphasis; null if it has no words.
 * @param {string} text  of a line
 * @param {Range} part
 * @param {Kind} kind
 */
export function isEmphasised(text, part, kind) {
  const units = unitsOf(text).filter((unit) => !unit.isSpace && unit.at >= part.from && unit.at < part.to);
  return units.length === 0 ? null : units.every(({ style }) => (style & BITS[kind]) > 0);
}

/**
 * Return the changes of a line that give a part of it an emphasis or take it away; null where Markdown has no signs for that, as
 * inside a word beside a quotation mark.
 * @param {string} text
 * @param {Range} part
 * @param {Kind} kind
 * @param {boolean} on
 * @returns {Change[] | null}
 */
export function emphasised(text, part, kind, on) {
  const line = readLine(text);
  if (line.kind === "break") return null;
  const bit = BITS[kind];
  const region = around(line, part);
  const all = unitsOf(text, line);
  for (const unit of all) {
    if (unit.at < part.from || unit.at >= part.to) continue;
    unit.style = on ? unit.style | bit : unit.style & ~bit;
  }
  const inRegion = all.filter(({ at }) => at >= region.from && at < region.to);
  const changes = changesOf(text, region, inRegion);
  return stylesOfWords(unitsOf(changed(text, changes))) === stylesOfWords(all) ? changes : null;
}

/** @param {Unit[]} units */
const stylesOfWords = (units) =>
  units
    .filter(({ isSpace }) => !isSpace)
    .map(({ style }) => style)
    .join("");

/**
 * Return the word that a place of a line lies inside of, not only at; null if there is none.
 * @param {string} text
 * @param {number} at
 * @returns {Range | null}
 */
export function wordAround(text, at) {
  let [from, to] = [at, at];
  while (IN_WORD.test(text[from - 1] ?? "")) from -= 1;
  while (IN_WORD.test(text[to] ?? "")) to += 1;
  return from < at && at < to ? { from, to } : null;
}

/** @param {string} text @param {Change[]} changes in their order */
export function changed(text, changes) {
  return [...changes]
    .reverse()
    .reduce((now, { from, to, insert }) => now.slice(0, from) + insert + now.slice(to), text);
}

/** The units of a line that are no signs of emphasis. @param {string} text @returns {Unit[]} */
function unitsOf(text, line = readLine(text)) {
  const styles = stylesOf(text, line);
  const escapes = new Set(line.escapes);
  const units = [];
  let sign = 0;
  for (let at = line.from; at < line.to; at += 1) {
    while ((line.signs[sign]?.to ?? Number.POSITIVE_INFINITY) <= at) sign += 1;
    if ((line.signs[sign]?.from ?? Number.POSITIVE_INFINITY) <= at && !escapes.has(at)) continue;
    units.push({ at, style: styles[at], isSpace: /\s/u.test(text[at]) });
  }
  return units;
}

/** The part with all emphasis that it touches, with its signs. @param {import("./markdown.js").Line} line @param {Range} part @returns {Range} */
function around(line, part) {
  let [from, to] = [Math.max(part.from, line.from), Math.min(part.to, line.to)];
  for (let grows = true; grows; ) {
    grows = false;
    for (const span of line.spans) {
      const [first, end] = [span.from - span.size, span.to + span.size];
      if (first > to || end < from || (first >= from && end <= to)) continue;
      [from, to, grows] = [Math.min(from, first), Math.max(to, end), true];
    }
  }
  return { from, to };
}

/** The changes that put the signs of all units' styles between them. @param {string} text @param {Range} region @param {Unit[]} units */
function changesOf(text, region, units) {
  /** @type {Change[]} */
  const changes = [];
  let end = region.from; // of the unit before
  for (const [place, { closing, opening }] of signsOf(units).entries()) {
    const to = units[place]?.at ?? region.to;
    if (text.slice(end, to) !== closing + opening) changes.push({ from: end, to, insert: closing + opening });
    end = to + 1;
  }
  return changes;
}

/**
 * The signs before each unit, and behind the last one, that give all of them their styles.
 * @param {Look[]} units
 * @param {boolean} [isExact]  an emphasis does not go on over spaces that are without it
 */
function signsOf(units, isExact = false) {
  const words = units.filter((unit) => !unit.isSpace);
  /** @type {Kind[]} */
  const open = []; // from the outer one to the inner one
  let index = 0; // in `words`
  const spaces = (/** @type {Look} */ unit, /** @type {number} */ place) => {
    let style = isExact && unit.isSpace ? 0 : ~0;
    for (let at = place; style !== ~0 && units[at]?.isSpace; at += 1) style |= Number(units[at]?.style);
    return style;
  };
  const signs = units.map((unit, place) => {
    const isBehindWord = units[place - 1]?.isSpace === false;
    const closing = isBehindWord ? closed(open, (words[index]?.style ?? 0) & spaces(unit, place)) : "";
    const opening = unit.isSpace ? "" : opened(open, words, index);
    if (!unit.isSpace) index += 1;
    return { closing, opening };
  });
  return [...signs, { closing: closed(open, 0), opening: "" }];
}

/** Close what the next word has not. @param {Kind[]} open @param {number} style */
function closed(open, style) {
  const outer = open.findIndex((kind) => (style & BITS[kind]) === 0);
  return outer < 0
    ? ""
    : open
        .splice(outer)
        .reverse()
        .map((kind) => SIGNS[kind])
        .join("");
}

/** Open what a word has more, what lasts longer first. @param {Kind[]} open @param {Look[]} words @param {number} index */
function opened(open, words, index) {
  const style = words[index]?.style ?? 0;
  const more = KINDS.filter((kind) => (style & BITS[kind]) > 0 && !open.includes(kind));
  if (more.length > 1 && lasting(words, index, "strong") > lasting(words, index, "em")) more.reverse();
  open.push(...more);
  return more.map((kind) => SIGNS[kind]).join("");
}

/** @param {Look[]} words @param {number} index @param {Kind} kind @returns {number} where an emphasis ends */
function lasting(words, index, kind) {
  let end = index;
  while (end < words.length && (Number(words[end]?.style) & BITS[kind]) > 0) end += 1;
  return end;
}

/** @typedef {{text: string, style: number}} Run  `style`: bits of its emphasis */
/**
 * @typedef {Run & {isSpace: boolean, from: number, out: number, at: number}} Piece  words of one look, or spaces: `from` in the words, `out` in
 *   the line behind the signs that close before it, `at` behind those that open
 */

/**
 * Return words of another program as a line of Markdown: with the signs of their emphasis, and with a backslash before those of their
 * own characters that would be signs. Where Markdown has no signs for an emphasis, as inside a word beside a quotation mark, the
 * quotation mark goes without; where that does not help, the line goes without bold, or without any.
 * @param {Run[]} runs  without line ends
 * @param {boolean} [isHeading]  the signs of one will stand before them
 * @returns {{text: string, placeOf: (at: number) => number, isWhole: boolean}} `placeOf`: where a unit of the words, or their end, is in
 *   the text; `isWhole`: the words have all of their emphasis
 */
export function written(runs, isHeading = false) {
  const words = runs.map((run) => run.text).join("");
  const isPlain = runs.every(({ text, style }) => style === 0 || text.trim() === "");
  if (words.length > LONGEST) return { text: words, placeOf: (at) => at, isWhole: isPlain };
  if (isPlain) return plainly(words, isHeading, true);
  for (const mend of MENDS) {
    const pieces = piecesOf(mend(runs));
    if (pieces.every(({ style, isSpace }) => style === 0 || isSpace)) break;
    const { text, added } = joined(pieces, isHeading);
    if (!isReadAs(text, added, pieces)) continue;
    const placeOf = (/** @type {number} */ at) => {
      const piece = pieces.findLast(({ from }) => from <= at);
      if (at >= words.length || !piece) return text.length;
      return piece.from === at ? piece.out : piece.at + escaped(words, piece.from, at).length;
    };
    return { text, placeOf, isWhole: mend === MENDS[0] };
  }
  return plainly(words, isHeading, false);
}

/** Words without emphasis: nothing is before their signs where these mean nothing. @param {string} words @param {boolean} isHeading @param {boolean} isWhole */
function plainly(words, isHeading, isWhole) {
  const sign = !isHeading && HEADING.test(words) ? "\\" : "";
  const isSigned = /[*_]/.test(words) && hasEmphasis(words);
  const before = (/** @type {number} */ to) => (isSigned ? escaped(words, 0, to) : words.slice(0, to));
  const placeOf = (/** @type {number} */ at) => before(at).length + (at > 0 ? sign.length : 0);
  return { text: sign + before(words.length), placeOf, isWhole };
}

/** Whether words would be read with an emphasis, or without a backslash. @param {string} words */
function hasEmphasis(words) {
  const { kind, signs } = readLine(words);
  return kind !== "break" && signs.some(({ from }) => /[*_\\]/.test(words[from] ?? ""));
}

/** A part of words with backslashes before its signs; an underscore inside a word is a letter. @param {string} words @param {number} from @param {number} to */
function escaped(words, from, to) {
  return words.slice(from, to).replace(/[*_]/g, (sign, index) => {
    const at = from + index;
    const isLetter = sign === "_" && IN_WORD.test(words[at - 1] ?? "") && IN_WORD.test(words[at + 1] ?? "");
    return isLetter ? sign : `\\${sign}`;
  });
}

/** Runs as words and the spaces around them, each neighbour of another look. @param {Run[]} runs @returns {Piece[]} */
function piecesOf(runs) {
  /** @type {Piece[]} */
  const pieces = [];
  let from = 0;
  for (const { text, style } of runs) {
    for (const [part] of text.matchAll(/^\s+|\s+$|\S(?:.*\S)?/gsu)) {
      const isSpace = part.trim() === "";
      const last = pieces.at(-1);
      if (last && last.style === style && last.isSpace === isSpace) last.text += part;
      else pieces.push({ text: part, style, isSpace, from, out: 0, at: 0 });
      from += part.length;
    }
  }
  return pieces;
}

/** The line of pieces, and the length of all signs in it. @param {Piece[]} pieces @param {boolean} isHeading */
function joined(pieces, isHeading) {
  const words = pieces.map((piece) => piece.text).join("");
  const signs = signsOf(pieces, true);
  let text = "";
  let added = 0;
  for (const [index, { closing, opening }] of signs.entries()) {
    text += closing + opening;
    added += closing.length + opening.length;
    const piece = pieces[index];
    if (!piece) continue;
    piece.out = text.length - opening.length;
    if (index === 0 && piece.style === 0 && !isHeading && HEADING.test(words)) {
      text += "\\"; // no words begin behind spaces
      added += 1;
    }
    piece.at = text.length;
    const own = escaped(words, piece.from, piece.from + piece.text.length);
    added += own.length - piece.text.length;
    text += own;
  }
  return { text, added };
}

/** Whether a line is read as its pieces: with their looks, and with no other signs. @param {string} text @param {number} added @param {Piece[]} pieces */
function isReadAs(text, added, pieces) {
  const line = readLine(text);
  if (line.kind !== "text" || line.signs.reduce((sum, { from, to }) => sum + to - from, 0) !== added) return false;
  const styles = stylesOf(text, line);
  let sign = 0;
  let at = 0;
  for (const { text: words, style, isSpace } of pieces) {
    for (let unit = 0; unit < words.length; unit += 1) {
      while (line.signs[sign] && Number(line.signs[sign]?.from) <= at) {
        at = Number(line.signs[sign]?.to);
        sign += 1;
      }
      if (!isSpace && styles[at] !== style) return false;
      at += 1;
    }
  }
  return true;
}

/** Runs whose emphasis leaves out a sign at its end that stands beside a letter. @param {Run[]} runs @returns {Run[]} */
function trimmed(runs) {
  let all = runs;
  for (const kind of KINDS) {
    const bit = BITS[kind];
    all = all.flatMap(({ text, style }, index) => {
      if ((style & bit) === 0) return [{ text, style }];
      const [before, after] = [all[index - 1], all[index + 1]];
      const [first = "", last = ""] = [[...text][0], [...text].at(-1)];
      const isFirst =
        before && (before.style & bit) === 0 && IN_WORD.test(before.text.at(-1) ?? "") && SIGN.test(first);
      const isLast = after && (after.style & bit) === 0 && IN_WORD.test(after.text[0] ?? "") && SIGN.test(last);
      if (text === first) return [{ text, style: isFirst || isLast ? style & ~bit : style }];
      const middle = text.slice(isFirst ? first.length : 0, isLast ? -last.length : undefined);
      return [
        ...(isFirst ? [{ text: first, style: style & ~bit }] : []),
        { text: middle, style },
        ...(isLast ? [{ text: last, style: style & ~bit }] : []),
      ];
    });
  }
  return all;
}

/** @param {Kind} kind @returns {(runs: Run[]) => Run[]} */
const without = (kind) => (runs) => runs.map(({ text, style }) => ({ text, style: style & ~BITS[kind] }));

/** What is tried in turn, until a line is read as it is meant. @type {((runs: Run[]) => Run[])[]} */
const MENDS = [(runs) => runs, trimmed, without("strong"), without("em")];
