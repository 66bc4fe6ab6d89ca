// Chapters: where they begin, at headings and names, and what becomes of them when one is moved.

import assert from "node:assert/strict";
import { test } from "node:test";
import { moveChapter, stepsOf } from "../../../srb/page/desk/chapter_moves.js";
import { chaptersOf } from "../../../srb/page/formats/chapters.js";
import { rowsOf } from "../../../srb/page/outline_rows.js";
import { makeDesk, round } from "./fake_desk.js";
import { storyWith } from "./formats_oracle.js";
import { Random } from "./random.js";

/** @param {import("../../../srb/page/story.js").Story} story */
const named = (story) => chaptersOf(story).chapters.map(({ name, text }) => ({ name, text }));

test("chapters begin at the names of nodes, through later edits", () => {
  const nodes = {
    a: { text: "Intro. " },
    b: { parent: "a", keep: 7, text: "First chapter. " },
    c: { parent: "b", keep: 22, text: "Second chapter." },
    d: { parent: "c", keep: 0, tail: 6, text: "A long introduction." },
    e: { parent: "d", keep: 36, tail: 42, text: "2nd" },
    other: { parent: "a", keep: 7, text: "elsewhere" },
  };
  const marks = { b: { name: "One" }, c: { name: "Two" }, other: { name: "Not here" } };
  const at = (/** @type {object} */ head) => named(storyWith(nodes, { head, marks }));
  assert.deepEqual(at({ node: "e", at: 48 }), [
    { name: "", text: "A long introduction. " },
    { name: "One", text: "First chapter. " },
    { name: "Two", text: "2nd chapter." },
  ]);
  assert.deepEqual(at({ node: "b", at: 12 }), [
    { name: "", text: "Intro. " },
    { name: "One", text: "First" },
  ]);
  assert.deepEqual(at({ node: "a", at: 3 }), [{ name: "", text: "Int" }]);
});

test("a name whose words were all cut away, at the end or in the middle, names no chapter", () => {
  const nodes = {
    a: { text: "Intro. " },
    b: { parent: "a", keep: 7, text: "First." },
    c: { parent: "b", keep: 5, text: "." },
    d: { parent: "b", keep: 13, text: " Then." },
    e: { parent: "d", keep: 7, tail: 13, text: "" },
  };
  const marks = { b: { name: "One" }, d: { name: "Two" } };
  assert.deepEqual(named(storyWith(nodes, { head: { node: "c", at: 6 }, marks })), [{ name: "", text: "Intro." }]);
  assert.deepEqual(named(storyWith(nodes, { head: { node: "e", at: 13 }, marks })), [
    { name: "", text: "Intro. " },
    { name: "Two", text: " Then." },
  ]);
});

test("words that are typed before a named node's first one belong to its chapter", () => {
  const nodes = {
    a: { text: "Intro.\n\n" },
    b: { parent: "a", keep: 8, text: "came first." },
    c: { parent: "b", keep: 8, tail: 8, text: "Fog " },
  };
  assert.deepEqual(named(storyWith(nodes, { head: { node: "c", at: 23 }, marks: { b: { name: "One" } } })), [
    { name: "", text: "Intro.\n\n" },
    { name: "One", text: "Fog came first." },
  ]);
});

/** @param {string} text */
const ofText = (text) => chaptersOf(storyWith({ a: { text } }, { head: { node: "a", at: text.length } })).chapters;

test("chapters begin at headings of one or two signs, with the words of these without their own", () => {
  const text = "A quote.\n\n# Part *One*\n\n## The Salt Road ##\nFog.\n### a scene\n#no\n ## Two\n\nEnd.";
  assert.deepEqual(
    ofText(text).map(({ name, level, text: words, body }) => [name, level, words.slice(0, body), words.slice(body)]),
    [
      ["", 2, "", "A quote.\n\n"],
      ["Part One", 1, "# Part *One*", "\n\n"],
      ["The Salt Road", 2, "## The Salt Road ##", "\nFog.\n### a scene\n#no\n"],
      ["Two", 2, " ## Two", "\n\nEnd."],
    ],
  );
  assert.deepEqual(
    ofText("\n\n# One\nFog.").map(({ name }) => name),
    ["One"],
  );
  assert.deepEqual(
    ofText("no heading\u2028# here").map(({ name }) => name),
    [""],
  );
});

for (const [where, name] of /** @type {const} */ ([
  ["where its node begins", 6],
  ["before the blank lines", 4],
  ["inside its line", 9],
  ["right behind it", 12],
  ["behind the blank line", 14],
]))
  test(`a heading and a name that is ${where} are one chapter`, () => {
    const text = "Fog.\n\n## One\n\nIda rowed.";
    const nodes = { a: { text: text.slice(0, name) }, b: { parent: "a", keep: name, text: text.slice(name) } };
    const story = storyWith(nodes, { head: { node: "b", at: text.length }, marks: { b: { name: "Draft" } } });
    assert.deepEqual(
      chaptersOf(story).chapters.map((each) => each.name),
      ["", "One"],
    );
    assert.equal(
      chaptersOf(story)
        .chapters.map((each) => each.text)
        .join(""),
      text,
    );
  });

// ---- Moves

/** A desk whose text is typed. @param {string} text */
async function deskWith(text) {
  const it = await makeDesk();
  it.manuscript.select = () => {};
  it.manuscript.type(text);
  return it;
}

/** @param {{desk: any}} it @param {number} index @param {1 | -1} step */
function step({ desk }, index, step) {
  const { chapters } = chaptersOf(desk.story);
  const before = stepsOf(chapters)[index]?.[step < 0 ? "up" : "down"] ?? null;
  return before === null ? null : moveChapter(desk, chapters, index, before);
}

/** @type {[string, string, number, 1 | -1, string | null][]} */
const MOVES = [
  ["up", "## A\n\na\n\n## B\n\nb\n\n## C\n\nc\n", 1, -1, "## B\n\nb\n\n## A\n\na\n\n## C\n\nc\n"],
  ["down", "## A\n\na\n\n## B\n\nb\n\n## C\n\nc\n", 0, 1, "## B\n\nb\n\n## A\n\na\n\n## C\n\nc\n"],
  ["to the end", "## A\n\na\n\n## B\n\nb", 0, 1, "## B\n\nb\n\n## A\n\na"],
  ["from the end", "## A\n\na\n\n## B\n\nb\n", 1, -1, "## B\n\nb\n\n## A\n\na\n"],
  ["among lines", "## A\na\n## B\nb\n## C\nc", 2, -1, "## A\na\n## C\nc\n## B\nb"],
  ["beyond the first", "## A\n\na", 0, -1, null],
  ["beyond the last", "## A\n\na", 0, 1, null],
  ["before words without a name", "Fog.\n\n## A\n\na", 1, -1, null],
  ["what has no name", "Fog.\n\n## A\n\na", 0, 1, null],
  ["a part with its chapters", "# I\n\n## A\n\na\n\n# II\n\n## B\n\nb", 2, -1, "# II\n\n## B\n\nb\n\n# I\n\n## A\n\na"],
  ["a part down", "# I\n\n## A\n\na\n\n# II\n\n## B\n\nb", 0, 1, "# II\n\n## B\n\nb\n\n# I\n\n## A\n\na"],
  ["into the part before", "# I\n\n## A\n\na\n\n# II\n\n## B\n\nb", 3, -1, "# I\n\n## A\n\na\n\n## B\n\nb\n\n# II"],
  ["into the part behind", "# I\n\n## A\n\na\n\n# II\n\n## B\n\nb", 1, 1, "# I\n\n# II\n\n## A\n\na\n\n## B\n\nb"],
];

for (const [where, text, index, by, expected] of MOVES)
  test(`a chapter is moved ${where}`, async () => {
    const it = await deskWith(text);
    const at = step(it, index, by);
    assert.equal(at === null ? null : it.desk.text, expected);
    if (at === null) return;
    const title = /^#+ \w+/.exec(
      text.slice(chaptersOf(storyWith({ a: { text } }, { head: { node: "a", at: text.length } })).chapters[index]?.at),
    )?.[0];
    assert.ok(it.desk.text.slice(at).startsWith(title ?? "none"), "it says where the chapter begins now");
    it.manuscript.undo();
    assert.equal(it.desk.text, text, "one step back");
    it.manuscript.redo();
    assert.equal(it.desk.text, expected);
    assert.deepEqual(it.desk.said, [], "no word is lost");
  });

test("the places of all chapters after a step are found in one walk", () => {
  const dice = new Random(5);
  let reads = 0;
  const levels = Array.from({ length: 3000 }, () => 1 + dice.below(3));
  const chapters = levels.map((level, index) => ({
    name: index === 0 ? "" : `T${index}`,
    get level() {
      reads += 1;
      return level;
    },
  }));
  const steps = stepsOf(/** @type {any} */ (chapters));
  assert.ok(reads < 10 * levels.length, `${reads} reads`);
  for (const index of [0, 1, 2, 500, 1500, 2997, 2998, 2999]) {
    const level = levels[index] ?? 0;
    const next = levels.findIndex((each, place) => place > index && each <= level);
    const prior = levels.findLastIndex((each, place) => place < index && each <= level);
    const behind = levels.findIndex((each, place) => place > next && each <= (levels[next] ?? 0));
    const down = levels[next] === level ? (behind < 0 ? levels.length : behind) : next + 1;
    assert.deepEqual(steps[index], {
      end: next < 0 ? levels.length : next,
      up: index === 0 || prior <= 0 ? null : prior,
      down: index === 0 || next < 0 ? null : down,
    });
  }
});

test("who wrote what goes with a chapter, and its name too", async () => {
  const it = await deskWith("Fog came.");
  await round(it, " The first night.");
  await it.desk.take(0, { go: false });
  const first = it.desk.head.node;
  it.manuscript.type(" I slept.");
  await round(it, " The second night.");
  await it.desk.take(0, { go: false });
  const second = it.desk.head.node;
  it.desk.story.setMark(first, "name", "One");
  it.desk.story.setMark(second, "name", "Two");
  const text = "Fog came. The first night. I slept. The second night.";
  assert.equal(it.desk.text, text);
  step(it, 2, -1);
  assert.equal(it.desk.text, "Fog came.\n\nThe second night.\n\n The first night. I slept.");
  const trimmed = named(it.desk.story).map(({ name, text: words }) => [name, words.trim()]);
  assert.deepEqual(trimmed, [
    ["", "Fog came."],
    ["Two", "The second night."],
    ["One", "The first night. I slept."],
  ]);
  const { story, head } = it.desk;
  const byModel = story.pieces(head.node, head.at).filter(({ by }) => by === "model");
  assert.deepEqual(
    byModel.map(({ from, to }) => it.desk.text.slice(from, to).trim()),
    ["The second night.", "The first night."],
  );
  step(it, 1, 1);
  assert.deepEqual(
    named(it.desk.story).map(({ name }) => name),
    ["", "One", "Two"],
  );
});

test("a move is one step of the story's own trail after a reload, and one row of the outline", async () => {
  const it = await deskWith("## A\n\na");
  await round(it, " very");
  await it.desk.take(0, { go: false });
  it.manuscript.type(" well\n\n## B\n\nb");
  const text = it.desk.text;
  step(it, 0, 1);
  const after = it.desk.text;
  assert.equal(after, "## B\n\nb\n\n## A\n\na very well");
  const path = new Set(it.desk.story.path(it.desk.head.node));
  const rows = rowsOf(it.desk.story, { path, isOpen: () => false });
  assert.equal(rows.filter(({ id }) => it.desk.story.nodes.get(id).act).length, 1);
  it.desk.setStory(it.desk.story); // what a reload does
  await it.desk.undo();
  assert.equal(it.desk.text, text);
  await it.desk.redo();
  assert.equal(it.desk.text, after);
});

test("whatever chapters a text has: a move loses no word, and the way back is the text", async () => {
  const dice = new Random(11);
  let moves = 0;
  for (let walk = 0; walk < 60; walk += 1) {
    const parts = Array.from({ length: 2 + dice.below(6) }, (_, index) => {
      const title = dice.choice(["# ", "## ", "## ", ""]);
      const gap = dice.choice(["\n", "\n\n", "\n\n\n"]);
      return title === ""
        ? `words ${index}${gap}`
        : `${title}T${index}${gap}text *${index}*${dice.choice(["", " more"])}${gap}`;
    });
    const it = await deskWith(parts.join(""));
    for (let turn = 0; turn < 4; turn += 1) {
      const before = it.desk.text;
      const { chapters } = chaptersOf(it.desk.story);
      const index = dice.below(chapters.length);
      const block = chapters.slice(index, stepsOf(chapters)[index]?.end).map((each) => each.name);
      if (step(it, index, dice.choice([1, -1])) === null) continue;
      moves += 1;
      const words = (/** @type {string} */ text) => text.split(/\s+/).filter(Boolean).sort();
      assert.deepEqual(words(it.desk.text), words(before));
      const after = chaptersOf(it.desk.story).chapters.map((each) => each.name);
      assert.deepEqual(after.toSorted(), chapters.map((each) => each.name).toSorted());
      const place = after.indexOf(block[0] ?? "");
      assert.deepEqual(after.slice(place, place + block.length), block, "the chapter and those below it are together");
      it.manuscript.undo();
      assert.equal(it.desk.text, before);
      it.manuscript.redo();
    }
  }
  assert.ok(moves > 50, `${moves} moves`);
});
