// Comparisons of texts: beginnings that several share, duplicates, and the words in which two texts differ.

import { wordEndAt, wordStartAt } from "./cuts.js";

/** For each text the length of the longest beginning that it shares with another one; at most `limit` units are compared.
 * @param {string[]} texts @param {number} [limit] @returns {number[]} */
export function sharedBeginnings(texts, limit = 400) {
  const starts = texts.map((text) => text.slice(0, limit));
  const order = sorted(starts);
  const shared = texts.map(() => 0);
  for (let place = 1; place < order.length; place++) {
    const [above, below] = [at(order, place - 1), at(order, place)];
    const length = commonLength(at(starts, above), at(starts, below));
    shared[above] = Math.max(at(shared, above), length);
    shared[below] = Math.max(at(shared, below), length);
  }
  return shared;
}

/** The first word of a text that is its own, after a shared beginning; null if the text has none yet.
 * @param {string} text @param {number} shared @returns {{from: number, to: number}|null} */
export function ownWord(text, shared) {
  if (shared >= text.length) return null;
  const at = shared + (/^\s*/u.exec(text.slice(shared)) ?? [""])[0].length;
  if (at >= text.length) return null;
  const from = wordStartAt(text, at === shared ? at : at + 1);
  return { from: Math.min(from, at), to: Math.max(wordEndAt(text, at), at + 1) };
}

const GROUP = 4; // words
const WORDS = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff]|[\p{L}\p{N}\p{M}]+/gu; // of scripts without spaces: characters

/** For each text the share of its groups of words that stand in `before`, in a text before it, or earlier in it: as the server's
 * ranking "fresh" has it. @param {string[]} texts @param {string} before @returns {number[]} */
export function repeatedShares(texts, before) {
  /** @type {Set<string>} */
  const known = new Set();
  return [before, ...texts]
    .map((text) => {
      const words = text.toLowerCase().match(WORDS) ?? [];
      const least = known.size;
      const count = Math.max(0, words.length - GROUP + 1);
      for (let at = 0; at < count; at++) known.add(words.slice(at, at + GROUP).join(" "));
      return count ? (least + count - known.size) / count : 0;
    })
    .slice(1);
}

/** Groups of places whose texts are equal and not empty, each in order. @param {string[]} texts @returns {number[][]} */
export function duplicates(texts) {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  texts.forEach((text, place) => {
    const group = groups.get(text);
    if (group) group.push(place);
    else if (text) groups.set(text, [place]);
  });
  return [...groups.values()].filter((group) => group.length > 1);
}

/** A text of several, or a beginning that several have in common: `from` to `to` of the text at the first of `places`.
 * @typedef {{depth: number, places: number[], from: number, to: number}} Twig */

/** The texts as a tree of shared beginnings, in the order in which it is read from top to bottom. Beginnings end before words.
 * @param {string[]} texts @param {number} [limit] @returns {Twig[]} */
export function mergedTree(texts, limit = 400) {
  const order = sorted(texts).filter((place) => texts[place]);
  /** Lengths that neighbours in `order` share. */
  const text = (/** @type {number} */ row) => at(texts, at(order, row));
  const shared = order.map((_, row) => (row ? sharedWords(text(row - 1), text(row), limit) : 0));
  /** @type {Twig[]} */
  const twigs = [];
  /** @type {{first: number, last: number, from: number, depth: number}[]} */
  const open = order.length ? [{ first: 0, last: order.length - 1, from: 0, depth: 0 }] : [];
  for (let group = open.pop(); group; group = open.pop()) {
    const { first, last, from, depth } = group;
    const places = order.slice(first, last + 1).sort((a, b) => a - b);
    if (first === last) {
      twigs.push({ depth, places, from, to: text(first).length });
      continue;
    }
    let to = Number.POSITIVE_INFINITY;
    for (let row = first + 1; row <= last; row++) to = Math.min(to, at(shared, row));
    if (to > from) twigs.push({ depth, places, from, to });
    if (places.every((place) => at(texts, place).length === to)) continue; // equal texts have nothing below
    const inner = to > from ? depth + 1 : depth;
    const groups = [];
    let begin = first;
    for (let row = first + 1; row <= last + 1; row++) {
      if (row <= last && at(shared, row) > to) continue;
      groups.push({ first: begin, last: row - 1, from: Math.max(from, to), depth: inner });
      begin = row;
    }
    groups.sort((a, b) => lowest(order, b) - lowest(order, a)); // a stack: the last one comes first
    open.push(...groups);
  }
  return twigs;
}

/** @param {number[]} order @param {{first: number, last: number}} group */
function lowest(order, { first, last }) {
  return Math.min(...order.slice(first, last + 1));
}

/** @param {string} a @param {string} b @param {number} limit */
function sharedWords(a, b, limit) {
  const length = commonLength(a.slice(0, limit), b.slice(0, limit));
  if (length === a.length && length === b.length) return length;
  const cut = Math.min(wordStartAt(a, length), wordStartAt(b, length));
  return /\S/u.test(a.slice(0, cut)) ? cut : 0;
}

/** Places of texts in the order of the texts. @param {string[]} texts */
function sorted(texts) {
  const order = texts.map((text, place) => ({ text, place }));
  order.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.place - b.place));
  return order.map(({ place }) => place);
}

/** The length of the beginning that two texts share, in whole characters. @param {string} a @param {string} b */
export function commonLength(a, b) {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  const splits = length > 0 && (a.charCodeAt(length - 1) & 0xfc00) === 0xd800;
  return splits ? length - 1 : length;
}

/** A part of a comparison. @typedef {{kind: "same"|"removed"|"added", text: string}} Part */

const SHARED = 1 / 3; // of a text's words: from there on it is told in which words another one differs …
const TOGETHER = 3; // … if so many that both have stand together, in a short text two: articles and commas alone are nothing that they share
const SHORT = 15; // words: of a longer text a word that stands alone between two changes does not count

/** Whether two texts have enough in common for their differences to be shown. @param {Part[]} parts @param {string} text the one */
export function isAlike(parts, text) {
  const all = wordCount(text);
  const isShort = all < SHORT;
  const same = parts
    .filter(({ kind }) => kind === "same")
    .map((part) => wordCount(part.text))
    .filter((count) => isShort || count > 1);
  const shared = same.reduce((sum, count) => sum + count, 0);
  return Math.max(0, ...same) >= (isShort ? 2 : TOGETHER) && shared >= SHARED * all;
}

/** @param {string} text */
const wordCount = (text) => text.match(WORDS)?.length ?? 0;

const MOST_EDITS = 1500; // beyond them two texts have little in common, and one replaces the other

/** The words that were removed from a text and added to it: the parts without "added" make `before`, those without "removed"
 * make `after`. Lines are compared first, so a small change in a book costs little.
 * @param {string} before @param {string} after @returns {Part[]} */
export function diffWords(before, after) {
  /** @type {Part[]} */
  const parts = [];
  const lines = diff(before.match(/[^\n]*\n|[^\n]+/g) ?? [], after.match(/[^\n]*\n|[^\n]+/g) ?? []);
  for (let place = 0; place < lines.length; place++) {
    const [here, next] = [at(lines, place), lines[place + 1]];
    if (here.kind === "removed" && next?.kind === "added") {
      for (const part of diff(wordsOf(here.text), wordsOf(next.text))) push(parts, part);
      place++;
    } else {
      push(parts, here);
    }
  }
  return parts;
}

/** @param {string} text @returns {string[]} */
function wordsOf(text) {
  return text.match(/[\p{L}\p{N}\p{M}_'’]+|\s+|./gsu) ?? [];
}

/** The shortest comparison of two lists (Myers, "An O(ND) Difference Algorithm", 1986), removed before added.
 * @param {string[]} a @param {string[]} b @returns {Part[]} */
function diff(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  /** @type {Part[]} */
  const parts = [];
  push(parts, { kind: "same", text: a.slice(0, head).join("") });
  for (const part of tidy(edits(x, y))) push(parts, part);
  push(parts, { kind: "same", text: a.slice(a.length - tail).join("") });
  return parts;
}

/** @param {string[]} a @param {string[]} b @returns {Part[]} */
function edits(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const middle = most + 1;
  const reach = new Int32Array(2 * middle + 1); // by diagonal: how far in `a` paths with so many edits get
  /** @type {Int32Array[]} */
  const trail = [];
  for (let count = 0; count <= most; count++) {
    trail.push(reach.slice(middle - count - 1, middle + count + 2));
    for (let diagonal = -count; diagonal <= count; diagonal += 2) {
      const [left, right] = [at(reach, middle + diagonal - 1), at(reach, middle + diagonal + 1)];
      let x = diagonal === -count || (diagonal !== count && left < right) ? right : left + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++;
      reach[middle + diagonal] = x;
      if (x >= a.length && x - diagonal >= b.length) return retrace(a, b, trail);
    }
  }
  return [
    { kind: "removed", text: a.join("") },
    { kind: "added", text: b.join("") },
  ];
}

/** @param {string[]} a @param {string[]} b @param {Int32Array[]} trail @returns {Part[]} */
function retrace(a, b, trail) {
  /** @type {Part[]} */
  const parts = [];
  let x = a.length;
  let y = b.length;
  for (let count = trail.length - 1; count >= 0; count--) {
    const reach = at(trail, count); // of diagonals -count - 1 to count + 1
    const diagonal = x - y;
    const [left, right] = [at(reach, diagonal + count), at(reach, diagonal + count + 2)];
    const down = diagonal === -count || (diagonal !== count && left < right);
    const fromX = count ? (down ? right : left) : 0;
    const fromY = count ? fromX - (down ? diagonal + 1 : diagonal - 1) : 0;
    const edgeX = count && !down ? fromX + 1 : fromX;
    if (x > edgeX) parts.push({ kind: "same", text: a.slice(edgeX, x).join("") });
    if (count) parts.push(down ? { kind: "added", text: at(b, fromY) } : { kind: "removed", text: at(a, fromX) });
    x = fromX;
    y = fromY;
  }
  return parts.reverse();
}

/** Gather what was removed and added between two same parts. @param {Part[]} parts @returns {Part[]} */
function tidy(parts) {
  /** @type {Part[]} */
  const tidied = [];
  let [removed, added] = ["", ""];
  for (const { kind, text } of [...parts, /** @type {Part} */ ({ kind: "same", text: "" })]) {
    if (kind === "removed") removed += text;
    else if (kind === "added") added += text;
    else {
      push(tidied, { kind: "removed", text: removed });
      push(tidied, { kind: "added", text: added });
      push(tidied, { kind, text });
      [removed, added] = ["", ""];
    }
  }
  return tidied;
}

/** Append a part, or lengthen the last one. @param {Part[]} parts @param {Part} part */
function push(parts, part) {
  const last = parts.at(-1);
  if (!part.text) return;
  if (last?.kind === part.kind) last.text += part.text;
  else parts.push({ ...part });
}

/** The value at a place that the list has. @template T @param {ArrayLike<T>} list @param {number} place */
function at(list, place) {
  return /** @type {T} */ (list[place]);
}
