import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { checkSize, MAX_BYTES, MAX_OWN } from "../../../srb/page/formats/file.js";
import { Story } from "../../../srb/page/story.js";
import { bytesOf, encoded, jsonOf, manuscript, textsOf } from "./formats_oracle.js";
import { Random } from "./random.js";

const FIXTURES = [
  "obsidian_loom_note.json",
  "obsidian_loom_data.json",
  "socketteer_loom.json",
  "socketteer_simple.json",
  "mikupad_session.json",
  "kobold_lite.json",
  "kobold_client_v2.json",
  "exoloom.json",
  "srb_story.json",
];

/**
 * Assert that a file is refused as a whole, with one sentence.
 * @param {string} name
 * @param {unknown} content
 * @param {RegExp} sentence
 */
async function refuses(name, content, sentence) {
  const found = await read(name, content instanceof Uint8Array ? content : encoded(content));
  assert.deepEqual(Object.keys(found), ["error"]);
  const { error } = /** @type {{error: string}} */ (found);
  assert.match(error, sentence);
  assert.match(error, /^[A-Z“].*\.$/s);
}

const note = (/** @type {object} */ nodes) => ({ current: "a", hoisted: [], nodes, generating: null });
const exo = (/** @type {object} */ nodes) => ({
  loomType: "Exoloom",
  schemaVersion: 1,
  tree: { nodes, rootNodeId: 1 },
  lens: {},
});
const story = (/** @type {object} */ nodes, /** @type {object} */ more = {}) => ({
  format: "srb-story",
  version: 1,
  id: "s1",
  title: "",
  nodes,
  ...more,
});
const root = { text: "Once 🌕", by: "person", made: 1 };

for (const text of ["[Chapter 1] Once upon a time", "{She} said", '  ["Stop!" he cried', "[", '{"current": "a", "no'])
  test(`prose that begins as JSON does is text: ${text}`, async () => {
    for (const name of ["", "draft", "draft.txt"]) {
      const found = await read(name, encoded(text));
      assert.ok(!("error" in found), JSON.stringify(found));
      assert.equal(found.format, "text");
      assert.equal(manuscript(found.stories[0].toJSON()), text);
    }
    await refuses("draft.JSON", text, /“draft.JSON” is not valid JSON/);
  });

test("a file that is no story is refused, with what it is", async () => {
  await refuses("x.json", { hello: "world" }, /“x.json” is JSON, but no story of SRB, Exoloom, .* or mikupad/);
  await refuses("x.json", [1, 2], /is JSON, but no story/);
  await refuses("x.json", "null", /is JSON, but no story/);
  await refuses("x.json", '{"current": "a", "nodes": {"a": {"te', /is not valid JSON; perhaps it was cut short/);
  await refuses("x.json", "  \n", /“x.json” is empty/);
  await refuses("", "", /The pasted text is empty/);
  await refuses("x.docx", new Uint8Array([0x50, 0x4b, 3, 4, 9]), /“x.docx” is damaged: its archive cannot be unpacked/);
  await refuses("x.doc", new Uint8Array([0xd0, 0xcf, 0x11, 0xe0]), /is of Word before 2007/);
  await refuses("x.bin", new Uint8Array([1, 0, 2, 0, 0xff]), /is not a text file/);
  await refuses("x.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]), /is an image/);
});

test("a file of more than 64 MB is refused before it is read", async () => {
  const large = new Uint8Array(MAX_BYTES + 1).fill(0x61);
  await refuses("book.txt", large, /“book.txt” has 65 MB; the largest file that can be read has 64 MB/);
});

test("an exported story may be larger than a file of another program", () => {
  for (const beginning of [
    '{"format":"srb-story","version":1',
    '{\n "format": "srb-story",\n',
    '\ufeff{"format":"srb-story"',
  ]) {
    checkSize("x.json", MAX_OWN, beginning);
    assert.throws(() => checkSize("x.json", MAX_OWN + 1, beginning), /the largest story that can be read has 256 MB/);
  }
  assert.throws(
    () => checkSize("x.json", MAX_BYTES + 1, '{"nodes":{}}'),
    /the largest file that can be read has 64 MB/,
  );
});

test("a text longer than a node may be becomes a chain of nodes, cut at no character", async () => {
  const text = `x${"🌕".repeat(150_000)}`;
  const found = await read("long.txt", encoded(text));
  assert.ok("stories" in found, "error" in found ? found.error : "");
  const nodes = [...found.stories[0].nodes.values()];
  assert.equal(nodes.length, 4);
  assert.ok(nodes.every((node) => node.text.length <= 100_000));
  assert.equal(manuscript(found.stories[0].toJSON()), text);
});

test("a file of more nodes than a story may have is refused", async () => {
  const children = Array.from({ length: 100_000 }, () => ({ text: "a", children: [] }));
  await refuses("x.json", { text: "root", children }, /The file has more than 100,000 nodes/);
});

test("a memory that the server could not keep is refused", async () => {
  await refuses(
    "x.json",
    { prompt: "a", actions: [], memory: "m".repeat(100_000) },
    /The memory has 100,000 characters; it may have 80,000/,
  );
});

test("parents in a circle are refused", async () => {
  const node = (/** @type {string} */ parentId) => ({ text: "x", parentId });
  await refuses(
    "x.json",
    note({ a: node("b"), b: node("c"), c: node("a"), d: { text: "root", parentId: null } }),
    /is its own ancestor/,
  );
  await refuses("x.json", note({ a: node("a") }), /Node “a” is its own ancestor/);
  await refuses(
    "x.json",
    exo({ 1: { content: "x", parentId: 2, childrenIds: [2] }, 2: { content: "y", parentId: 1, childrenIds: [1] } }),
    /own ancestor/,
  );
  await refuses("x.json", story({ a: { ...root, parent: "b", keep: 0 }, b: { ...root, parent: "a", keep: 0 } }), /./);
});

test("an srb-story with offsets beyond a text, or inside a character, is refused", async () => {
  const child = (/** @type {object} */ more) =>
    story({ a: root, b: { parent: "a", keep: 5, text: "!", by: "person", made: 2, ...more } });
  await refuses("x.json", child({ keep: 99 }), /./);
  await refuses("x.json", child({ keep: -1 }), /./);
  await refuses("x.json", child({ keep: 1.5 }), /./);
  await refuses("x.json", child({ keep: 5, tail: 4 }), /./);
  await refuses("x.json", child({ keep: 5, tail: 99 }), /./);
  await refuses("x.json", child({ keep: 6 }), /./); // between the halves of the moon
  await refuses("x.json", child({ keep: undefined }), /./);
  await refuses("x.json", child({ parent: "z" }), /./);
  await refuses("x.json", story({ a: root }, { head: { node: "a", at: 99 } }), /./);
  await refuses("x.json", story({ a: root }, { head: { node: "z", at: 0 } }), /./);
  await refuses("x.json", story({ a: { ...root, text: "half \ud83c" } }), /./);
  await refuses("x.json", story({ a: root }, { version: 2 }), /./);
});

test("half of a character becomes a sign in every format, and that is told", async () => {
  const half = "\ud83c";
  for (const file of [
    note({ a: { text: `x${half}`, parentId: null } }),
    { text: half, children: [] },
    { prompt: JSON.stringify([{ type: "user", content: half }]) },
    { prompt: "x", actions: [], memory: half },
    exo({ 1: { content: half, parentId: null, childrenIds: [] } }),
  ]) {
    const { stories, remarks, error } = await read("x.json", encoded(JSON.stringify(file)));
    assert.equal(error, undefined);
    const json = stories[0].toJSON();
    assert.ok(`${manuscript(json)}${json.memory}`.includes("\ufffd"));
    assert.ok(
      remarks.some((each) => each.includes("Halves of characters (1)")) || file.prompt?.includes("user"),
      remarks.join(),
    );
  }
});

test("a character that two generated chunks share is whole", async () => {
  const [high, low] = "🌕".split("");
  const found = await read(
    "x.json",
    encoded({ prompt: JSON.stringify([{ content: `x${high}` }, { content: `${low}y` }]) }),
  );
  assert.ok("stories" in found);
  assert.equal(manuscript(found.stories[0].toJSON()), "x🌕y");
});

test("keys like __proto__ are ids like any other, and change nothing else", async () => {
  const nodes =
    '{"__proto__": {"text": "a", "parentId": null}, "constructor": {"text": "b", "parentId": "__proto__"}, "toString": {"text": "c", "parentId": "constructor"}}';
  const found = await read("x.json", encoded(`{"current": "toString", "nodes": ${nodes}, "hoisted": []}`));
  assert.ok("stories" in found);
  assert.equal(manuscript(found.stories[0].toJSON()), "abc");
  const weave = `{"loomType": "Exoloom", "tree": {"rootNodeId": "__proto__", "nodes": {"__proto__": {"content": "a", "parentId": null, "childrenIds": ["valueOf"]}, "valueOf": {"content": "b", "parentId": "__proto__"}}}, "lens": {}}`;
  const other = await read("x.json", encoded(weave));
  assert.ok("stories" in other);
  assert.equal(manuscript(other.stories[0].toJSON()), "ab");
  await read(
    "x.json",
    encoded(
      '{"format": "srb-story", "version": 1, "id": "s", "title": "", "nodes": {"__proto__": {"text": "a", "by": "person", "made": 1}}, "__proto__": {"polluted": true}}',
    ),
  );
  assert.equal(/** @type {any} */ ({}).polluted, undefined);
  assert.equal(/** @type {any} */ ({}).text, undefined);
});

test("a hundred thousand nodes nested in each other read whole", async () => {
  const depth = 100_000;
  const found = await read("deep.json", encoded(`${'{"text":"a","children":['.repeat(depth)}${"]}".repeat(depth)}`));
  assert.ok("stories" in found, "error" in found ? found.error : "");
  assert.equal(found.stories[0].nodes.size, depth);
  assert.equal(found.stories[0].head.at, depth);
});

test("a chain of a hundred thousand nodes in a map reads whole, also backwards", async () => {
  const depth = 100_000;
  const nodes = Object.fromEntries(
    Array.from({ length: depth }, (_each, index) => [
      `n${depth - index}`,
      { text: "a", parentId: index === depth - 1 ? null : `n${depth - index - 1}` },
    ]),
  );
  const found = await read("deep.json", encoded({ current: `n${depth}`, nodes }));
  assert.ok("stories" in found, "error" in found ? found.error : "");
  assert.equal(found.stories[0].nodes.size, depth);
  assert.equal(found.stories[0].head.at, depth);
});

test("a parser that gives up on depth is told from a broken file", async () => {
  const parse = JSON.parse;
  JSON.parse = () => {
    throw new RangeError("Maximum call stack size exceeded");
  };
  try {
    await refuses("deep.json", "[[]]", /“deep.json” is nested too deeply to be read/);
  } finally {
    JSON.parse = parse;
  }
});

test("nodes whose parent is missing become beginnings, and that is said", async () => {
  const found = await read(
    "x.json",
    encoded(
      note({ a: { text: "x", parentId: null }, b: { text: "y", parentId: "gone" }, c: { text: "z", parentId: "b" } }),
    ),
  );
  assert.ok("stories" in found);
  assert.deepEqual([...textsOf(found.stories[0].toJSON()).values()].sort(), ["x", "y", "yz"]);
  assert.deepEqual(found.remarks, [
    "The parent of 1 node is missing in the file, so each became a beginning of its own.",
  ]);
});

test("numbers in the place of texts are their digits", async () => {
  for (const file of [note({ a: { text: 7, parentId: null } }), { prompt: "", actions: [7] }])
    assert.equal(manuscript((await read("x.json", encoded(file))).stories[0].toJSON()), "7");
});

test("wrong types are refused, with the place", async () => {
  await refuses("x.json", note({ a: { parentId: null } }), /The text of node “a” is missing, not a text/);
  await refuses("x.json", note({ a: null }), /Node “a” is null, not an object/);
  await refuses("x.json", note({}), /has no nodes/);
  await refuses(
    "x.json",
    { state: { "n.md": note({ a: { text: "x", parentId: null } }), "m.md": note({ a: 1 }) } },
    /Note “m.md”: Node “a” is a number/,
  );
  await refuses(
    "x.json",
    { root: { text: "x", children: [{ text: "y", children: {} }] } },
    /The children of node 2 is an object, not a list/,
  );
  await refuses("x.json", { root: { text: "x", children: ["y"] } }, /Node 2 is a string, not an object/);
  await refuses(
    "x.json",
    { root: { text: "x", children: [] }, chapters: [] },
    /list of chapters is a list, not an object/,
  );
  await refuses("x.json", { prompt: '[{"type": "user", "content": 4}]' }, /Chunk 1 of the prompt has no text/);
  await refuses("x.json", { prompt: '[{"type": "us' }, /The session's field “prompt” is not valid JSON/);
  await refuses("x.json", { prompt: "[]" }, /holds no text/);
  await refuses("x.json", { prompt: "a", actions: [], altbranches: [7] }, /A branch is a number, not a list/);
  await refuses("x.json", { prompt: "", actions: [] }, /holds no text/);
  await refuses("x.json", exo({ 1: { parentId: null, childrenIds: [] } }), /The text of node “1” is missing/);
  await refuses("x.json", { loomType: "Exoloom" }, /The tree is missing/);
  await refuses("x.json", story({ a: { ...root, text: 3 } }), /./);
  await refuses("x.json", story({ a: { ...root, by: "robot" } }), /./);
  await refuses("x.json", story(/** @type {any} */ ([])), /./);
});

test("whatever is changed in a file, it is read or refused with a sentence, and never by half", async () => {
  const random = new Random(7);
  const pick = (/** @type {number} */ below) => random.below(below);
  const odd = [null, 0, -1, 1e300, "", "x", [], {}, true, "\ud800", [[]], { a: 1 }];
  for (const name of FIXTURES) {
    for (let turn = 0; turn < 60; turn += 1) {
      const file = jsonOf(name);
      for (let times = pick(3); times >= 0; times -= 1) change(file, pick, odd);
      const found = await read(name, encoded(file));
      if ("error" in found) assert.match(found.error, /\.$/);
      else
        for (const each of found.stories)
          assert.ok(each instanceof Story && textsOf(each.toJSON()).size === each.nodes.size);
    }
  }
});

test("a file that was cut short is refused, wherever it was cut", async () => {
  for (const name of FIXTURES) {
    const bytes = bytesOf(name);
    const end = new TextDecoder().decode(bytes).trimEnd().length;
    for (const part of [0.1, 0.5, 0.9])
      await refuses(name, bytes.slice(0, Math.floor(end * part)), /is not valid JSON|is not a text file/);
  }
});

/**
 * Change, remove or add something somewhere in a JSON value.
 * @param {any} value
 * @param {(below: number) => number} pick
 * @param {unknown[]} odd
 */
function change(value, pick, odd) {
  for (let depth = 0; depth < 12; depth += 1) {
    const keys = Object.keys(value);
    const key = keys[pick(keys.length)];
    const inner = key === undefined ? undefined : value[key];
    if (key === undefined) return;
    if (typeof inner === "object" && inner !== null && pick(4) > 0) {
      value = inner;
      continue;
    }
    if (pick(4) === 0) delete value[key];
    else value[key] = structuredClone(odd[pick(odd.length)]);
    return;
  }
}
