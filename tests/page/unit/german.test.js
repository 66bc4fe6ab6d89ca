/** The page in German: what it says, and that stories, models and other windows get what they get from the page in English. */

import assert from "node:assert/strict";
import { test } from "node:test";
import "./file_fetch.js";

globalThis.localStorage = { getItem: (key) => (key === "srb.language" ? "de" : null), setItem() {}, removeItem() {} };

const { read } = await import("../../../srb/page/formats/detect.js");
const { fileName, WRITERS } = await import("../../../srb/page/formats/write.js");
const { messageOf, sentenceOf } = await import("../../../srb/page/keep/standing.js");
const { entriesOf, entryOf } = await import("../../../srb/page/lore/entries.js");
const { endWord } = await import("../../../srb/page/round/slots.js");
const { Story } = await import("../../../srb/page/story.js");
const { draftOf, messagesOf, VERBS } = await import("../../../srb/page/tasks.js");
const { makeDesk, round, settled } = await import("./fake_desk.js");

const bytesOf = (content) => new TextEncoder().encode(typeof content === "string" ? content : JSON.stringify(content));
const chat = (...lines) => lines.map((line) => JSON.stringify(line)).join("\n");
const story = (more) => ({ format: "srb-story", version: 1, id: "s", nodes: {}, ...more });
const hidden = { mes: "x", is_system: true };

for (const [name, content, sentence] of [
  ["a.pdf", "%PDF-1.7", "„a.pdf“ ist ein PDF. Bitte als reinen Text (UTF-8) speichern und den einlesen."],
  ["a.txt", " ", "„a.txt“ ist leer."],
  ["", "", "Der eingefügte Text ist leer."],
  ["a.json", story({ version: 2 }), "Version der Geschichte: 2; diese Seite liest Version 1."],
  ["a.json", story({ version: undefined }), "Version der Geschichte: keine; diese Seite liest Version 1."],
  ["a.json", story({ title: 1 }), "Der Titel der Geschichte ist kein Text."],
  ["a.json", story({ nodes: { n: { text: 1 } } }), "Knoten n hat keinen Text."],
  [
    "a.json",
    story({ head: { node: "n", at: 1 } }),
    "Die Geschichte steht an einer Stelle, die es in der Geschichte nicht gibt.",
  ],
  [
    "a.jsonl",
    chat({ chat_metadata: {} }, { mes: [] }),
    "Zeile 2 des Chats: der Text sollte ein Text sein, ist aber eine Liste.",
  ],
  ["a.jsonl", chat({ chat_metadata: {} }, [1]), "Zeile 2 des Chats sollte ein Objekt sein, ist aber eine Liste."],
])
  test(`a refusal of a file is a sentence in German: ${sentence}`, async () => {
    assert.deepEqual(await read(name, bytesOf(content)), { error: sentence });
  });

for (const [count, remark] of [
  [0, []],
  [1, ["1 verborgene Nachricht wurde weggelassen."]],
  [2, ["2 verborgene Nachrichten wurden weggelassen."]],
  [1234, ["1.234 verborgene Nachrichten wurden weggelassen."]],
])
  test(`what is left out of a file is told in German, by its number: ${count}`, async () => {
    const lines = [{ chat_metadata: {} }, { mes: "Hello." }, ...Array(count).fill(hidden)];
    assert.deepEqual((await read("a.jsonl", bytesOf(chat(...lines)))).remarks, remark);
  });

test("saving, formats and file names are told in German", () => {
  assert.equal(sentenceOf({ state: "saved", at: 0, message: "" }), "Auf dem Server gespeichert.");
  const facts = { isOn: true, keepsHere: true, trouble: null, unread: "", stuck: new Map(), isUnsaved: false };
  const share = { owner: "Ann", access: "read" };
  assert.equal(
    messageOf({ ...facts, share }),
    "Diese Geschichte ist nur zum Lesen geteilt. Ann bekommt Änderungen nicht: Sie bleiben in diesem Browser.",
  );
  assert.deepEqual(
    WRITERS.map(({ label }) => label),
    [
      ...["SRB-Geschichte", "Reiner Text", "Markdown", "Word", "EPUB", "Webseite", "Obsidian Loom"],
      ...["Entscheidungen, in Paaren", "Entscheidungen, einzeln", "Verlauf der Sitzung", "Runden zum Wiederholen"],
    ],
  );
  assert.equal(fileName("", ".txt"), "Geschichte.txt");
});

// ---- What other windows and models get

const lose = (stream) => stream.lose();
const end = (stream) => stream.end();
for (const [what, act, kept, said] of [
  ["is lost", lose, "lost", "Die Verbindung ist abgebrochen: Die Verbindung zum Server ist abgebrochen."],
  ["ends too soon", end, "the connection ended", "Die Verbindung ist abgebrochen: die Verbindung endete."],
])
  test(`a story keeps of a connection that ${what} what it keeps in English, and the card says it in German`, async () => {
    const it = await makeDesk();
    it.manuscript.type("A");
    act(await round(it, " b"));
    await settled();
    const nodes = [...it.desk.story.nodes.values()].filter(({ by }) => by === "model");
    assert.deepEqual(
      nodes.map(({ end }) => end),
      [{ reason: "lost", message: kept }],
    );
    assert.equal(endWord(it.desk.round.slots[0]).description, said);
  });

test("a card that failed with the server's words says these", async () => {
  const slot = { state: "failed", end: { reason: "banned_dead_end", message: "no way out" } };
  assert.deepEqual(endWord(slot), { words: "fehlgeschlagen: no way out", description: "Fehlgeschlagen: no way out." });
});

test("the entries of a lorebook are in the same order as on a page in English", () => {
  const story = Story.create();
  for (const [id, name] of [
    ["a", "Zug"],
    ["b", ""],
    ["c", "Anna"],
  ])
    story.setMeta(`lore.${id}`, entryOf({ name, text: "x", always: true }));
  assert.deepEqual(
    entriesOf(story).map(({ name }) => name),
    ["", "Anna", "Zug"],
  );
});

test("a model is asked in English, by tasks that are shown in German", () => {
  const [{ label, instruction }] = VERBS;
  assert.equal(label, "Umschreiben");
  assert.equal(instruction, "Rewrite the passage in other words.");
  const texts = { before: "Davor.", passage: "Es war.", system: "" };
  const [{ content }] = messagesOf({ instruction }, texts);
  assert.equal(
    content,
    "This stands before the passage:\n\nDavor.\n\nThe passage:\n\nEs war.\n\nRewrite the passage in other words. Answer with the new passage alone.",
  );
  assert.match(draftOf({ instruction }, texts), /\[First draft\]/);
});
