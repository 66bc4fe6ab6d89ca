/** Goals: words to write in a day, and words that a chapter is to have. Both are a story's own, and so is where the day began. */

import { isCount, isRecord } from "../story/check.js";

export const MOST_WORDS = 1_000_000; // of a goal

/** The words of a goal that a field has; 0: none. @param {unknown} typed */
export const wordsIn = (typed) => Math.max(0, Math.min(MOST_WORDS, Math.floor(Number(typed) || 0)));

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{day: number, chapter: number}} Goals   words; 0: none */

/** @param {import("../story.js").Story} story @returns {Goals} */
export function goalsOf(story) {
  const value = story.meta("goals");
  const of = (/** @type {string} */ name) => (isRecord(value) && isCount(value[name]) ? Number(value[name]) : 0);
  return { day: of("day"), chapter: of("chapter") };
}

/** The date where a person is, as 2026-11-27. @param {Date} [now] */
export function dateOf(now = new Date()) {
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
}

/** Counts the words that a story has more than where the day began: at its first change of the day, in whichever window. */
export class Day {
  /** @param {Desk} desk @param {() => string} [date] */
  constructor(desk, date = dateOf) {
    this.desk = desk;
    this.date = date;
    this.story = ""; // the id of the open one
    this.words = 0; // before its latest change
  }

  /** The text may have changed. @param {boolean} isEdit whether a person or a card has changed it */
  follow(isEdit) {
    const { desk } = this;
    const { story } = desk;
    if (goalsOf(story).day === 0) return;
    const { words } = desk;
    const begins = isEdit && story.id === this.story && words !== this.words && !this.isBegun;
    const before = this.words;
    this.story = story.id;
    this.words = words;
    if (begins) desk.setMeta("goal.begun", { date: this.date(), words: before });
  }

  /** Whether the day has begun for the open story. */
  get isBegun() {
    const begun = this.desk.story.meta("goal.begun");
    return isRecord(begun) && begun.date === this.date() && isCount(begun.words);
  }

  /** The words of the day so far; none if more were taken away. */
  get written() {
    const begun = /** @type {{words: number}} */ (this.desk.story.meta("goal.begun"));
    return this.isBegun ? Math.max(0, this.desk.words - begun.words) : 0;
  }
}
