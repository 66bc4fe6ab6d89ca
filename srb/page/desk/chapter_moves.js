/** Chapters that change their places: the words of one go elsewhere in the text, with who wrote them, as one step of undo. */

import { stretchesOf } from "../story/same.js";
import { newId } from "../story.js";
import { move } from "./moves.js";

/** @typedef {import("../formats/chapters.js").Chapter} Chapter */
/** @typedef {import("../story/types.js").Stretch} Stretch */

const GAP = "\n\n"; // between two chapters that have none

/**
 * Return the index behind a chapter and all that are deeper and follow it: they go with it.
 * @param {Chapter[]} chapters
 * @param {number} index
 */
export function endOfBlock(chapters, index) {
  const level = chapters[index]?.level ?? 0;
  const next = chapters.findIndex((each, place) => place > index && each.level <= level);
  return next < 0 ? chapters.length : next;
}

/**
 * Return the index before which a chapter stands after a step up or down; null where there is no such place. What has no name stays
 * where it is, at the beginning.
 * @param {Chapter[]} chapters
 * @param {number} index
 * @param {1 | -1} step
 * @returns {number | null}
 */
export function placeAfterStep(chapters, index, step) {
  const { level = 0, name = "" } = chapters[index] ?? {};
  if (name === "") return null;
  if (step < 0) {
    const before = chapters.findLastIndex((each, place) => place < index && each.level <= level);
    return before < 0 || chapters[before]?.name === "" ? null : before;
  }
  const next = endOfBlock(chapters, index);
  if (next === chapters.length) return null;
  return chapters[next]?.level === level ? endOfBlock(chapters, next) : next + 1;
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
  const last = endOfBlock(chapters, index);
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
