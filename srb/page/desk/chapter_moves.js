/** Chapters that change their places: the words of one go elsewhere in the text, with who wrote them, as one step of undo. */

import { stretchesOf } from "../story/same.js";
import { newId } from "../story.js";
import { move } from "./moves.js";

/** @typedef {import("../formats/chapters.js").Chapter} Chapter */
/** @typedef {import("../story/types.js").Stretch} Stretch */

const GAP = "\n\n"; // between two chapters that have none

/**
 * Return of each chapter the index behind it and all that are deeper and follow it, which go with it, and the indices before which it
 * stands after a step up and down; null where there is no such place. What has no name stays where it is, at the beginning.
 * @param {Chapter[]} chapters
 * @returns {{end: number, up: number | null, down: number | null}[]}
 */
export function stepsOf(chapters) {
  const ends = chapters.map(() => chapters.length);
  /** @type {number[]} */
  const open = []; // those that no chapter has ended yet, each deeper than the one before it
  const priors = chapters.map(({ level }, index) => {
    const first = open.findLastIndex((each) => (chapters[each]?.level ?? 0) < level) + 1;
    const ended = open.splice(first);
    for (const each of ended) ends[each] = index;
    open.push(index);
    const [top = -1] = ended;
    return chapters[top]?.level === level ? top : (open.at(-2) ?? -1);
  });
  return chapters.map(({ level, name }, index) => {
    const end = ends[index] ?? 0;
    const isLast = name === "" || end === chapters.length;
    const prior = priors[index] ?? -1;
    return {
      end,
      up: name === "" || !chapters[prior]?.name ? null : prior,
      down: isLast ? null : chapters[end]?.level === level ? (ends[end] ?? 0) : end + 1,
    };
  });
}

/**
 * Move a chapter, with all that belongs to it, before another one or to the end. Return where it begins then.
 * @param {import("../desk.js").Desk} desk
 * @param {Chapter[]} chapters  of the manuscript as it is
 * @param {number} index
 * @param {number} before  the index of a chapter, or how many there are
 */
export function moveChapter(desk, chapters, index, before) {
  desk.closeTyped();
  const { story, head, text } = desk;
  const { words, cut, at, gap } = planOf(text, chapters, index, before);
  const act = newId();
  const blank = (/** @type {string} */ of) =>
    of === "" ? [] : [{ text: of, by: /** @type {const} */ ("person"), act }];
  const stretches = stretchesOf(story, head, words.from, words.to).map((each) => ({ ...each, act }));
  const without = story.graft(head, cut.from, cut.to, [{ text: cut.insert, by: "person", act }]);
  const place = story.graft(without, at, at, [...blank(gap.before), ...stretches, ...blank(gap.behind)]);
  move(desk, place, "take");
  if (!desk.rounds?.shown) desk.rounds?.follow("take"); // cards that are shown stay, as where words are typed
  return at + gap.before.length;
}

/**
 * @param {string} text @param {Chapter[]} chapters @param {number} index @param {number} before
 * @returns what is moved (`words`), what is cut for it, and where in the rest it is put, with gaps
 */
function planOf(text, chapters, index, before) {
  const last = stepsOf(chapters)[index]?.end ?? chapters.length;
  const begin = chapters[index]?.at ?? 0;
  const end = chapters[last]?.at ?? text.length;
  const from = begin + spaceAt(text.slice(begin, end));
  const to = begin + text.slice(begin, end).trimEnd().length;
  const prior = Math.max(text.slice(0, begin).trimEnd().length, chapters[index - 1]?.at ?? 0);
  const next = to + spaceAt(text.slice(to));
  const own = [text.slice(prior, from), text.slice(to, next), GAP].find((each) => each.includes("\n")) ?? GAP;
  const isFirst = text.slice(0, begin).trim() === "";
  const isParted = isFirst || next === text.length || text.slice(to, next).includes("\n");
  const cut = isFirst ? { from, to: next, insert: "" } : { from: prior, to, insert: isParted ? "" : own };
  const rest = text.slice(0, cut.from) + cut.insert + text.slice(cut.to);
  const target = before === chapters.length ? rest.trimEnd().length : (chapters[before]?.at ?? 0);
  const shift = before > index && before < chapters.length ? cut.insert.length - (cut.to - cut.from) : 0;
  const at = before > index ? Math.max(cut.from + cut.insert.length, target + shift) : target;
  const [left, right] = [rest.slice(0, at), rest.slice(at)];
  const gap = {
    before: left.trim() === "" || left.slice(left.trimEnd().length).includes("\n") ? "" : own,
    behind: right.trim() === "" || right.slice(0, spaceAt(right)).includes("\n") ? "" : own,
  };
  return { words: { from, to }, cut, at, gap };
}

/** The length of the white space at a text's beginning. @param {string} text */
const spaceAt = (text) => text.length - text.trimStart().length;
