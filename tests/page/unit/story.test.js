import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { stretches } from "../../../srb/page/story/text.js";
import { Story } from "../../../srb/page/story.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

/** Type a text character by character. */
function type(story, head, text) {
  for (const character of text) head = story.edit(head, head.at, head.at, character);
  return head;
}

const EMPTY = { node: "", at: 0 };

test("every text is what plain string slicing makes of the same edits", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const walk = new Walk(new Random(seed));
    for (let step = 0; step < 120; step += 1) walk.step();
    walk.checkAll();
  }
});

test("a story survives its own file: nodes, texts, places and marks", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const walk = new Walk(new Random(seed));
    for (let step = 0; step < 80; step += 1) walk.step();
    walk.story.head = walk.head;
    const text = JSON.stringify(walk.story);
    const again = storyOf(text);
    walk.checkAll(again);
    assert.deepEqual(JSON.parse(JSON.stringify(again)), JSON.parse(text));
  }
});

test("words typed one after the other are one node, and a backspace rewrites it", () => {
  const story = Story.create();
  let head = type(story, EMPTY, "Once upom");
  head = story.edit(head, 8, 9, "");
  head = type(story, head, "n a time");
  assert.equal(story.text(head.node), "Once upon a time");
  assert.equal(story.nodes.size, 1);
  assert.equal(story.nodes.get(head.node).by, "person");
});

test("a backspace over the beginning of the open node keeps less of the parent", () => {
  const story = Story.create();
  const first = type(story, EMPTY, "Once upon");
  story.close(first.node);
  let head = type(story, first, " a");
  for (let left = 4; left > 0; left -= 1) head = story.edit(head, head.at - 1, head.at, "");
  head = type(story, head, "!");
  assert.equal(story.text(head.node), "Once up!");
  assert.equal(story.text(first.node), "Once upon");
  assert.equal(story.nodes.size, 2);
});

test("a closed node is never changed again: the next words make another", () => {
  const story = Story.create();
  const first = type(story, EMPTY, "Once");
  story.close(first.node);
  const second = type(story, first, " upon");
  assert.notEqual(second.node, first.node);
  assert.equal(story.text(first.node), "Once");
  assert.deepEqual(story.children(first.node), [second.node]);
});

test("a person's node is closed by a run and by a branch that build on it", () => {
  const story = Story.create();
  const head = type(story, EMPTY, "Once");
  story.addRun({ id: "r1", ...head, made: 1, model: "m", request_id: "q", seeds: [], request: {} });
  assert.equal(story.nodes.get(head.node).open, undefined);
  const next = type(story, head, " more");
  const branch = story.addModelNode({ parent: next.node, keep: next.at });
  assert.equal(story.nodes.get(next.node).open, undefined);
  assert.equal(story.text(branch), "Once more");
});

test("an edit in the middle of a branch leaves the branch free to grow", () => {
  const story = Story.create();
  const head = type(story, EMPTY, "Once upon a time");
  const branch = story.addModelNode({ parent: head.node, keep: 16 });
  story.grow(branch, ", a keeper");
  const edited = story.edit({ node: branch, at: 18 }, 0, 4, "Twice");
  story.grow(branch, ", a keeper of a light");
  story.end(branch, { reason: "limit" });
  assert.equal(story.text(edited.node), "Twice upon a time, ");
  assert.equal(story.text(branch), "Once upon a time, a keeper of a light");
  assert.deepEqual(
    story.pieces(edited.node).map(({ by }) => by),
    ["person", "person", "model"],
  );
});

test("children come in the order of their making and of their slots", () => {
  const story = new Story("s", () => 5);
  const head = story.edit(EMPTY, 0, 0, "Once");
  const ids = [2, 0, 1].map((slot) => story.addModelNode({ parent: head.node, keep: 4, slot }));
  assert.deepEqual(story.children(head.node), [ids[1], ids[2], ids[0]]);
  assert.deepEqual(story.roots(), [head.node]);
  assert.deepEqual(story.path(ids[0]), [head.node, ids[0]]);
});

test("half a character never gets into a story, whatever is pasted or cut", () => {
  const story = Story.create();
  let head = story.edit(EMPTY, 0, 0, "a🦊b\ud83d");
  assert.equal(story.text(head.node), "a🦊b\ufffd");
  story.close(head.node);
  head = story.edit(head, 2, 4, "");
  assert.equal(story.text(head.node), "a\ufffd\ufffd");
  storyOf(JSON.stringify(story));
});

test("a book that is pasted becomes a chain of closed nodes", () => {
  const story = Story.create();
  const start = story.edit(EMPTY, 0, 0, "Start. End.");
  story.close(start.node);
  const book = "word 🦊 ".repeat(50_000);
  const head = story.edit(start, 6, 6, book);
  assert.equal(story.text(head.node, head.at), `Start.${book} End.`);
  for (const node of story.nodes.values()) assert.ok(node.text.length <= 100_000);
  const next = story.edit(head, head.at, head.at, "x");
  assert.notEqual(next.node, head.node);
  storyOf(JSON.stringify(story));
});

test("a long stretch of typing is cut into several nodes, so that each is saved soon", () => {
  const story = Story.create();
  let head = EMPTY;
  for (let left = 3000; left > 0; left -= 1) head = story.edit(head, head.at, head.at, "four");
  assert.equal(story.length(head.node), 12_000);
  assert.equal(story.nodes.size, 3);
});

test("an edit outside the text is refused and changes nothing", () => {
  const story = Story.create();
  const head = story.edit(EMPTY, 0, 0, "Once");
  assert.throws(() => story.edit(head, 2, 5, "x"), RangeError);
  assert.throws(() => story.edit(head, 3, 2, "x"), RangeError);
  assert.throws(() => story.addModelNode({ parent: head.node, keep: 5 }), RangeError);
  assert.equal(story.text(head.node), "Once");
  assert.equal(story.nodes.size, 1);
});

test("a branch takes only texts that its last text begins", () => {
  const story = Story.create();
  const branch = story.addModelNode({ parent: "", keep: 0 });
  story.grow(branch, "Once");
  assert.throws(() => story.grow(branch, "Twice"));
  story.end(branch, { reason: "eos" }, -0.5);
  assert.throws(() => story.grow(branch, "Once upon"));
  assert.deepEqual(story.nodes.get(branch).end, { reason: "eos" });
  assert.equal(story.nodes.get(branch).logprob, -0.5);
});

test("a path of 10,000 nodes is walked without recursion", () => {
  const story = Story.create();
  let head = EMPTY;
  for (let left = 10_000; left > 0; left -= 1) {
    head = story.edit(head, head.at, head.at, "ab");
    story.close(head.node);
  }
  assert.equal(story.path(head.node).length, 10_000);
  const again = storyOf(JSON.stringify(story));
  assert.equal(again.text(head.node), "ab".repeat(10_000));
  const edited = again.edit(head, 0, 1, "A");
  assert.equal(again.text(edited.node), `Ab${"ab".repeat(9999)}`);
});

test("changes are taken once, and can be put back", () => {
  const story = Story.create("Title");
  assert.deepEqual(Object.keys(story.takeChanges().meta), ["title"]);
  assert.equal(story.takeChanges(), null);
  const head = story.edit(EMPTY, 0, 0, "Once");
  story.setMark(head.node, "star", true);
  const wire = story.takeChanges();
  assert.equal(wire.nodes[head.node].text, "Once");
  assert.equal("id" in wire.nodes[head.node], false);
  assert.equal(wire.marks[head.node].star.value, true);
  story.edit(head, 4, 4, " upon");
  story.putBack(wire);
  const again = story.takeChanges();
  assert.equal(again.nodes[head.node].text, "Once upon");
  assert.equal(again.marks[head.node].star.value, true);
});

test("the changes of one edit do not grow with the story", () => {
  const story = Story.create();
  let head = story.edit(EMPTY, 0, 0, "word ".repeat(10_000));
  story.takeChanges();
  head = story.edit(head, 25_000, 25_000, "x");
  const { nodes } = story.takeChanges();
  assert.deepEqual(
    Object.values(nodes).map(({ text }) => text),
    ["x"],
  );
});

test("a round on an empty story makes texts of their own", () => {
  const story = Story.create();
  story.addRun({ id: "r1", node: "", at: 0, made: 1, model: "m", request_id: "q", seeds: [], request: {} });
  const branch = story.addModelNode({ parent: "", keep: 0, run: "r1" });
  story.grow(branch, "Once");
  assert.deepEqual(story.roots(), [branch]);
  const wire = story.takeChanges();
  assert.equal("node" in wire.runs.r1, false);
  const again = storyOf(JSON.stringify(story));
  assert.equal(again.runs.get("r1").node, "");
  assert.deepEqual(again.head, { node: branch, at: 4 });
});

test("a story without a place to go on from goes on from its newest text", () => {
  let clock = 0;
  const story = new Story("s", () => (clock += 1));
  assert.deepEqual(story.head, EMPTY);
  story.edit(EMPTY, 0, 0, "Once");
  const second = story.edit(EMPTY, 0, 0, "Twice");
  assert.deepEqual(story.head, second);
  story.setMeta("head", { node: second.node, at: 99 });
  assert.deepEqual(story.head, second);
});

test("the sample story is one, with rounds, versions, stars and a chapter", () => {
  const story = storyOf(readFileSync(new URL("../../../srb/page/sample.json", import.meta.url), "utf8"));
  assert.ok(story.nodes.size >= 20);
  assert.ok(story.runs.size >= 5);
  for (const { node, at, request } of story.runs.values()) {
    assert.equal(story.children(node).filter((id) => story.nodes.get(id).keep === at).length >= request.n, true);
  }
  const text = story.text(story.head.node, story.head.at);
  assert.match(text, /^The last ferry.*flat as slate.*“My sister has the other.”$/s);
  const marks = [...story.nodes.keys()].map((id) => story.mark(id));
  assert.ok(marks.some(({ star }) => star));
  assert.ok(marks.some(({ name }) => name?.startsWith("Chapter one")));
});

test("a text that was taken out altogether stays so in a copy, in a file and for another window", () => {
  const story = Story.create();
  const place = story.edit(story.head, 0, 0, "Typed once.");
  story.head = place;
  story.head = { node: "", at: 0 };
  const copy = new Story(story.id);
  copy.merge(JSON.parse(JSON.stringify(story.wire())));
  for (const each of [story, copy, storyOf(JSON.parse(JSON.stringify(story)))])
    assert.deepEqual([each.head, each.nodes.size], [{ node: "", at: 0 }, 1]);
});

test("a long text is cut at a heading, else between paragraphs, lines or words, and loses nothing", () => {
  const words = "iron road window ".repeat(40);
  for (const [name, text, end] of [
    ["heading", `${words}\n\n# Two\n\n${words}`, "\n\n"],
    ["paragraph", `${words}\n\n${words}`, "\n\n"],
    ["line", `${words}\n${words}`, "\n"],
    ["word", `${words}${words}`, " "],
    ["none", "x".repeat(1500), "x"],
    ["characters of two units", "🦊".repeat(700), "🦊"],
  ]) {
    const cut = stretches(text, 1001);
    assert.equal(cut.join(""), text, name);
    assert.ok(
      cut.every((each) => each.length <= 1001),
      name,
    );
    assert.ok(cut[0].endsWith(end), `${name}: ${JSON.stringify(cut[0].slice(-20))}`);
  }
  assert.ok(stretches(`${words}\n\n# Two\n\n${words}`, 1001)[1].startsWith("# Two"));
});
