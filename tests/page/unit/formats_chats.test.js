import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
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

const open = async (name, content) => {
  const found = await read(name, content);
  assert.ok(!("error" in found), found.error);
  return { ...found, json: found.stories[0].toJSON() };
};

for (const [name, content] of [
  ["chat.jsonl", lines(...CHAT)],
  ["pasted, with empty lines and \\r\\n", encoded(`${CHAT.map((each) => JSON.stringify(each)).join("\r\n\r\n")}\r\n`)],
  ["", lines(...CHAT.slice(1))],
])
  test(`a chat of SillyTavern is a chain of messages, its swipes beside them: ${name || "without a first line"}`, async () => {
    const { format, json, remarks } = await open(name, content);
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
  [lines(HEAD, { mes: ["a"] }), /Line 2 of the chat: its text is a list, not a text/],
  [lines(HEAD, { mes: "a", swipes: ["a", {}] }), /Line 2 of the chat: a swipe is an object/],
  [lines(HEAD, { mes: "a", swipes: {} }), /Line 2 of the chat: its swipes is an object, not a list/],
  [lines(HEAD, { mes: "a" }, '{"mes": "b'), /Line 3 of the chat is not valid JSON; perhaps it was cut short/],
  [lines(HEAD, { mes: "a" }, "[]"), /Line 3 of the chat is a list, not an object/],
  [lines(HEAD, { mes: " " }), /holds no message/],
])
  test(`a chat that is wrong is refused: ${says.source}`, async () =>
    assert.match((await read("c.jsonl", content)).error ?? "", says));

test("swipes that are null or numbers keep no chat out", async () => {
  const { json } = await open("c.jsonl", lines(HEAD, { mes: "a", swipes: ["a", null, 7] }));
  assert.deepEqual([...textsOf(json).values()].sort(), ["7", "a"]);
});

test("a group's chat says who speaks, and a chat of two does not", async () => {
  const said = [
    { name: "Ann", mes: "Hello.", swipes: ["Hello.", "Hm."] },
    { name: "Me", mes: "Hi.", is_user: true },
    { name: "Tom", mes: "Who are you?" },
  ];
  const { json } = await open("c.jsonl", lines(HEAD, ...said));
  assert.equal(manuscript(json), "Ann: Hello.\n\nMe: Hi.\n\nTom: Who are you?");
  assert.ok([...textsOf(json).values()].includes("Ann: Hm."));
  assert.equal(manuscript((await open("c.jsonl", lines(HEAD, ...said.slice(0, 2)))).json), "Hello.\n\nHi.");
});

test("prose of lines in braces is text", async () => {
  assert.equal((await open("", encoded('{"a": "b"}\n{She said}'))).format, "text");
});

const kobold = (more) => encoded(JSON.stringify({ prompt: "One.", ...more }));

test("a save of KoboldAI that was cut within characters has them whole, and what is missing is nothing", async () => {
  const { json } = await open(
    "k.kaistory",
    kobold({ actions: ["smile \ud83d", "\ude00 end", null, " lone \ud83d", "x", " high \ud83d"] }),
  );
  assert.equal(manuscript(json), "One.smile 😀 end lone \ufffdx high \ufffd");
});

test("a save of the new client ends where its count says; what was taken back is behind it", async () => {
  const action = (text) => ({ "Selected Text": text, Options: [] });
  const actions = { action_count: 1, actions: { 0: action(" Two."), 1: action(" Three."), 2: action(" Four.") } };
  const { json } = await open("k.json", kobold({ actions }));
  assert.equal(manuscript(json), "One. Two. Three.");
  assert.ok([...textsOf(json).values()].includes("One. Two. Three. Four."));
});

const LOREBOOK = { lorebookVersion: 5, entries: [{ text: "Old.", keys: ["Tom"], displayName: "Tom" }] };
const loreOf = (json) =>
  Object.entries(json)
    .filter(([key]) => key.startsWith("lore."))
    .map(([, { name, keys, text }]) => ({ name, keys, text }));

test("a scenario of NovelAI is a story with memory, note and lorebook, whatever its prompt looks like", async () => {
  for (const prompt of ["[ Fog ]", '"Come," he said.', "Fog."]) {
    const { format, json } = await open(
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

test("a story of NovelAI's older editor keeps who wrote what, and its lorebook", async () => {
  const fragments = [
    { data: "Once", origin: "prompt" },
    { data: " upon", origin: "ai" },
    { data: " a time", origin: "user" },
  ];
  const content = { storyContentVersion: 3, story: { fragments }, context: [{ text: "M" }], lorebook: LOREBOOK };
  const { json } = await open(
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

/** A document as msgpackr 2 packs one with NovelAI's own kinds: five sections, one of them a picture, in another order than theirs. */
const DOCUMENT =
  "1BQA1HJAldZiAAAA28EIwQXBB8ENwQSFy0LL+4IS8sIA1HJBlMEEwQTBBMEGAcETggGS1HJCk8EIwQTBBgACCEIIAwsCkADLQvS/Fxl6FFBBAcHtggGRQgABCQKQ1AAAB9RyQ5LBBMEGAgAIQQGgggGQApDUAAAJQQHBCYIBkUIACgkCkAqVy0L0vxcZehRQB8tCy/uCEvLCAAgJ1B4A1HJEk8EEwQfBBQECggHUckWVomlkwQbBCMEEwQcB1AAA1HMAkNb/AAAAAIACRQIB1HMAkNb/AAAAAICBCdRyRpHBBAEAveKAnEdyw7bDn2Us4oCdIPCfjJUgc2FpZCDmvKIu2ZxzZWN0aW9uc29yZGVyaGlzdG9yeWRpcnR5U2VjdGlvbnNzdGVwdHlwZXRleHRtZXRhc291cmNlVGhlIGxha2Ugd2FzIHN0aWxsLnBvc2l0aW9uZGF0YWxlbmd0aHR5cGVzb3VyY2VJdCBmcm96ZS5yb290Y3VycmVudG5vZGVzcGFyZW50Y2hpbGRyZW5kYXRlY2hhbmdlc3R5cGU=";
const storyOf = (document) =>
  encoded(
    JSON.stringify({
      storyContainerVersion: 1,
      metadata: { title: "S" },
      content: { storyContentVersion: 6, document, context: [{ text: "M" }, { text: "N" }], lorebook: { entries: [] } },
    }),
  );

test("a story of NovelAI's editor of today keeps its paragraphs, and who wrote what", async () => {
  const { json, remarks } = await open("s.story", storyOf(DOCUMENT));
  assert.equal(manuscript(json), "“Größe,” 🌕 said 漢.\nThe lake was still.\n\nIt froze.");
  assert.deepEqual(
    Object.values(json.nodes).map(({ text, by }) => [text, by]),
    [
      ["“Größe,” ", "person"],
      ["🌕 said 漢.", "import"],
      ["\nThe lake", "model"],
      [" was still.", "person"],
      ["\n", "import"],
      ["\nIt froze.", "import"],
    ],
  );
  assert.deepEqual([json.title, json.memory, json.note.text], ["S", "M", "N"]);
  assert.deepEqual(remarks, [
    "1 part that is no text was left out.",
    "It was saved amid a change: look whether the last one is in the text.",
    "Its history, with what was tried again or taken back, was left out.",
  ]);
});

test("a document that is cut short, changed or none is refused with a sentence", async () => {
  const bytes = Buffer.from(DOCUMENT, "base64");
  const refused = async (document) => (await read("s.story", storyOf(document))).error ?? "";
  for (let length = 0; length < bytes.length; length += 1)
    assert.match(
      await refused(bytes.subarray(0, length).toString("base64")),
      /^The (story's )?document|^The story holds no text/,
      String(length),
    );
  assert.match(await refused("no base64!"), /^The story's document is not base64/);
  for (const [data, says] of [
    [[0xdd, 0xff, 0xff, 0xff, 0xff], /cut short/],
    [[0xdf, 0xff, 0xff, 0xff, 0xff], /cut short/],
    [Array(500).fill(0x91), /nested more than 100 levels/],
    [[0x41], /keys it does not name/],
    [[0xc1, 3], /strings that it lacks/],
    [[0xd6, 0x62, 0x7f, 0xff, 0xff, 0xff, 0xc0], /cut short/],
    [[0xd5, 0x99, 0, 0], /kind \(153\)/],
    [[0xc0], /document/],
    [[0x05], /document/],
  ])
    assert.match(await refused(Buffer.from(data).toString("base64")), says);
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed[at] ^= 0x55;
    await read("s.story", storyOf(changed.toString("base64"))); // a sentence or a story, and no error of the page
  }
});
