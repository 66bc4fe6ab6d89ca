/**
 * Emphasis put on, or taken off, a part of a line by Markdown's signs. The words stay as they are and where they are: only signs
 * come and go, so that the story keeps who wrote which word.
 */

import { BITS, LONGEST, readLine, SIGNS, stylesOf } from "./markdown.js";

/** @typedef {import("./markdown.js").Kind} Kind */
/** @typedef {import("./markdown.js").Range} Range */
/** @typedef {{from: number, to: number, insert: string}} Change */
/** @typedef {{at: number, style: number, isSpace: boolean}} Unit  a UTF-16 unit of the words, and its emphasis */

/** @type {Kind[]} */
const KINDS = ["em", "strong"];
const IN_WORD = /[\p{L}\p{M}\p{N}'’]/u;
const SIGN = /[\p{P}\p{S}]/u;

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
function changesOf(text, region, units, signs = signsOf(units)) {
  /** @type {Change[]} */
  const changes = [];
  let end = region.from; // of the unit before
  for (const [place, { closing, opening }] of signs.entries()) {
    const to = units[place]?.at ?? region.to;
    if (text.slice(end, to) !== closing + opening) changes.push({ from: end, to, insert: closing + opening });
    end = to + 1;
  }
  return changes;
}

/**
 * The signs before each unit, and behind the last one, that give all of them their styles.
 * @param {Unit[]} units
 * @param {boolean} [isExact]  an emphasis does not go on over spaces that are without it
 */
function signsOf(units, isExact = false) {
  const words = units.filter((unit) => !unit.isSpace);
  /** @type {Kind[]} */
  const open = []; // from the outer one to the inner one
  let index = 0; // in `words`
  const spaces = (/** @type {Unit} */ unit, /** @type {number} */ place) => {
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

/** Open what a word has more, what lasts longer first. @param {Kind[]} open @param {Unit[]} words @param {number} index */
function opened(open, words, index) {
  const style = words[index]?.style ?? 0;
  const more = KINDS.filter((kind) => (style & BITS[kind]) > 0 && !open.includes(kind));
  if (more.length > 1 && lasting(words, index, "strong") > lasting(words, index, "em")) more.reverse();
  open.push(...more);
  return more.map((kind) => SIGNS[kind]).join("");
}

/** @param {Unit[]} words @param {number} index @param {Kind} kind @returns {number} where an emphasis ends */
function lasting(words, index, kind) {
  let end = index;
  while (end < words.length && (Number(words[end]?.style) & BITS[kind]) > 0) end += 1;
  return end;
}

/**
 * Return words of another program as a line of Markdown: with the signs of their emphasis, and with a backslash before those of their
 * own characters that would be signs. Where Markdown has no signs for an emphasis, as inside a word beside a quotation mark, the
 * quotation mark goes without; where that does not help, the line goes without bold, or without any.
 * @param {string} words  without line ends
 * @param {ArrayLike<number>} styles  bits of each UTF-16 unit
 * @param {boolean} [isHeading]  the signs of one will stand before them
 * @returns {{text: string, places: number[], isWhole: boolean}} `places`: where each unit of the words, and their end, is in the text;
 *   `isWhole`: the words have all of their emphasis
 */
export function written(words, styles, isHeading = false) {
  const { length } = words;
  if (length > LONGEST)
    return { text: words, places: Array.from({ length: length + 1 }, (_, at) => at), isWhole: false };
  const isPlain = !Array.prototype.some.call(styles, (style, at) => style !== 0 && !/\s/u.test(words.charAt(at)));
  const { text, at, units } = escaped(words, styles, isPlain && !hasSigns(words), isHeading);
  const wanted = stylesOfWords(units);
  for (const mend of [() => {}, trim, without("strong"), without("em")]) {
    mend(text, units);
    const signs = signsOf(units, true);
    const line = changed(text, changesOf(text, { from: 0, to: text.length }, units, signs));
    if (stylesOfWords(unitsOf(line)) !== stylesOfWords(units)) continue;
    if (!isPlain && units.every(({ style, isSpace }) => style === 0 || isSpace)) break;
    let added = 0;
    const moved = signs.map(({ closing, opening }, place) => {
      const before = place + added + closing.length; // between the signs that close and those that open
      added += closing.length + opening.length;
      return before;
    });
    return { text: line, places: at.map((place) => moved[place] ?? 0), isWhole: stylesOfWords(units) === wanted };
  }
  return isPlain
    ? { text, places: at, isWhole: true }
    : { ...written(words, new Uint8Array(length), isHeading), isWhole: false };
}

/** Whether words would be read as signs. @param {string} words */
function hasSigns(words) {
  const { kind, signs } = readLine(words);
  return kind !== "break" && signs.length > 0;
}

/** Words with backslashes, where each of their units and their end is, and all units. @param {string} words @param {ArrayLike<number>} styles @param {boolean} isPlain @param {boolean} isHeading */
function escaped(words, styles, isPlain, isHeading) {
  const heading = isPlain || isHeading ? -1 : Number(/^ {0,3}(?=#{1,6}[ \t])/.exec(words)?.[0].length ?? -1);
  let text = "";
  const at = [];
  /** @type {Unit[]} */
  const units = [];
  const put = (/** @type {string} */ sign, /** @type {number} */ style) => {
    units.push({ at: text.length, style, isSpace: /\s/u.test(sign) });
    text += sign;
  };
  for (let place = 0; place < words.length; place += 1) {
    const sign = words.charAt(place);
    const style = Number(styles[place]);
    at.push(text.length);
    if ((place === heading && style === 0) || (!isPlain && isSign(words, place))) put("\\", style);
    put(sign, style);
  }
  return { text, at: [...at, text.length], units };
}

/** An underscore inside a word is a letter. @param {string} words @param {number} at */
function isSign(words, at) {
  const sign = words.charAt(at);
  if (sign === "*") return true;
  return sign === "_" && !(IN_WORD.test(words[at - 1] ?? "") && IN_WORD.test(words[at + 1] ?? ""));
}

/** Take an emphasis from signs at its ends that stand beside a letter. @param {string} text @param {Unit[]} units */
function trim(text, units) {
  for (const kind of KINDS) {
    for (const step of [1, -1]) {
      const first = step === 1 ? 0 : units.length - 1;
      for (let place = first; units[place]; place += step) {
        const [unit, outside] = [/** @type {Unit} */ (units[place]), units[place - step]];
        const begins = (unit.style & BITS[kind]) > 0 && outside && (outside.style & BITS[kind]) === 0;
        if (begins && SIGN.test(text[unit.at] ?? "") && IN_WORD.test(text[outside.at] ?? "")) unit.style &= ~BITS[kind];
      }
    }
  }
}

/** @param {Kind} kind @returns {(text: string, units: Unit[]) => void} */
const without = (kind) => (_text, units) => {
  for (const unit of units) unit.style &= ~BITS[kind];
};
