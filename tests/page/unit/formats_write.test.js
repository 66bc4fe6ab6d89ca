import assert from "node:assert/strict";
import { test } from "node:test";
import { chaptersOf, firstWords, languageTag, paragraphsOf } from "../../../srb/page/formats/chapters.js";
import { read } from "../../../srb/page/formats/detect.js";
import { writeHtml } from "../../../srb/page/formats/html.js";
import { writeObsidianLoom } from "../../../srb/page/formats/obsidian_loom.js";
import { cutsOf } from "../../../srb/page/formats/segment_cuts.js";
import { writeSrb } from "../../../srb/page/formats/srb.js";
import { writeMarkdown, writeText } from "../../../srb/page/formats/text.js";
import { fileName, WRITERS } from "../../../srb/page/formats/write.js";
import { storyOf } from "../../../srb/page/story/read.js";
import {
  bytesOf,
  encoded,
  jsonOf,
  manuscript,
  noteSegments,
  pathTexts,
  randomStory,
  storyWith,
  textsOf,
} from "./formats_oracle.js";

/** @param {string} name @param {string | Uint8Array} content */
async function readBack(name, content) {
  const found = await read(name, typeof content === "string" ? encoded(content) : content);
  assert.ok(!("error" in found), found.error);
  return found.stories[0];
}

test("an SRB story that is written and read is the same story", async () => {
  const story = await readBack("srb_story.json", bytesOf("srb_story.json"));
  const again = await readBack("x.json", writeSrb(story));
  assert.deepEqual(again.toJSON(), story.toJSON());
  const file = jsonOf("srb_story.json");
  const json = JSON.parse(writeSrb(again));
  assert.deepEqual(textsOf(json), textsOf(file));
  for (const id of Object.keys(file.nodes))
    assert.deepEqual(json.nodes[id], file.nodes[id], "authors, ends and unknown keys stay");
  assert.deepEqual(json.runs, file.runs);
  assert.deepEqual(json.settings, file.settings);
  for (const [id, mark] of Object.entries(file.marks))
    assert.equal(again.mark(id).star ?? false, /** @type {any} */ (mark).star ?? false);
  assert.equal(manuscript(json), manuscript(file));
});

test("an author's note comes back from a file with its frame", async () => {
  const note = { text: "salt", depth: 2, frame: "[A/N: <|>]" };
  const story = await readBack("x.json", writeSrb(storyOf({ ...randomStory(1, 3), note })));
  assert.deepEqual(story.meta("note"), note);
});

test("random SRB stories survive a round trip", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const story = storyOf(randomStory(seed, 60));
    assert.deepEqual((await readBack("x.json", writeSrb(story))).toJSON(), story.toJSON());
  }
});

test("a text file is exactly the manuscript, and reads back as it", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const json = randomStory(seed, 30);
    const text = writeText(storyOf(json));
    assert.equal(text, manuscript(json));
    if (text.trim() !== "") assert.equal(manuscript((await readBack("x.txt", text)).toJSON()), text);
  }
});

test("every text of a story is the text of a path of segments, and every star is there", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const json = randomStory(seed, 50);
    const { segments, head } = cutsOf(storyOf(json));
    const texts = textsOf(json);
    for (const [id, text] of texts) {
      const end = segments.find(({ ends }) => ends.has(id));
      assert.equal(end === undefined ? "" : pathOf(end), text);
    }
    assert.equal(pathOf(head), manuscript(json));
    const written = JSON.parse(writeObsidianLoom(storyOf(json)));
    const paths = new Set(pathTexts(noteSegments(written)));
    for (const text of texts.values()) assert.ok(text === "" || paths.has(text));
    const starred = Object.entries(json.marks)
      .filter(([, mark]) => mark.star)
      .map(([id]) => texts.get(id));
    const bookmarked = Object.keys(written.nodes)
      .filter((id) => written.nodes[id].bookmarked)
      .map((id) => pathIn(written, id));
    assert.deepEqual(new Set(bookmarked.filter(Boolean)), new Set(starred.filter(Boolean)));
  }
});

test("a file for Obsidian Loom reads back with the same manuscript and the same nodes", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const json = randomStory(seed, 40);
    const written = writeObsidianLoom(storyOf(json));
    const again = /** @type {any} */ ((await readBack("x.json", written)).toJSON());
    assert.equal(manuscript(again), manuscript(json));
    assert.deepEqual([...textsOf(again).values()].sort(), pathTexts(noteSegments(JSON.parse(written))));
  }
});

test("a note of Obsidian Loom that is read and written has the same nodes in the same order", async () => {
  const note = jsonOf("obsidian_loom_note.json");
  const written = JSON.parse(writeObsidianLoom(await readBack("x.json", bytesOf("obsidian_loom_note.json"))));
  assert.deepEqual(pathTexts(noteSegments(written)), pathTexts(noteSegments(note)));
  const facts = (/** @type {any} */ { nodes }) =>
    Object.values(nodes)
      .map(({ text, bookmarked, collapsed }) => JSON.stringify([text, bookmarked, collapsed]))
      .sort();
  assert.deepEqual(facts(written), facts(note));
  assert.deepEqual(Object.keys(written).sort(), Object.keys(note).sort());
  for (const id of Object.keys(written.nodes))
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const children = (/** @type {any} */ { nodes }, /** @type {any} */ parent) =>
    Object.entries(nodes).filter(([, node]) => node.parentId === parent);
  for (const waiting = [[null, null]]; waiting.length > 0; ) {
    const [before, after] = /** @type {any} */ (waiting.pop());
    const [old, now] = [children(note, before), children(written, after)];
    assert.deepEqual(
      now.map(([, node]) => node.text),
      old.map(([, node]) => node.text),
    );
    for (const [index, [key]] of old.entries()) waiting.push(/** @type {any} */ ([key, now[index]?.[0]]));
  }
});

test("a cut inside a segment makes two of it and moves nothing else", () => {
  const story = storyWith(
    {
      a: { text: "one two three" },
      b: { parent: "a", keep: 13, text: " four" },
      c: { parent: "a", keep: 7, text: " TWO" },
      d: { parent: "b", keep: 3, text: "" },
      e: { parent: "d", keep: 3, text: "!" },
    },
    { head: { node: "b", at: 18 } },
  );
  const { segments, head } = cutsOf(story);
  assert.deepEqual(
    segments.map(({ text }) => text),
    ["one", " two", " three", " four", " TWO", "!"],
  );
  assert.equal(pathOf(head), "one two three four");
});

test("a story too large in segments is refused with a sentence", () => {
  const nodes = Object.fromEntries(
    Array.from({ length: 80 }, (_each, index) => [
      `n${index}`,
      index === 0 ? { text: "x".repeat(2 ** 20) } : { parent: `n${index - 1}`, keep: 1, tail: 1, text: "y" },
    ]),
  );
  assert.throws(() => writeObsidianLoom(storyWith(nodes, { head: { node: "n79", at: 5 } })), /more than 64 MB/);
});

test("a path of a hundred thousand nodes can be written in every format", () => {
  const nodes = Object.fromEntries(
    Array.from({ length: 100_000 }, (_each, index) => [
      `n${index}`,
      index === 0 ? { text: "a" } : { parent: `n${index - 1}`, keep: index, text: index % 10 ? "a" : "\n" },
    ]),
  );
  const story = storyWith(nodes, { head: { node: "n99999", at: 100_000 } });
  for (const { id, write } of WRITERS)
    assert.ok(write(story).length > 1000 || ["pairs", "labels", "rounds"].includes(id), id);
});

test("an empty story can be written in every format", () => {
  const story = storyOf({ ...randomStory(1, 1), nodes: {}, marks: {}, title: "", head: { node: "", at: 0 } });
  for (const { write } of WRITERS) assert.ok(write(story) !== undefined);
  assert.equal(Object.keys(JSON.parse(writeObsidianLoom(story)).nodes).length, 1);
});

test("Markdown has the title and the names as headings, and reads back without doubling them", async () => {
  const nodes = {
    a: { text: "Fog.\n" },
    b: { parent: "a", keep: 5, text: "\nIda rowed." },
    c: { parent: "b", keep: 16, text: "\n\nShe slept." },
  };
  const story = storyWith(nodes, {
    title: "Skarholm",
    head: { node: "c", at: 28 },
    marks: { b: { name: "One" }, c: { name: "Two" } },
  });
  const text = writeMarkdown(story);
  assert.equal(text, "# Skarholm\n\nFog.\n\n## One\n\nIda rowed.\n\n## Two\n\nShe slept.");
  assert.equal(writeMarkdown(await readBack("x.md", text)), text);
});

test("Markdown has the text's own headings once, and others above what has a name alone", async () => {
  const nodes = {
    a: { text: "## One\n\nFog.\n" },
    b: { parent: "a", keep: 13, text: "\n## Two\n\nIda *rowed*.\n\n***\n\n" },
    c: { parent: "b", keep: 41, text: "She slept." },
  };
  const marks = { b: { name: "What Ida did" }, c: { name: "Three" } };
  const story = storyWith(nodes, { title: "Skarholm", head: { node: "c", at: 51 }, marks });
  const text = writeMarkdown(story);
  assert.equal(text, "# Skarholm\n\n## One\n\nFog.\n\n## Two\n\nIda *rowed*.\n\n***\n\n## Three\n\nShe slept.");
  assert.equal(writeMarkdown(await readBack("x.md", text)), text);
});

test("a web page has chapters, emphasis and breaks, and a text is no markup in it", () => {
  const text = "Intro.\n\n# A *B* <i>\n\nShe said **<b>no</b>** & went.\n\n* * *\n\n### Small\n\n2 * 3";
  const story = storyWith(
    { a: { text } },
    { title: "A & B", author: "", language: "de", head: { node: "a", at: text.length } },
  );
  const page = writeHtml(story);
  assert.match(page, /^<!DOCTYPE html>\n<html lang="de"><head><meta charset="utf-8"\/>/);
  assert.deepEqual(page.split("<body>")[1]?.split("\n"), [
    "<h1>A &amp; B</h1>",
    "<section><p>Intro.</p></section>",
    '<section><h2 class="part">A <em>B</em> &lt;i&gt;</h2><p>She said <strong>&lt;b&gt;no&lt;/b&gt;</strong> &amp; went.</p>',
    "<hr/>",
    "<h3>Small</h3>",
    "<p>2 * 3</p></section>",
    "</body></html>",
    "",
  ]);
});

test("paragraphs are lines, or blocks between empty lines, whichever the text is made of", () => {
  const texts = (/** @type {string} */ text) =>
    paragraphsOf(text).map(({ text, scene }) => (scene ? `* ${text}` : text));
  assert.deepEqual(texts("a\nb\n\nc\nd\n"), ["a", "b", "* c", "d"]);
  assert.deepEqual(texts("a\n\nb\n\n\nc\n\nd"), ["a", "b", "* c", "d"]);
  assert.deepEqual(texts(" of the lamp.\n  indented\n"), ["of the lamp.", "  indented"]);
  assert.deepEqual(texts("\n\n  \n"), []);
});

test("a title becomes a file name that every system takes", () => {
  assert.equal(fileName("The lighthouse", ".txt"), "The lighthouse.txt");
  assert.equal(fileName("a/b\\c: <d>|?*\u202e\n", ".txt"), "a b c d.txt");
  assert.equal(fileName("...", ".md"), "story.md");
  assert.equal(fileName("CON", ".md"), "story CON.md");
  assert.equal(fileName("🌕".repeat(200), ".md"), `${"🌕".repeat(80)}.md`);
});

/** @param {{parent: any, text: string}} cut */
function pathOf(cut) {
  const parts = [];
  for (let each = /** @type {any} */ (cut); each !== null; each = each.parent) parts.push(each.text);
  return parts.reverse().join("");
}

/** @param {any} note @param {string} id */
function pathIn(note, id) {
  let text = "";
  for (let node = note.nodes[id]; node; node = note.nodes[node.parentId]) text = node.text + text;
  return text;
}

test("a language is one that has a tag, in its usual spelling, and else none is said", () => {
  const languages = ["de-ch", "EN", "zh-hant-tw", "", "german or so", "de_CH"].map((each) => languageTag(each));
  assert.deepEqual(languages, ["de-CH", "en", "zh-Hant-TW", null, null, null]);
  const language = (/** @type {unknown} */ value) =>
    chaptersOf(storyWith({ a: { text: "x" } }, { head: { node: "a", at: 1 }, language: value })).language;
  assert.deepEqual(["pt-br", "", undefined, 7].map(language), ["pt-BR", "und", "und", "und"]);
});

test("a chapter without a name is listed by its first words", () => {
  assert.equal(firstWords("\n\nFog came first. Then the boat. Then"), "Fog came first. Then the boat. …");
  assert.equal(firstWords(" Fog\ncame "), "Fog came");
  assert.equal(firstWords(`![map](srb:${"0".repeat(32)}) `), "…");
});
