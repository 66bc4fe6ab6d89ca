/** A story that grows by itself: behind all that a person asks for, within a budget, and on from what is there. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDesk, round, settled } from "./fake_desk.js";

const TEXT = "The bus had left.";

/** A desk with a text, and a server that takes every second text as an end that differs. */
async function written() {
  const it = await makeDesk();
  await import("../../../srb/page/desk/growing.js");
  it.api.answers["v1/srb/meaning"] = ({ texts }) => ({ groups: texts.map((_, place) => [place]).slice(0, 2) });
  it.manuscript.type(TEXT);
  it.answered = 0;
  it.growing = () => it.api.streams.filter(({ body }) => body.priority === 1);
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
  await settled();
  end();
  await grown;
  assert.equal(desk.rounds.growth, null);
});
