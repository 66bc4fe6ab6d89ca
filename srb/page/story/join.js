/**
 * The joining of two texts of one story. What they have in common is the text that both were made from; each has changed it. Changes
 * at different places are both kept, also what was taken out; two changes at one place are a conflict, which a person decides.
 * Whichever of the two is called mine, the joined text is the same.
 *
 * @import {Node, Place} from "./types.js"
 * @import {Known, Texts} from "./same.js"
 *
 * @typedef {{from: number, to: number}} Range
 * @typedef {{from: number, to: number, left: number, right: number}} Change  a range of the common text, and of the text that has other words there
 * @typedef {"same" | "mine" | "theirs" | "both" | "neither" | "conflict"} Kept
 * @typedef {{kept: Kept, mine: Range, theirs: Range, isMineFirst: boolean}} Segment  a part of both texts, and of which the joined one has it
 */
import { knownIn } from "./same.js";
import { getOrSet } from "./wire.js";

/**
 * Return how much of each node a text was made from, by way of parents and of texts that were joined.
 * @param {Map<string, Node>} nodes @param {Place} place @returns {Map<string, number>}
 */
export function pastOf(nodes, { node, at }) {
  /** @type {Map<string, number>} */
  const past = new Map();
  const left = [{ node, at }];
  for (let each = left.pop(); each !== undefined; each = left.pop()) {
    const made = nodes.get(each.node);
    if (made === undefined) continue;
    const before = past.get(made.id);
    past.set(made.id, Math.max(before ?? 0, each.at));
    if (before !== undefined) continue;
    if (made.joined) left.push(made.joined);
    const { of } = made;
    const copied = nodes.get(of?.node ?? "");
    if (of && copied && isSame(made, copied)) left.push({ node: of.node, at: each.at });
    if (made.parent !== undefined)
      left.push({ node: made.parent, at: made.tail === undefined ? (made.keep ?? 0) : Number.POSITIVE_INFINITY });
  }
  return past;
}

/** Whether a node stands for another one, which was being typed elsewhere and has not changed since. @param {Node} copy @param {Node} node */
const isSame = (copy, { text, parent, keep, tail }) =>
  copy.text === text && copy.parent === parent && copy.keep === keep && copy.tail === tail;

/** Whether a text was made from all of another one. @param {Map<string, Node>} nodes @param {Place} place @param {Place} other */
export const isMadeFrom = (nodes, place, other) =>
  other.node === "" || (pastOf(nodes, place).get(other.node) ?? -1) >= other.at;

/**
 * Return the latest text that two others were made from.
 * @param {Texts & {length: (id: string) => number}} story @param {Place} one @param {Place} other @returns {Place}
 */
function commonOf(story, one, other) {
  const { nodes } = story;
  const pasts = [pastOf(nodes, one), pastOf(nodes, other)];
  const [first = "", second = ""] = [one, other].map(({ node }, side) => {
    let id = /** @type {string | undefined} */ (node);
    while (id !== undefined && !pasts[1 - side]?.has(id)) id = nodes.get(id)?.parent;
    return id;
  });
  const isLater = second !== "" && pastOf(nodes, { node: second, at: 0 }).has(first);
  const node = first === "" || isLater ? second : first;
  const ats = pasts.map((past) => past.get(node) ?? 0);
  // A model's words that one of them has not are no words that it has taken out: a card may have been taken in part.
  return { node, at: Math.min(story.length(node), ...(nodes.get(node)?.by === "model" ? ats : [])) };
}

/** The parts of a text, by their characters. @param {Texts} story @param {Place} place */
const partsOf = (story, { node, at }) => story.pieces(node, at).flatMap((piece) => knownIn(piece, story.nodes));

/**
 * Return the longest parts that two texts have in common, in the order of both.
 * @param {Known[]} ones @param {Known[]} others @returns {{at: number, other: number, length: number}[]}
 */
function sharedBy(ones, others) {
  /** @type {Map<string, Known[]>} */
  const known = new Map();
  const keyOf = (/** @type {Known} */ { node, was }) => `${node} ${was}`;
  for (const part of ones) getOrSet(known, keyOf(part), () => []).push(part);
  const shared = others.flatMap((part) =>
    (known.get(keyOf(part)) ?? []).flatMap((each) => {
      const first = Math.max(each.at, part.at);
      const length = Math.min(each.at + each.to - each.from, part.at + part.to - part.from) - first;
      return length > 0 ? [{ at: each.from + first - each.at, other: part.from + first - part.at, length }] : [];
    }),
  );
  return inOrder(shared);
}

/**
 * Return of parts, in the order of one text, those that have this order in the other, too: the longest in all.
 * @param {{at: number, other: number, length: number}[]} shared
 */
function inOrder(shared) {
  const follows = (/** @type {typeof shared[0]} */ a, /** @type {typeof shared[0]} */ b) =>
    a.at + a.length <= b.at && a.other + a.length <= b.other;
  if (shared.every((each, place) => place === 0 || follows(/** @type {typeof each} */ (shared[place - 1]), each)))
    return shared;
  /** @type {{sum: number, before: number}[]} */
  const best = [];
  for (const [place, each] of shared.entries()) {
    best.push({ sum: each.length, before: -1 });
    for (let earlier = 0; earlier < place; earlier += 1) {
      const sum = best[earlier].sum + each.length;
      if (sum > best[place].sum && follows(shared[earlier], each)) best[place] = { sum, before: earlier };
    }
  }
  const kept = [];
  let place = best.reduce((most, { sum }, index) => (sum > (best[most]?.sum ?? 0) ? index : most), 0);
  for (; place >= 0; place = best[place].before) kept.push(shared[place]);
  return kept.reverse();
}

/** @param {Known[]} base @param {Known[]} side @param {number} end of the base @param {number} last of the side @returns {Change[]} */
function changesOf(base, side, end, last) {
  let [from, left] = [0, 0];
  const changes = [];
  for (const { at, other, length } of [...sharedBy(base, side), { at: end, other: last, length: 0 }]) {
    if (at > from || other > left) changes.push({ from, to: at, left, right: other });
    [from, left] = [at + length, other + length];
  }
  return changes;
}

/** Whether two texts need a space between them. @param {string} before @param {string} behind */
export const isGlued = (before, behind) => /\S$/u.test(before) && /^\S/u.test(behind);

const isWordAt = (/** @type {string} */ text, /** @type {number} */ at) => /\S/u.test(text.charAt(at));

/** Return a change's range of the common text with the whole words that it touches. @param {string} base @param {string} side @param {Change} change */
function whole(base, side, { from, to, left, right }) {
  const isBare = left === right;
  const before = isWordAt(base, from - 1) && (isBare ? isWordAt(base, to) : isWordAt(side, left));
  const behind = isWordAt(base, to) && (isBare ? isWordAt(base, from - 1) : isWordAt(side, right - 1));
  if (before) while (isWordAt(base, from - 1)) from -= 1;
  if (behind) while (isWordAt(base, to)) to += 1;
  return { from, to };
}

/**
 * Return the parts of two texts, one after the other.
 * @param {Texts & {length: (id: string) => number}} story @param {Place} mine @param {Place} theirs @returns {Segment[]}
 */
export function segmentsOf(story, mine, theirs) {
  const isSwapped = mine.node > theirs.node || (mine.node === theirs.node && mine.at > theirs.at);
  const places = isSwapped ? [theirs, mine] : [mine, theirs];
  const segments = orderedSegments(story, places);
  const named = (/** @type {Range[]} */ ranges) => (isSwapped ? [ranges[1], ranges[0]] : ranges);
  return segments.map(({ kept, ranges, first }) => {
    const [own, other] = named(ranges);
    const side = typeof kept === "number" ? (kept === Number(isSwapped) ? "mine" : "theirs") : kept;
    return { kept: side, mine: own, theirs: other, isMineFirst: first === Number(isSwapped) };
  });
}

/** @param {Texts & {length: (id: string) => number}} story @param {Place[]} places */
function orderedSegments(story, places) {
  const common = commonOf(story, places[0], places[1]);
  const base = story.text(common.node, common.at);
  const texts = places.map(({ node, at }) => story.text(node, at));
  const parts = places.map((place) => partsOf(story, place));
  const baseParts = partsOf(story, common);
  const changes = parts.flatMap((each, side) =>
    changesOf(baseParts, each, base.length, texts[side].length).map((change) => ({
      side,
      change,
      ...whole(base, texts[side], change),
    })),
  );
  changes.sort((a, b) => a.from - b.from || a.to - b.to);
  /** @type {{from: number, to: number, changes: typeof changes}[]} */
  const regions = [];
  for (const each of changes) {
    const last = regions.at(-1);
    if (last && (each.from < last.to || (each.from === last.to && each.to === last.to && last.from === last.to))) {
      last.to = Math.max(last.to, each.to);
      last.changes.push(each);
    } else regions.push({ from: each.from, to: each.to, changes: [each] });
  }
  /** @type {{kept: "same" | "both" | "neither" | "conflict" | number, ranges: Range[], first: number}[]} */
  const segments = [];
  const made = (/** @type {number} */ side, /** @type {Range} */ { from, to }) => {
    const { node = "" } = parts[side].find((part) => part.to > from && part.from < to) ?? {};
    return [story.nodes.get(node)?.made ?? 0, node];
  };
  const add = (/** @type {typeof segments[0]["kept"]} */ kept, /** @type {Range[]} */ ranges) => {
    const [one, other] = ranges.map((range, side) => made(side, range));
    const first = one[0] === other[0] ? Number(one[1] > other[1]) : Number(one[0] > other[0]);
    if (ranges.some(({ from, to }) => to > from)) segments.push({ kept, ranges, first });
  };
  let before = 0;
  const cursor = [0, 0];
  for (const region of [...regions, { from: base.length, to: base.length, changes: [] }]) {
    const same = region.from - before;
    add("same", rangesFrom(cursor, [same, same]));
    const sizes = [0, 1].map((side) =>
      region.changes.reduce(
        (size, { side: of, change }) =>
          of === side ? size + change.right - change.left - (change.to - change.from) : size,
        region.to - region.from,
      ),
    );
    const ranges = rangesFrom(cursor, sizes);
    before = region.to;
    const sides = new Set(region.changes.map(({ side }) => side));
    const [own = "", other = ""] = ranges.map(({ from, to }, side) => texts[side].slice(from, to));
    if (sides.size < 2) add([...sides][0] ?? "same", ranges);
    else if (own === other) add("same", ranges);
    else if (region.changes.every(({ change }) => change.left === change.right)) shareOut("neither", ranges);
    else if (region.to === region.from) shareOut("both", ranges);
    else add(wider(region.changes, ranges) ?? "conflict", ranges);
  }
  return segments;

  /** Which side has all that the other has brought into a range, if that one took nothing out. @param {typeof changes} within @param {Range[]} ranges */
  function wider(within, ranges) {
    const [ones, others] = ranges.map((range, side) => clipped(parts[side], range));
    const shared = sharedBy(ones, others).reduce((sum, { length }) => sum + length, 0);
    const isIn = (/** @type {number} */ side) =>
      shared === ranges[side].to - ranges[side].from &&
      within.every((each) => each.side !== side || each.change.from === each.change.to);
    return [1, 0].find((side) => isIn(1 - side));
  }

  /** Whether words that both have brought to one place, inside of the text, would run into each other: they stand for the same. @param {Range[]} ranges */
  function areOneWord(ranges) {
    const isEnd = ranges.every(({ to }, side) => to === texts[side].length);
    const [one, other] = ranges.map(({ from, to }, side) => texts[side].slice(from, to));
    return !isEnd && one !== "" && other !== "" && isGlued(one, other) && isGlued(other, one);
  }

  /** Keep what both have in two ranges once, and of the others both or neither. @param {"both" | "neither"} kept @param {Range[]} ranges */
  function shareOut(kept, ranges) {
    const [ones, others] = ranges.map((range, side) => clipped(parts[side], range));
    const [one, other] = ranges;
    const last = { at: one.to, other: other.to, length: 0 };
    let at = [one.from, other.from];
    for (const shared of [...sharedBy(ones, others), last]) {
      const apart = [
        { from: at[0], to: shared.at },
        { from: at[1], to: shared.other },
      ];
      add(kept === "both" && areOneWord(apart) ? "conflict" : kept, apart);
      at = [shared.at, shared.other];
      add("same", rangesFrom(at, [shared.length, shared.length]));
    }
  }
}

/** Return the next ranges of so many characters, from where the last ones ended. @param {number[]} cursor @param {number[]} sizes @returns {Range[]} */
function rangesFrom(cursor, sizes) {
  return sizes.map((size, side) => {
    const from = cursor[side];
    cursor[side] += size;
    return { from, to: cursor[side] };
  });
}

/** @param {Known[]} parts @param {Range} range */
function clipped(parts, { from, to }) {
  return parts
    .filter((part) => part.from < to && part.to > from)
    .map((part) => {
      const begin = Math.max(part.from, from);
      return { ...part, from: begin, to: Math.min(part.to, to), at: part.at + begin - part.from };
    });
}
