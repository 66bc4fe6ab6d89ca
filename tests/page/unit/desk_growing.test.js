/** A story that grows by itself: behind all that a person asks for, within a budget, and on from what is there. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ends } from "../../../srb/page/desk/ends.js";
import { growthLeft } from "../../../srb/page/desk/growth_record.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";

const TEXT = "The bus had left.";

/** A desk with a text, and a server that takes every second text as an end that differs. */
async function written() {
  const it = await makeDesk();
  await import("../../../srb/page/desk/growing.js");
  it.api.answers["v1/srb/meaning"] = ({ texts }) => ({ groups: texts.map((_, place) => [place]).slice(0, 2) });
  it.manuscript.type(TEXT);
  it.answered = 0;
  it.growing = () => it.api.streams.filter(({ body }) => body?.priority === 1 && body.n === 2);
  /** Let the last request of the growth write two texts, and end. */
  it.answer = async (...texts) => {
    const stream = it.growing().at(-1);
    it.answered += 1;
    stream.send({ event: "start", id: `grown-${it.answered}`, count: 2, seeds: [1, 2], prompt_tokens: 5 });
    for (const [index, text] of texts.entries())
      stream.send({ event: "stream", index, text }, { event: "stop", index, reason: "boundary", length: 3 });
    stream.send({ event: "done", count: 2 });
    stream.end();
    await settled();
    await settled();
  };
  it.lines = () => [...it.desk.story.nodes.values()].filter(({ by }) => by === "model").map(({ text }) => text);
  return it;
}

test("it writes from each end, the shortest line first, until the budget is used up, and says which ends differ", async () => {
  const { desk, api, growing, answer, lines } = await written();
  const grown = desk.grow({ words: 9 });
  await settled();
  const [{ body }] = growing();
  assert.deepEqual([body.prompt, body.n, body.priority, body.linger], [TEXT, 2, 1, 0]);
  await answer(" It rained all day.", " Nobody came.");
  assert.equal(desk.rounds.growth.words, 6);
  assert.equal(growing().at(-1).body.prompt, `${TEXT} Nobody came.`);
  await answer(" Then one.", " Then none.");
  await grown;
  assert.equal(growing().length, 2);
  assert.deepEqual(lines(), [" It rained all day.", " Nobody came.", " Then one.", " Then none."]);
  assert.equal(desk.text, TEXT);
  assert.equal(desk.round, null);
  const { body: asked } = api.calls.find(({ path }) => path === "v1/srb/meaning");
  assert.deepEqual(
    [asked.texts.sort(), asked.n],
    [["It rained all day.", "Nobody came. Then none.", "Nobody came. Then one."], 3],
  );
  const [{ text, action }] = desk.said;
  assert.equal(text, "The story has grown by 10 words.");
  let opened;
  desk.addEventListener("dialog", ({ detail }) => (opened = detail));
  action.run();
  assert.equal(opened.name, "map");
  assert.equal(desk.rounds.ends.length, 2);
});

test("it waits for what a person asks for, and goes on behind it", async () => {
  const it = await written();
  const { desk, growing, answer } = it;
  desk.grow({ words: 100 });
  await settled();
  const stream = await round(it, " a", " b");
  await answer(" one", " two");
  assert.equal(growing().length, 1); // a person waits for cards
  for (const index of [0, 1]) stream.send({ event: "stop", index, reason: "limit", length: 1 });
  await settled();
  await settled();
  assert.equal(growing().length, 2);
  assert.equal(desk.round.slots[0].text, " a"); // what grows is not shown in their place
  desk.rounds.growth.stop();
});

test("a growth that is stopped keeps its words, and the next one goes on at the ends", async () => {
  const { desk, api, growing, answer, lines } = await written();
  const first = desk.grow({ words: 100 });
  await settled();
  await answer(" It rained.", " Snow fell over the hills.");
  const stream = growing().at(-1);
  stream.send({ event: "start", id: "stopped", count: 2, seeds: [1, 2], prompt_tokens: 5 });
  stream.send({ event: "stream", index: 0, text: " And" });
  desk.rounds.growth.stop();
  await first;
  assert.ok(api.calls.some(({ method, path }) => method === "DELETE" && path.endsWith("/stopped")));
  assert.ok(lines().includes(" And"));
  assert.equal(desk.rounds.growth, null);
  const second = desk.grow({ words: 100 });
  await settled();
  assert.equal(growing().at(-1).body.prompt, `${TEXT} It rained. And`);
  desk.newStory();
  await second;
  assert.equal(desk.rounds.growth, null);
  assert.equal(desk.story.nodes.size, 0);
});

test("ends that were set aside, or where the model ended the text, are not written on", async () => {
  const { desk, growing } = await written();
  const grown = desk.grow({ words: 100 });
  await settled();
  const stream = growing().at(-1);
  stream.send({ event: "start", id: "ended", count: 2, seeds: [1, 2], prompt_tokens: 5 });
  stream.send({ event: "stream", index: 0, text: " End." }, { event: "stop", index: 0, reason: "eos", length: 2 });
  stream.send(
    { event: "stream", index: 1, text: " It went on." },
    { event: "stop", index: 1, reason: "limit", length: 2 },
  );
  const [node] = [...desk.story.nodes.values()].filter(({ text }) => text === " It went on.");
  desk.story.setMark(node.id, "pruned", true);
  stream.send({ event: "done", count: 2 });
  stream.end();
  await grown; // nothing is left to go on from
  assert.equal(growing().length, 1);
});

test("a failure ends it and is said once; a second growth does not begin beside the first", async () => {
  const { desk, api, growing } = await written();
  const grown = desk.grow({ words: 100 });
  await settled();
  await desk.grow({ words: 100 });
  assert.equal(growing().length, 1);
  growing()[0].lose();
  await grown;
  assert.equal(desk.rounds.growth, null);
  assert.equal(desk.said.length, 1);
  assert.equal(
    api.calls.some(({ path }) => path === "v1/srb/meaning"),
    false,
  );
});

test("minutes end it, whatever it writes then", async (t) => {
  const { desk } = await written();
  let end;
  t.mock.method(window, "setTimeout", (run, wait) => {
    if (wait === 120_000) end = run;
    return 0;
  });
  const grown = desk.grow({ minutes: 2 });
  while (!end) await settled(); // what it is told by is loaded first
  end();
  await grown;
  assert.equal(desk.rounds.growth, null);
});

// ---- A window that was closed while it grew

/** A browser's storage, and the desk of a window that is opened anew on the same story. */
function storage(t) {
  const kept = new Map();
  globalThis.localStorage = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
  t.after(() => delete globalThis.localStorage);
  const left = () => JSON.parse(kept.get("srb.growth") ?? "null");
  return { left, age: (ms) => kept.set("srb.growth", JSON.stringify({ ...left(), seen: Date.now() - ms })) };
}

/** Close the window while a part is written, and open the story in another one. */
async function reopened(t, { age, running = true, words = 9, isFirst = false } = {}) {
  const kept = storage(t);
  const first = await written();
  first.desk.grow({ words, closed: 5 });
  await settled();
  if (!isFirst) await first.answer(" It rained all day.", " Nobody came.");
  const stream = first.growing().at(-1);
  stream.send({ event: "start", id: "part", count: 2, seeds: [1, 2], prompt_tokens: 5 });
  stream.send({ event: "stream", index: 0, text: " And" });
  first.desk.rounds.save();
  const json = JSON.stringify(first.desk.story.toJSON());
  const left = kept.left();
  first.desk.rounds.leave(); // the old window is gone; what it says in going is taken back
  await settled();
  globalThis.localStorage.setItem("srb.growth", JSON.stringify(left));
  kept.age(age);
  const it = await written();
  it.api.answers["v1/srb/completions"] = { completions: running ? [{ id: "part" }] : [] };
  it.desk.setStory(storyOf(json));
  for (let turn = 0; turn < 4; turn++) await settled();
  return { ...it, kept, left };
}

test("a growth whose window was closed is taken up: the part that the server went on with is read, and it goes on from there", async (t) => {
  const { api, desk, kept, left, lines } = await reopened(t, { age: 60_000 });
  assert.deepEqual([left.words, left.closed], [3, 300]);
  assert.equal(desk.rounds.growth.words, 0);
  const last = api.streams.find(({ method }) => method === "GET");
  assert.equal(last.path, "v1/srb/completions/part/events");
  const branch = { max_tokens: 128, length: 3, state: "ended", reason: "limit" };
  const branches = [" And then one.", " None."].map((text, index) => ({ ...branch, index, seed: index, text }));
  last.send({ event: "snapshot", id: "part", state: "resting", branches });
  await settled();
  await settled();
  assert.deepEqual(lines(), [" It rained all day.", " Nobody came.", " And then one.", " None."]);
  assert.ok(
    api.calls.some(({ method, path }) => method === "DELETE" && path.endsWith("/part")),
    "it is not kept",
  );
  await settled();
  assert.equal(desk.rounds.growth, null, "its budget is used up");
  assert.equal(kept.left(), null);
});

test("a first part stands beside the text when the window is opened: it is read once, and by the desk", async (t) => {
  const { api, desk, lines } = await reopened(t, { age: 60_000, isFirst: true });
  const read = api.streams.filter(({ method }) => method === "GET");
  assert.equal(read.length, 1);
  const branch = { max_tokens: 128, length: 3, state: "ended", reason: "limit" };
  const branches = [" And then.", " No."].map((text, index) => ({ ...branch, index, seed: index, text }));
  read[0].send({ event: "snapshot", id: "part", state: "resting", branches });
  await settled();
  await settled();
  assert.deepEqual(lines(), [" And then.", " No."]);
  assert.equal(desk.round.slots[1].text, " No.");
});

test("a part that the server has no more is closed as it was saved, and it goes on at the ends", async (t) => {
  const { desk, growing, lines } = await reopened(t, { age: 60_000, running: false, words: 90 });
  assert.deepEqual(lines(), [" It rained all day.", " Nobody came.", " And"]);
  assert.equal(growing().at(-1).body.prompt, `${TEXT} Nobody came. And`);
  assert.equal(growing().at(-1).body.linger, 300);
  assert.equal(desk.rounds.growth.words, 1);
});

test("a growth whose window was closed for longer than was chosen, or that another window is at, is not taken up", async (t) => {
  for (const age of [301_000, 1000]) {
    const { desk, growing } = await reopened(t, { age });
    assert.equal(desk.rounds.growth, null);
    assert.equal(growing().length, 0);
  }
});

test("a growth whose connection is lost leaves what is left, and one that a person stops does not", async (t) => {
  const kept = storage(t);
  for (const isStopped of [false, true]) {
    const { desk, growing } = await written();
    const grown = desk.grow({ words: 100, closed: 5 });
    await settled();
    growing()
      .at(-1)
      .send({ event: "start", id: "part", count: 2, seeds: [1, 2], prompt_tokens: 5 });
    if (isStopped) desk.rounds.growth.stop();
    else growing().at(-1).lose();
    await grown;
    assert.equal(kept.left() === null, isStopped);
  }
});

test("one that ends with its window leaves nothing, and what is kept and none is no growth", async (t) => {
  const kept = storage(t);
  const { desk, growing, answer } = await written();
  desk.grow({ words: 100 });
  await settled();
  await answer(" one", " two");
  assert.deepEqual([kept.left(), growing().at(-1).body.linger], [null, 0]);
  const good = { story: "s", root: { node: "n", at: 1 }, words: 1, until: null, closed: 60, seen: 0, run: null };
  localStorage.setItem("srb.growth", JSON.stringify(good));
  assert.deepEqual(growthLeft("s", 20_000), { left: good, wait: 0 });
  assert.equal(growthLeft("s", 2000).wait, 10_500);
  assert.equal(growthLeft("other", 20_000), null);
  for (const bad of [
    "{",
    "7",
    { ...good, root: null },
    { ...good, words: "x" },
    { ...good, seen: null },
    { ...good, run: 7 },
  ]) {
    localStorage.setItem("srb.growth", typeof bad === "string" ? bad : JSON.stringify(bad));
    assert.equal(growthLeft("s", 20_000), null);
  }
});

// ---- Ends

test("over random trees and what is done to them, the shortest end is the one that a look at all of the tree finds", () => {
  for (let seed = 0; seed < 60; seed++) {
    const random = new Random(seed);
    const story = Story.create();
    const root = story.settle(story.edit({ node: "", at: 0 }, 0, 0, TEXT));
    story.close(root.node);
    const ends = new Ends(story, root, TEXT.length);
    const nodes = [];
    const grow = (parent, keep, by = "model") => {
      const id = story.addModelNode({ parent, keep, text: "x".repeat(1 + random.below(30)), run: "r", slot: 0 });
      if (by === "eos") story.end(id, { reason: "eos" });
      nodes.push(id);
      ends.touch([parent]);
    };
    for (let step = 0; step < 40; step++) {
      const tip = ends.shortest();
      const all = ends.all().filter(({ node }) => story.nodes.get(node).end?.reason !== "eos");
      const least = Math.min(...all.map(({ at }) => at));
      if (ends.all().length === 0) assert.deepEqual(tip, root);
      else if (!all.length) assert.equal(tip, null);
      else assert.equal(tip.at, least, `${seed}.${step}`);
      if (!tip) break;
      for (let way = 0; way < 2; way++) grow(tip.node, tip.at, random.below(5) === 0 ? "eos" : "model");
      const some = nodes[random.below(nodes.length)];
      if (random.below(4) === 0) grow(some, story.length(some)); // a person goes on there
      if (random.below(6) === 0) {
        story.setMark(some, "pruned", random.below(2) === 0);
        ends.forget();
      }
    }
  }
});

test("a step looks at what is new, however large the tree is", () => {
  const story = Story.create();
  const root = story.settle(story.edit({ node: "", at: 0 }, 0, 0, TEXT));
  story.close(root.node);
  const ends = new Ends(story, root, TEXT.length);
  let looked = 0;
  const goesOn = ends.goesOn.bind(ends);
  ends.goesOn = (id) => {
    looked += 1;
    return goesOn(id);
  };
  const steps = [];
  for (let step = 0; step < 400; step++) {
    looked = 0;
    const { node, at } = ends.shortest();
    for (const text of [" one", " another"]) story.addModelNode({ parent: node, keep: at, text, run: "r", slot: 0 });
    ends.touch([node]);
    steps.push(looked);
  }
  assert.ok(Math.max(...steps.slice(1)) <= 4, `${Math.max(...steps)}`);
});
