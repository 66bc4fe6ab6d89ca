/** Words of the day and of a chapter, beside their goals. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chapterAtCaret,
  chapterGoalsOf,
  hasChapterGoals,
  setChapterGoal,
} from "../../../srb/page/desk/chapter_goals.js";
import { moveChapter } from "../../../srb/page/desk/chapter_moves.js";
import { Day, dateOf, goalsOf } from "../../../srb/page/desk/goals.js";
import { chaptersOf } from "../../../srb/page/formats/chapters.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round } from "./fake_desk.js";
import { exchange, secondWindow } from "./two_desks.js";

/** A desk with some words and a goal of the day, and the day whose date a test sets. */
async function counted(words = "One two three.") {
  const it = await makeDesk();
  it.manuscript.type(words);
  it.today = "2026-11-27";
  it.day = new Day(it.desk, () => it.today);
  it.day.follow(false);
  it.desk.addEventListener("head", ({ detail: { why } }) => it.day.follow(["type", "take", "undo"].includes(why)));
  it.desk.addEventListener("story", () => it.day.follow(false));
  it.desk.setMeta("goals", { day: 100, chapter: 0 });
  return it;
}

test("the day begins with its first change, and counts what came since", async () => {
  const { manuscript, desk, day } = await counted();
  assert.equal(desk.story.meta("goal.begun"), undefined, "to look at a story changes nothing");
  assert.equal(day.written, 0);
  manuscript.type(" Four five.");
  assert.deepEqual(desk.story.meta("goal.begun"), { date: "2026-11-27", words: 3 });
  assert.equal(day.written, 2);
  manuscript.type("", 0, 8);
  assert.equal(day.written, 0, "more was taken away than came");
});

test("cards that are taken count, and the next day begins at nothing", async () => {
  const it = await counted();
  await round(it, " four five", " b");
  await it.desk.take(0, { go: false });
  assert.equal(it.day.written, 2);
  it.today = "2026-11-28";
  assert.equal(it.day.written, 0);
  it.manuscript.type(" six");
  assert.equal(it.day.written, 1);
});

test("without a goal nothing is kept, and nothing from a file is taken for one", async () => {
  const { manuscript, desk } = await counted();
  for (const wrong of [null, 5, { day: -1, chapter: "many" }, { day: 0.5 }, []]) {
    desk.setMeta("goals", wrong);
    assert.deepEqual(goalsOf(desk.story), { day: 0, chapter: 0 });
  }
  manuscript.type(" four");
  assert.equal(desk.story.meta("goal.begun"), undefined);
});

test("the words of a chapter are those of the one with the caret, without its heading", async () => {
  const { manuscript, desk } = await counted("## The lamp\n\nOne two three.\n\n## The sea\n\nFour five.");
  assert.equal(chapterAtCaret(desk).words, 2);
  manuscript.select(15);
  assert.equal(chapterAtCaret(desk).words, 3);
});

test("a date is the one where a person is", () => {
  assert.equal(dateOf(new Date(2026, 0, 5, 0, 1)), "2026-01-05");
});

const BOOK = "It began.\n\n## The lamp\n\nOne two three.\n\n## The sea\n\nFour five.";

/** The chapters with goals of their own: name and words. */
function goals({ desk }) {
  const { chapters } = chaptersOf(desk.story);
  const found = chapterGoalsOf(desk.story, chapters);
  return Object.fromEntries(chapters.flatMap((each) => (found.has(each) ? [[each.name, found.get(each).words]] : [])));
}

function setGoal({ desk }, name, words) {
  const { chapters } = chaptersOf(desk.story);
  setChapterGoal(
    desk,
    chapters,
    chapters.find((each) => each.name === name),
    words,
  );
}

async function book(text = BOOK) {
  const it = await makeDesk();
  it.manuscript.type(text);
  return it;
}

test("a chapter has a goal of its own, and the others that of all", async () => {
  const it = await book();
  assert.equal(hasChapterGoals(it.desk.story), false);
  setGoal(it, "The lamp", 300);
  assert.equal(hasChapterGoals(it.desk.story), true);
  assert.deepEqual(goals(it), { "The lamp": 300 });
  assert.equal(chapterAtCaret(it.desk).goal, 0);
  it.desk.setMeta("goals", { day: 0, chapter: 1000 });
  assert.equal(chapterAtCaret(it.desk).goal, 1000);
  it.manuscript.select(30);
  assert.deepEqual(chapterAtCaret(it.desk), { words: 3, goal: 300 });
  setGoal(it, "The lamp", 0);
  assert.deepEqual(goals(it), {});
});

test("a goal goes where its chapter goes, under another name, too, and ends with it", async () => {
  const it = await book();
  setGoal(it, "", 50);
  setGoal(it, "The sea", 200);
  const { chapters } = chaptersOf(it.desk.story);
  moveChapter(it.desk, chapters, 2, 1);
  assert.deepEqual(
    chaptersOf(it.desk.story).chapters.map(({ name }) => name),
    ["", "The sea", "The lamp"],
  );
  assert.deepEqual(goals(it), { "": 50, "The sea": 200 });
  const at = it.desk.text.indexOf("sea");
  it.manuscript.type("cold ", at);
  it.manuscript.type("", it.desk.text.indexOf("The cold"), it.desk.text.indexOf("cold"));
  assert.deepEqual(goals(it), { "": 50, "cold sea": 200 });
  const line = it.desk.text.indexOf("## cold");
  it.manuscript.type("", line, it.desk.text.indexOf("Four"));
  assert.deepEqual(goals(it), { "": 50 });
});

test("undo and redo of a goal lead through its values", async () => {
  const it = await book();
  setGoal(it, "The lamp", 300);
  setGoal(it, "The lamp", 400);
  it.desk.undo();
  assert.deepEqual(goals(it), { "The lamp": 300 });
  it.desk.undo();
  assert.deepEqual(goals(it), {});
  it.desk.redo();
  it.desk.redo();
  assert.deepEqual(goals(it), { "The lamp": 400 });
});

test("two windows that set goals at once have both, and of one chapter the later one", async () => {
  const one = await book();
  const two = await secondWindow(one);
  setGoal(one, "The lamp", 300);
  setGoal(two, "The sea", 200);
  exchange(one, two);
  for (const it of [one, two]) assert.deepEqual(goals(it), { "The lamp": 300, "The sea": 200 });
  setGoal(one, "", 5);
  setGoal(two, "", 6);
  exchange(one, two);
  assert.deepEqual(goals(one), goals(two));
  assert.ok([5, 6].includes(goals(one)[""]));
});

test("in a story with the same words typed anew a goal belongs to the chapter of its name", async () => {
  const it = await book();
  setGoal(it, "The sea", 200);
  const next = Story.create("Next");
  for (const [key, value] of Object.entries(it.desk.story.stampsOf(null).values))
    if (key.startsWith("goal")) next.setMeta(key, value);
  next.head = next.edit({ node: "", at: 0 }, 0, 0, BOOK);
  it.desk.setStory(next);
  assert.deepEqual(goals(it), { "The sea": 200 });
});

test("nothing from a file is taken for a chapter's goal", async () => {
  const it = await book();
  for (const wrong of [
    5,
    "x",
    [],
    { words: -1, name: "The sea", on: [] },
    { words: 5, on: [] },
    { words: 5, name: "The sea", on: [{}] },
  ])
    it.desk.setMeta("goal.chapter.x", wrong);
  it.desk.setMeta("goal.chapter.y", { words: 5, name: "Nowhere", on: [{ node: "gone", from: 0, to: 5 }] });
  assert.deepEqual(goals(it), {});
});
