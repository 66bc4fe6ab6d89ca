/**
 * Emphasis put on, or taken off, a part of a line by Markdown's signs. The words stay as they are and where they are: only signs
 * come and go, so that the story keeps who wrote which word.
 */

import { BITS, readLine, SIGNS, stylesOf } from "./markdown.js";

/** @typedef {import("./markdown.js").Kind} Kind */
/** @typedef {import("./markdown.js").Range} Range */
/** @typedef {{from: number, to: number, insert: string}} Change */
/** @typedef {{at: number, style: number, isSpace: boolean}} Unit  a UTF-16 unit of the words, and its emphasis */

/** @type {Kind[]} */
const KINDS = ["em", "strong"];
const IN_WORD = /[\p{L}\p{M}\p{N}'’]/u;

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
  const words = units.filter((unit) => !unit.isSpace);
  /** @type {Kind[]} */
  const open = []; // from the outer one to the inner one
  let end = region.from; // of the unit before
  /** @param {number} to @param {string} insert */
  const put = (to, insert) => {
    if (text.slice(end, to) !== insert) changes.push({ from: end, to, insert });
  };
  let index = 0; // in `words`
  for (const [place, unit] of units.entries()) {
    const isBehindWord = units[place - 1]?.isSpace === false;
    const closing = isBehindWord ? closed(open, words[index]?.style ?? 0) : "";
    const opening = unit.isSpace ? "" : opened(open, words, index);
    put(unit.at, closing + opening);
    end = unit.at + 1;
    if (!unit.isSpace) index += 1;
  }
  put(region.to, closed(open, 0));
  return changes;
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
  const lasts = (/** @type {Kind} */ kind) => {
    const end = words.findIndex((word, at) => at > index && (word.style & BITS[kind]) === 0);
    return end < 0 ? words.length : end;
  };
  const more = KINDS.filter((kind) => (style & BITS[kind]) > 0 && !open.includes(kind)).sort(
    (one, other) => lasts(other) - lasts(one),
  );
  open.push(...more);
  return more.map((kind) => SIGNS[kind]).join("");
}
