import assert from "node:assert/strict";
import { test } from "node:test";

import { writeLabels, writePairs } from "../../../srb/page/formats/choices.js";
import { writeEvents } from "../../../srb/page/formats/coauthor.js";
import { storyWith } from "./formats_oracle.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

const run = (at, more = {}) => ({
  ...{ node: "a", at, made: 1_700_000_000_000, model: "SmolLM2", request_id: "r", seeds: [7, 8, 9] },
  ...{ request: { n: 3, max_tokens: 64 } },
  ...more,
});
const card = (slot, text, more = {}) => ({
  ...{ parent: "a", keep: 5, text, by: "model", run: "run", slot, index: slot, seed: 7 + slot, end: { reason: "eos" } },
  ...more,
});
const NODES = { a: { text: "Once, " }, one: card(0, " a king"), two: card(1, " a fox"), three: card(2, " rain") };
const story = (nodes, more) => storyWith(nodes, { runs: { run: run(5) }, head: { node: "a", at: 6 }, ...more });
const rowsOf = (text) =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** The columns that the documentation of TRL names for its trainers, and the types that they have. */
const DPO = { prompt: "string", chosen: "string", rejected: "string" };
const KTO = { prompt: "string", completion: "string", label: "boolean" };

function checkTable(rows, columns) {
  const typesOf = (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value]));
  for (const row of rows) {
    for (const [name, type] of Object.entries(columns)) assert.equal(typeof row[name], type, name);
    assert.deepEqual(typesOf(row), typesOf(rows[0]), "a table has one type in a column");
  }
}

test("a pair is what was taken and what was passed over, after the text before the round", () => {
  const rows = rowsOf(writePairs(story({ ...NODES, b: { parent: "two", keep: 11, text: "!" } })));
  checkTable(rows, DPO);
  assert.deepEqual(
    rows.map(({ prompt, chosen, rejected }) => [prompt, chosen, rejected]),
    [
      ["Once,", " a fox", " a king"],
      ["Once,", " a fox", " rain"],
    ],
  );
  assert.deepEqual(
    [rows[0].chosen_seed, rows[0].rejected_seed, rows[0].model, rows[0].round, rows[0].made],
    [8, 7, "SmolLM2", "run", "2023-11-14T22:13:20.000Z"],
  );
  assert.deepEqual(JSON.parse(rows[0].parameters), { n: 3, max_tokens: 64 });
});

test("of a card that was taken in part only this part is chosen, also where the manuscript ends in it", () => {
  const cut = rowsOf(writePairs(story({ ...NODES, b: { parent: "one", keep: 7, text: " queen" } })));
  assert.deepEqual(new Set(cut.map(({ chosen }) => chosen)), new Set([" a"]));
  const shown = rowsOf(writePairs(story(NODES, { head: { node: "one", at: 12 } })));
  assert.deepEqual(new Set(shown.map(({ chosen }) => chosen)), new Set([" a king"]));
});

test("each text of a round with a choice is labelled, and of one without only those that were set aside", () => {
  const rows = rowsOf(writeLabels(story({ ...NODES, b: { parent: "two", keep: 11, text: "!" } })));
  checkTable(rows, KTO);
  assert.deepEqual(
    rows.map(({ completion, label, seed }) => [completion, label, seed]),
    [
      [" a king", false, 7],
      [" a fox", true, 8],
      [" rain", false, 9],
    ],
  );
  assert.equal(writeLabels(story(NODES)), "");
  assert.equal(writePairs(story(NODES)), "");
  const marks = { three: { pruned: true } };
  assert.deepEqual(
    rowsOf(writeLabels(story(NODES, { marks }))).map(({ completion, label }) => [completion, label]),
    [[" rain", false]],
  );
});

test("a further try joins its round, an own continuation of a round is no choice, and a copy is one", () => {
  const runs = { run: run(5), more: run(5, { round: "run" }) };
  const nodes = {
    ...NODES,
    four: card(3, " snow", { run: "more" }),
    on: card(0, " and", { parent: "one", keep: 12, run: "more" }),
  };
  assert.equal(writePairs(story(nodes, { runs })), "");
  const copied = { ...nodes, b: { parent: "a", keep: 6, text: " rain", of: { node: "three", at: 0 } } };
  const rows = rowsOf(writePairs(story(copied, { runs })));
  assert.deepEqual(new Set(rows.map(({ chosen }) => chosen)), new Set([" rain"]));
  assert.deepEqual(new Set(rows.map(({ rejected }) => rejected)), new Set([" a king", " a fox", " snow"]));
});

test("a prompt is the end of a long text", () => {
  const long = {
    ...NODES,
    a: { text: "x".repeat(20_000) },
    one: card(0, " y", { keep: 20_000 }),
    two: card(1, " z", { keep: 20_000 }),
  };
  const [row] = rowsOf(writePairs(story(long, { head: { node: "one", at: 20_002 } })));
  assert.equal(row.prompt, "x".repeat(8000));
});

/** The keys of each event of the published log of CoAuthor, and its names of events. */
const LOGGED = [
  ...["eventName", "eventSource", "eventTimestamp", "textDelta", "cursorRange", "currentDoc", "currentCursor"],
  ...["currentSuggestions", "currentSuggestionIndex", "currentHoverIndex", "currentN", "currentMaxToken"],
  ...["currentTemperature", "currentTopP", "currentPresencePenalty", "currentFrequencyPenalty", "originalSuggestions"],
  "eventNum",
];
const NAMES = new Set(
  "system-initialize text-insert text-delete suggestion-get suggestion-open suggestion-reopen suggestion-select suggestion-close".split(
    " ",
  ),
);

/** Put a text together as Quill does. */
const applied = (text, { ops = [] }) => {
  let at = 0;
  for (const { retain = 0, insert = "", delete: gone = 0 } of ops) {
    text = text.slice(0, at + retain) + insert + text.slice(at + retain + gone);
    at += retain + insert.length;
  }
  return text;
};

const textOf = (events) => events.reduce((text, { textDelta }) => applied(text, textDelta || {}), "");

test("the events of a session have the fields of CoAuthor's log, and their changes are the manuscript", () => {
  const nodes = {
    ...NODES,
    b: { parent: "two", keep: 9, text: "ox came. " },
    c: { parent: "b", keep: 0, text: "Twice", tail: 4 },
  };
  const events = rowsOf(writeEvents(story(nodes, { head: { node: "c", at: 17 } })));
  for (const [place, event] of events.entries()) {
    assert.deepEqual(Object.keys(event), LOGGED);
    assert.ok(NAMES.has(event.eventName), event.eventName);
    assert.ok(["user", "api"].includes(event.eventSource));
    assert.equal(event.eventNum, place);
    assert.ok(event.eventTimestamp >= (events[place - 1]?.eventTimestamp ?? 0));
  }
  assert.deepEqual(
    events.map(({ eventName, eventSource }) => `${eventName} ${eventSource}`),
    [
      ...["system-initialize api", "text-insert user", "suggestion-get user", "suggestion-open api"],
      ...["suggestion-select user", "suggestion-close api", "text-insert api", "text-insert user", "text-insert user"],
    ],
  );
  assert.equal(textOf(events), "Twice, a fox came. ".slice(0, 17));
  const [open, select] = [events[3], events[4]];
  assert.deepEqual(
    open.currentSuggestions.map(({ index, original, trimmed }) => [index, original, trimmed]),
    [
      [0, " a king", "a king"],
      [1, " a fox", "a fox"],
      [2, " rain", "rain"],
    ],
  );
  assert.deepEqual([select.currentSuggestionIndex, open.currentN, open.currentMaxToken], [1, "3", "64"]);
});

for (let seed = 1; seed <= 40; seed += 1)
  test(`the changes of a random story's events are its manuscript (${seed})`, () => {
    const walk = new Walk(new Random(seed));
    for (let step = 0; step < 60; step += 1) walk.step();
    walk.story.setMeta("head", walk.head);
    assert.equal(textOf(rowsOf(writeEvents(walk.story))), walk.text);
  });
