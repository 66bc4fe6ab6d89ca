import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/web/page/formats/detect.js";
import { encoded, manuscript, textsOf } from "./formats_oracle.js";

const lines = (...values) =>
  encoded(values.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n"));
const HEAD = { user_name: "Ann", character_name: "Mara", chat_metadata: { note_prompt: "Quiet.", note_depth: 5 } };
const CHAT = [
  HEAD,
  {
    name: "Mara",
    is_user: false,
    is_system: false,
    mes: "Hello.",
    swipes: ["Hello.", "Who are you?"],
    swipe_id: 0,
    send_date: "2024-05-01T10:00:00.000Z",
  },
  { name: "Ann", is_user: true, mes: "*waves*" },
  { name: "System", is_user: false, is_system: true, mes: "hidden" },
  { name: "Mara", is_user: false, mes: "Come <b>in</b>.", swipes: ["Go away.", "Come <b>in</b>."], swipe_id: 1 },
];

const open = (name, content) => {
  const found = read(name, content);
  assert.ok(!("error" in found), found.error);
  return { ...found, json: found.stories[0].toJSON() };
};

for (const [name, content] of [
  ["chat.jsonl", lines(...CHAT)],
  ["pasted, with empty lines and \\r\\n", encoded(`${CHAT.map((each) => JSON.stringify(each)).join("\r\n\r\n")}\r\n`)],
  ["", lines(...CHAT.slice(1))],
])
  test(`a chat of SillyTavern is a chain of messages, its swipes beside them: ${name || "without a first line"}`, () => {
    const { format, json, remarks } = open(name, content);
    assert.equal(format, "SillyTavern");
    assert.equal(manuscript(json), "Hello.\n\n*waves*\n\nCome <b>in</b>.");
    const texts = [...textsOf(json).values()];
    assert.ok(texts.includes("Who are you?") && texts.includes("Hello.\n\n*waves*\n\nGo away."));
    assert.deepEqual(
      Object.values(json.nodes)
        .map(({ by }) => by)
        .sort(),
      ["model", "model", "model", "model", "person"],
    );
    assert.deepEqual(remarks, ["1 hidden message was left out."]);
    if (name !== "") assert.deepEqual(json.note, { text: "Quiet.", depth: 5 });
  });

for (const [content, says] of [
  [lines(HEAD, { mes: 5 }), /Line 2 of the chat: its text is a number, not a text/],
  [lines(HEAD, { mes: "a", swipes: ["a", 7] }), /Line 2 of the chat: a swipe is a number/],
  [lines(HEAD, { mes: "a", swipes: {} }), /Line 2 of the chat: its swipes is an object, not a list/],
  [lines(HEAD, { mes: "a" }, '{"mes": "b'), /Line 3 of the chat is not valid JSON; perhaps it was cut short/],
  [lines(HEAD, { mes: "a" }, "[]"), /Line 3 of the chat is a list, not an object/],
  [lines(HEAD, { mes: " " }), /holds no message/],
])
  test(`a chat that is wrong is refused: ${says.source}`, () =>
    assert.match(read("c.jsonl", content).error ?? "", says));

test("prose of lines in braces is text", () => {
  assert.equal(open("", encoded('{"a": "b"}\n{She said}')).format, "text");
});

const kobold = (more) => encoded(JSON.stringify({ prompt: "One.", ...more }));

test("a save of KoboldAI that was cut within characters has them whole, and what is missing is nothing", () => {
  const { json } = open(
    "k.kaistory",
    kobold({ actions: ["smile \ud83d", "\ude00 end", null, " lone \ud83d", "x", " high \ud83d"] }),
  );
  assert.equal(manuscript(json), "One.smile 😀 end lone \ufffdx high \ufffd");
});

test("a save of the new client ends where its count says; what was taken back is behind it", () => {
  const action = (text) => ({ "Selected Text": text, Options: [] });
  const actions = { action_count: 1, actions: { 0: action(" Two."), 1: action(" Three."), 2: action(" Four.") } };
  const { json } = open("k.json", kobold({ actions }));
  assert.equal(manuscript(json), "One. Two. Three.");
  assert.ok([...textsOf(json).values()].includes("One. Two. Three. Four."));
});

const LOREBOOK = { lorebookVersion: 5, entries: [{ text: "Old.", keys: ["Tom"], displayName: "Tom" }] };
const loreOf = (json) =>
  Object.entries(json)
    .filter(([key]) => key.startsWith("lore."))
    .map(([, { name, keys, text }]) => ({ name, keys, text }));

test("a scenario of NovelAI is a story with memory, note and lorebook, whatever its prompt looks like", () => {
  for (const prompt of ["[ Fog ]", '"Come," he said.', "Fog."]) {
    const { format, json } = open(
      "fog.scenario",
      encoded(
        JSON.stringify({
          scenarioVersion: 3,
          title: "Fog",
          prompt,
          context: [{ text: "An island." }, { text: "Quiet." }],
          lorebook: LOREBOOK,
        }),
      ),
    );
    assert.equal(format, "NovelAI");
    assert.deepEqual(
      [manuscript(json), json.title, json.memory, json.note.text],
      [prompt, "Fog", "An island.", "Quiet."],
    );
    assert.deepEqual(loreOf(json), [{ name: "Tom", keys: ["Tom"], text: "Old." }]);
  }
});

test("a story of NovelAI's older editor keeps who wrote what, and its lorebook", () => {
  const fragments = [
    { data: "Once", origin: "prompt" },
    { data: " upon", origin: "ai" },
    { data: " a time", origin: "user" },
  ];
  const content = { storyContentVersion: 3, story: { fragments }, context: [{ text: "M" }], lorebook: LOREBOOK };
  const { json } = open(
    "s.story",
    encoded(JSON.stringify({ storyContainerVersion: 1, metadata: { title: "S" }, content })),
  );
  assert.equal(manuscript(json), "Once upon a time");
  assert.deepEqual(
    Object.values(json.nodes).map(({ by }) => by),
    ["person", "model", "person"],
  );
  assert.deepEqual([json.title, json.memory, loreOf(json).length], ["S", "M", 1]);
});

test("a story of NovelAI's new editor says that it cannot be read, and what to do", () => {
  const file = { storyContainerVersion: 1, metadata: {}, content: { document: "1BQ=" } };
  assert.match(read("s.story", encoded(JSON.stringify(file))).error, /new editor.*plain text/);
});
