/** The plan: synopses in the prompt, beats that are written, and what both are in a story. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { addBeats, beatsIn, moveBeat, nextBeat, tick, writeNextBeat } from "../../../srb/page/desk/beats.js";
import { moveChapter } from "../../../srb/page/desk/chapter_moves.js";
import { writeLines } from "../../../srb/page/desk/summarize.js";
import { planOf, setSynopsis, toldParts } from "../../../srb/page/desk/synopses.js";
import { chaptersOf } from "../../../srb/page/formats/chapters.js";
import { toldBefore } from "../../../srb/page/plan.js";
import { planPrompt } from "../../../srb/page/prompt.js";
import { readingOf } from "../../../srb/page/reading.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, settled } from "./fake_desk.js";
import { exchange, secondWindow } from "./two_desks.js";

const SETTINGS = { n: 8, max_tokens: 128, mode: "text" };
const BOOK = "## The Road\n\nMara walks.\n\nShe rests.\n\n***\n\nA dog comes.\n\n## The Sea\n\nThe boat lies there.";

/** A desk with a text, and the synopses of its parts by their beginnings. */
async function planned(text = BOOK, synopses = {}) {
  const it = await makeDesk();
  it.manuscript.type(text);
  it.parts = () => toldParts(it.desk.story, it.desk.head);
  it.part = (name) => it.parts().find(({ at }) => it.desk.text.startsWith(name, at));
  for (const [name, line] of Object.entries(synopses)) setSynopsis(it.desk, it.part(name), line);
  it.plan = () => planOf(it.desk.story, it.desk.head);
  return it;
}

test("chapters and scenes have a line each, which goes where their words go", async () => {
  const it = await planned(BOOK, {
    "## The Road": "Mara leaves.",
    "A dog": "She is not alone.",
    "## The Sea": "It waits.",
  });
  assert.deepEqual(
    it.parts().map(({ kind, name, synopsis }) => [kind, name, synopsis]),
    [
      ["chapter", "The Road", "Mara leaves."],
      ["scene", "", ""],
      ["scene", "", "She is not alone."],
      ["chapter", "The Sea", "It waits."],
    ],
  );
  it.manuscript.type("It was late.\n\n", 0, 0);
  assert.deepEqual(
    it.parts().map(({ synopsis }) => synopsis),
    ["", "Mara leaves.", "", "She is not alone.", "It waits."],
  );
  const { chapters } = chaptersOf(it.desk.story);
  moveChapter(it.desk, chapters, 2, 1);
  assert.deepEqual(
    it.parts().map(({ synopsis }) => synopsis),
    ["", "It waits.", "Mara leaves.", "", "She is not alone."],
  );
});

test("a branch that forked before a chapter has nothing of its line, and no text has more than it reads", async () => {
  const it = await planned(BOOK, { "## The Road": "Mara leaves.", "## The Sea": "It waits." });
  const { node } = it.desk.head;
  const before = { node, at: BOOK.indexOf("## The Sea") };
  assert.deepEqual(
    planOf(it.desk.story, before).lines.map(({ text }) => text),
    ["Mara leaves."],
  );
});

test("a line stays where the heading below it is rewritten, and goes along into a new story", async () => {
  const it = await planned(BOOK, { "## The Sea": "It waits." });
  const at = BOOK.indexOf("## The Sea");
  it.manuscript.type("## Das Meer", at, at + "## The Sea".length);
  assert.equal(it.part("## Das Meer").synopsis, "It waits.");
  const next = Story.create();
  for (const [key, value] of Object.entries(it.desk.story.stampsOf(null).values))
    if (key.startsWith("synopsis.")) next.setMeta(key, { ...value, quote: "## The Sea" });
  const place = next.edit({ node: "", at: 0 }, 0, 0, BOOK);
  assert.equal(toldParts(next, place).at(-1).synopsis, "It waits.");
});

test("a line that is emptied is taken away, and a text without lines has no plan", async () => {
  const it = await planned(BOOK, { "## The Sea": "It waits." });
  setSynopsis(it.desk, it.part("## The Sea"), " ");
  assert.deepEqual(it.plan().lines, []);
  assert.deepEqual(
    Object.keys(it.desk.story.stampsOf(null).values).filter((key) => key.startsWith("synopsis.")),
    [],
  );
});

const plan = (text, lines, more = {}) => planPrompt({ text, plan: lines, settings: SETTINGS, n_ctx: 8192, ...more });

test("each line stands in brackets before its part, and the text is else as it was", async () => {
  const it = await planned(BOOK, {
    "## The Road": "Mara leaves.",
    "A dog": "She is not alone.",
    "## The Sea": "It waits.",
  });
  const { prompt, blocks, parts } = plan(BOOK, it.plan());
  const lines = [
    "[In this chapter: Mara leaves.]\n\n",
    "[In this scene: She is not alone.]\n\n",
    "[In this chapter: It waits.]\n\n",
  ];
  assert.equal(
    prompt,
    BOOK.replace("## The Road", `${lines[0]}## The Road`)
      .replace("A dog", `${lines[1]}A dog`)
      .replace("## The Sea", `${lines[2]}## The Sea`),
  );
  const told = readingOf(prompt, blocks).filter(({ origin }) => origin === "plan");
  assert.deepEqual(
    told.map(({ text }) => text),
    lines,
  );
  assert.equal(parts.find(({ kind }) => kind === "plan").characters, lines.join("").length);
});

const paragraph = (number) => `${`Dora ${number} keeps the light and walks. `.repeat(10).trim()}\n\n`;
const chapter = (number) =>
  `## Chapter ${number}\n\n${Array.from({ length: 12 }, (_, at) => paragraph(100 * number + at)).join("")}`;
const LONG = Array.from({ length: 8 }, (_, number) => chapter(number)).join("");
const LINES = Object.fromEntries(
  Array.from({ length: 8 }, (_, number) => [`## Chapter ${number}\n`, `Line ${number}`]),
);
const SMALL = { n_ctx: 4096, settings: { n: 2, max_tokens: 64 } };

test("of parts that no longer fit the lines tell the story so far, in the place of the summary", async () => {
  const it = await planned(LONG, LINES);
  const { prompt, cut } = plan(LONG, it.plan(), { ...SMALL, summary: "A summary." });
  const now = Math.floor(LONG.slice(0, cut.at).split("## Chapter").length - 2);
  assert.ok(now > 1);
  const told = Array.from({ length: now }, (_, number) => `Chapter ${number}: Line ${number}.`).join(" ");
  assert.ok(
    prompt.startsWith(`[The story so far: ${told}]\n\n[In this chapter: Line ${now}]\n\nDora`),
    prompt.slice(0, 300),
  );
  assert.ok(!prompt.includes("A summary."));
  assert.ok(prompt.length <= (4096 - 128) * 3.5);
});

test("where a part that is not read has no line, the summary tells; without one, the lines that there are", async () => {
  const { "## Chapter 1\n": _, ...some } = LINES;
  const it = await planned(LONG, some);
  assert.ok(
    plan(LONG, it.plan(), { ...SMALL, summary: "A summary." }).prompt.startsWith(
      "[The story so far: A summary.]\n\n[In",
    ),
  );
  assert.match(plan(LONG, it.plan(), SMALL).prompt, /^\[The story so far: Chapter 0: Line 0\. Chapter 2: Line 2\./);
});

test("a long plan loses its first lines, and takes no room that the text needs", async () => {
  const it = await planned(
    LONG,
    Object.fromEntries(Object.keys(LINES).map((name, at) => [name, `${at} ${"w".repeat(490)}`])),
  );
  const { prompt, parts } = plan(LONG, it.plan(), { n_ctx: 1024, settings: { n: 1, max_tokens: 64 } });
  assert.ok(prompt.length <= (1024 - 64) * 3.5);
  assert.ok(prompt.startsWith("[The story so far: "), prompt.slice(0, 80));
  assert.ok(parts.find(({ kind }) => kind === "story").characters > 1000);
  const lines = Array.from({ length: 9 }, (_, at) => ({ kind: "chapter", name: "", at, end: at + 1, text: `${at}.` }));
  assert.equal(toldBefore({ lines, untold: 9 }, 9, 8, false), "6. 7. 8.");
});

test("all that is before the text's end stays as it was, from round to round", async () => {
  const it = await planned(LONG, LINES);
  let cut = null;
  let last = "";
  let moved = 0;
  for (let at = 8; at < 40; at += 1) {
    it.manuscript.type(paragraph(900 + at));
    const next = plan(it.desk.text, it.plan(), { n_ctx: 16_384, settings: SMALL.settings, cut });
    if (!next.prompt.startsWith(last)) moved += 1;
    [cut, last] = [next.cut, next.prompt];
  }
  assert.equal(moved, 0);
});

// ---- Lines that the model writes

/** A desk at the end of a text, beside a server that answers with one line after the other. */
async function told(more = {}) {
  const it = await planned(`${BOOK}\n\n## The Isle\n\nIt is far.`, { "## The Sea": "It waits." });
  let count = 0;
  it.api.answers["v1/srb/server"] = { ...it.api.answers["v1/srb/server"], ...more };
  it.api.answers["v1/srb/completions"] = (body) =>
    body
      ? { completions: [{ text: ` Line ${++count}. And\nmore. ` }], usage: { prompt_tokens: 40 } }
      : { completions: [] };
  it.api.answers["apply-template"] = ({ messages }) => ({ prompt: `<u>${messages[0].content}</u>` });
  await it.desk.watch.check();
  it.desk.watch.stop();
  it.asked = () => it.api.calls.filter(({ method, path }) => method === "POST" && path === "v1/srb/completions");
  it.write = () => writeLines(it.desk.rounds, new AbortController().signal);
  it.lines = () => it.parts().map(({ synopsis }) => synopsis);
  return it;
}

test("the model writes a line on each part before the caret that has none, one step of undo together", async () => {
  const it = await told();
  const { text } = it.desk;
  await it.write();
  assert.deepEqual(it.lines(), ["", "Line 1.", "Line 2.", "It waits.", ""]);
  assert.equal(
    it.asked()[0].body.prompt,
    "Mara walks.\n\nShe rests.\n\n***\n\n[The part above, in one short sentence]\n\n",
  );
  assert.equal(it.desk.text, text);
  it.desk.undo();
  assert.deepEqual(it.lines(), ["", "", "", "It waits.", ""]);
  it.desk.redo();
  assert.deepEqual(it.lines(), ["", "Line 1.", "Line 2.", "It waits.", ""]);
});

test("a chat model is asked for a line, and what is stopped or refused keeps the lines before it", async () => {
  const it = await told({ chat_template: true });
  const answer = it.api.answers["v1/srb/completions"];
  it.api.answers["v1/srb/completions"] = (body) => {
    if (body && it.asked().length > 1) throw new Error("away");
    return answer(body);
  };
  await assert.rejects(it.write(), /away/);
  assert.match(it.asked()[0].body.prompt, /^<u>Mara walks\.[\s\S]*Say in one short sentence/);
  assert.deepEqual(it.lines(), ["", "Line 1.", "", "It waits.", ""]);
  it.desk.undo();
  assert.deepEqual(it.lines(), ["", "", "", "It waits.", ""]);
});

// ---- Beats

let requests = 0;

/** Ask for the next beat, and have the cards written. */
async function written(it, ...texts) {
  writeNextBeat(it.desk);
  await settled();
  requests += 1;
  const seeds = texts.map((_, index) => index);
  const { body } = it.api.last;
  const { directions } = body;
  it.api.last.send({ event: "start", id: `r${requests}`, count: texts.length, seeds, prompt_tokens: 6, directions });
  for (const [index, text] of texts.entries()) it.api.last.send({ event: "stream", index, text });
  return body;
}

const beats = (it, place = it.desk.head) =>
  beatsIn(it.desk.story, place).map(({ text, ticks, from }) => [text, ticks.length > 0, from !== null]);

/** A desk with three beats. */
async function beaten() {
  const it = await planned("Mara walks.\n\nShe rests.");
  it.desk.setSetting("n", 2);
  addBeats(it.desk, ["a dog comes", "it bites her", "she runs"]);
  return it;
}

test("a round writes the next beat: it is the direction of every card, and no word of the text", async () => {
  const it = await beaten();
  const body = await written(it, " A dog comes.", " A cat.");
  assert.deepEqual(body.directions, Array(2).fill("a dog comes"));
  assert.equal(body.prompt, "Mara walks.\n\nShe rests.");
  assert.deepEqual(body.direction_place, { at: 13, before: "[What happens next: ", rest: "]\n\nShe rests." });
  assert.equal(it.desk.text, "Mara walks.\n\nShe rests.");
});

test("a beat whose card was taken is offered to be ticked, stays the next one until it is, and is open where the card is not", async () => {
  const it = await beaten();
  const base = { ...it.desk.head };
  await written(it, " A dog comes.", " A cat.");
  await it.desk.take(0, { go: false });
  assert.deepEqual(beats(it), [
    ["a dog comes", false, true],
    ["it bites her", false, false],
    ["she runs", false, false],
  ]);
  assert.equal(nextBeat(it.desk).text, "a dog comes");
  tick(it.desk, nextBeat(it.desk));
  assert.equal(nextBeat(it.desk).text, "it bites her");
  assert.deepEqual(beats(it, base)[0], ["a dog comes", false, false]);
  it.desk.undo();
  assert.equal(nextBeat(it.desk).text, "a dog comes");
  it.desk.redo();
  assert.equal(nextBeat(it.desk).text, "it bites her");
  tick(it.desk, beatsIn(it.desk.story, it.desk.head)[0]);
  assert.equal(nextBeat(it.desk).text, "a dog comes");
});

test("a beat's direction stays where it stood while it is being written, and is read there when the next one is, after a reload too", async () => {
  const it = await beaten();
  const bodies = [];
  const whole = ({ prompt, direction_place: { at, before, rest }, directions }) =>
    prompt.slice(0, at) + before + directions[0] + rest;
  for (const [name, text] of ["\n\nA dog.", " It is black.", "\n\nIt bites."].entries()) {
    if (name === 2) tick(it.desk, nextBeat(it.desk));
    bodies.push(await written(it, text, " A cat."));
    await it.desk.take(0, { go: false });
  }
  const [first, second, third] = bodies.map(whole);
  assert.equal(first, "Mara walks.\n\n[What happens next: a dog comes]\n\nShe rests.");
  assert.equal(second, `${first}\n\nA dog.`);
  assert.equal(third, `${first}\n\n[What happens next: it bites her]\n\nA dog. It is black.`);
  assert.deepEqual(bodies[2].banned_strings, ["[What happens next:"]);
  const again = await secondWindow(it);
  again.desk.setSetting("n", 2);
  assert.equal(whole(await written(again, " b", " c")), `${third}\n\nIt bites.`);
  assert.equal(it.desk.text, "Mara walks.\n\nShe rests.\n\nA dog. It is black.\n\nIt bites.");
});

test("beats change their places, and each change is a step of undo", async () => {
  const it = await beaten();
  const order = () => beats(it).map(([text]) => text);
  moveBeat(it.desk, beatsIn(it.desk.story, it.desk.head), 2, -1);
  assert.deepEqual(order(), ["a dog comes", "she runs", "it bites her"]);
  moveBeat(it.desk, beatsIn(it.desk.story, it.desk.head), 0, 1);
  assert.deepEqual(order(), ["she runs", "a dog comes", "it bites her"]);
  it.desk.undo();
  it.desk.undo();
  assert.deepEqual(order(), ["a dog comes", "it bites her", "she runs"]);
  it.desk.undo();
  assert.deepEqual(order(), []);
});

test("plans of two windows become one, and a story's file has all of them", async () => {
  const it = await planned(BOOK);
  const other = await secondWindow(it);
  setSynopsis(it.desk, it.part("## The Road"), "Mara leaves.");
  addBeats(other.desk, ["a dog comes"]);
  exchange(it, other);
  for (const story of [it.desk.story, other.desk.story, storyOf(it.desk.story.toJSON())]) {
    assert.deepEqual(toldParts(story, story.head)[0].synopsis, "Mara leaves.");
    assert.deepEqual(
      beatsIn(story, story.head).map(({ text }) => text),
      ["a dog comes"],
    );
  }
});

test("what a file has in the place of a line, a beat or a tick, and is none, is left out", async () => {
  const it = await planned(BOOK);
  for (const wrong of [
    5,
    "x",
    { text: 3 },
    { text: "x".repeat(501), quote: "", on: [], order: 1 },
    { text: "x", on: [{}], quote: "", order: "1" },
  ]) {
    it.desk.setMeta("synopsis.a", wrong);
    it.desk.setMeta("beat.a", wrong);
    it.desk.setMeta("beat_done.a", wrong);
    assert.deepEqual(it.plan().lines, []);
    assert.deepEqual(beats(it), []);
  }
});
