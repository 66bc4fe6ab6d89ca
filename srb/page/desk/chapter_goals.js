/** Goals of single chapters, in words. Each is a value of the story, and stands on the words of the chapter's heading, or on its first words:
 * so it goes where they go. One of two windows that set it for the same words wins, as with every value. */

import { chaptersOf } from "../formats/chapters.js";
import { countWords } from "../keep/describe.js";
import { isCount, isRecord } from "../story/check.js";
import { areSpans, rangesOf, spansOf } from "./comments.js";
import { goalsOf } from "./goals.js";
import { changeAll, valuesOf } from "./values.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../formats/chapters.js").Chapter} Chapter */
/** @typedef {import("./comments.js").Span} Span */
/** @typedef {{words: number, name: string, on: Span[]}} ChapterGoal */

const PREFIX = "goal.chapter.";
const FIRST = 40; // characters that hold the goal of a chapter without a heading

/** @param {unknown} value @returns {value is ChapterGoal} */
function isGoal(value) {
  if (!isRecord(value)) return false;
  const { words, name, on } = value;
  return isCount(words) && Number(words) > 0 && typeof name === "string" && areSpans(on);
}

/**
 * Return the goals of chapters that have one of their own, by the chapters. One whose words are not there any more, as in a story that
 * goes on in a new one, belongs to the chapter of its name.
 * @param {Story} story @param {Chapter[]} chapters  of its manuscript
 * @returns {Map<Chapter, {key: string, words: number}>}
 */
export function chapterGoalsOf(story, chapters) {
  const goals = valuesOf(story, PREFIX, isGoal);
  /** @type {Map<Chapter, {key: string, words: number}>} */
  const found = new Map();
  if (goals.size === 0) return found;
  const held = new Map([...goals].map(([key, { on }]) => [key, { quote: "", on }]));
  const ranges = rangesOf(story, story.head, held);
  const placedFirst = [...goals].sort(([one], [other]) => Number(ranges.has(other)) - Number(ranges.has(one)));
  for (const [key, { words, name }] of placedFirst) {
    const place = ranges.get(key);
    const chapter = place
      ? chapters.findLast(({ at }) => at <= place.from)
      : chapters.find((each) => each.name === name && !found.has(each));
    if (chapter && !found.has(chapter)) found.set(chapter, { key, words });
  }
  return found;
}

/**
 * Give a chapter a goal of its own, or with 0 words take it away, as a step of undo.
 * @param {Desk} desk @param {Chapter[]} chapters  of the manuscript as it is @param {Chapter} chapter @param {number} words
 */
export function setChapterGoal(desk, chapters, chapter, words) {
  const { story } = desk;
  const known = chapterGoalsOf(story, chapters).get(chapter);
  if (words === (known?.words ?? 0)) return;
  const first = chapter.at + chapter.text.length - chapter.text.trimStart().length;
  const held = {
    from: first,
    to: chapter.at + (chapter.body || Math.min(first - chapter.at + FIRST, chapter.text.length)),
  };
  const on = spansOf(story, desk.settle(), held);
  if (!on[0]) return;
  const key = known?.key ?? `${PREFIX}${on[0].node}.${on[0].from}`;
  changeAll(desk, [[key, words > 0 ? { words, name: chapter.name, on } : null]]);
}

/** Whether any chapter has a goal. @param {Story} story */
export const hasChapterGoals = (story) => goalsOf(story).chapter > 0 || valuesOf(story, PREFIX, isGoal, 1).size > 0;

/** The words of the chapter with the caret, without its heading, and its goal; 0: none. @param {Desk} desk */
export function chapterAtCaret(desk) {
  const { chapters } = chaptersOf(desk.story);
  const caret = desk.manuscript?.caret() ?? 0;
  const chapter = chapters.findLast(({ at }) => at <= caret);
  if (!chapter) return { words: 0, goal: 0 };
  const goal = chapterGoalsOf(desk.story, chapters).get(chapter)?.words ?? goalsOf(desk.story).chapter;
  return { words: countWords(chapter.text.slice(chapter.body)), goal };
}
