/** What a person mends before the cards is what the model reads for each further branch of the round. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ended = (index, reason = "limit") => ({ event: "stop", index, length: 1, stop: 0, reason, stopping_word: "" });

/** A round whose first card has ended, while the second one is written. */
async function begun(text = "Onxe upon a time,") {
  const it = await makeDesk();
  it.manuscript.type(text);
  it.first = await round(it, " b c", " d");
  it.first.send(ended(0));
  return it;
}

const mend = (it) => it.manuscript.type("c", 2, 3);
const calls = ({ api }) => api.calls.filter(({ path }) => path.endsWith("/branches"));

const ACTS = [
  ["more branches", ({ desk }) => desk.more(1), ""],
  ["a variation", ({ desk }) => desk.vary(0, 2, 1), " b"],
  ["a text that goes on", ({ desk }) => desk.extend(0), " b c"],
  ["another word", ({ desk }) => desk.choose(0, 2, " x"), " b x"],
  ["another try", ({ desk }) => desk.prune(0).then(() => desk.refill()), ""],
];

for (const [what, act, given] of ACTS) {
  test(`${what}: the model reads what was mended before the place that the cards go on from`, async () => {
    const it = await begun();
    mend(it);
    act(it);
    await settled();
    assert.notEqual(it.api.last, it.first);
    assert.equal(it.api.last.body.prompt, `Once upon a time,${given}`);
    assert.deepEqual(calls(it), []);
    it.api.last.send({ event: "start", id: "mended", count: 1, seeds: [3], prompt_tokens: 5 });
    it.api.last.send({ event: "stream", index: 0, text: " z" });
    const slot = it.desk.round.slots.find(({ text }) => text === `${given} z`);
    await it.desk.take(slot.number, { go: false });
    assert.equal(it.desk.text, `Once upon a time,${given} z`);
  });

  test(`${what}: the running request goes on where nothing was mended, or the mending was undone`, async () => {
    const it = await begun();
    mend(it);
    it.desk.undo();
    act(it);
    await settled();
    assert.equal(it.api.last, it.first);
  });
}

test("a word put before the text, and one taken out of its middle, are read as well", async () => {
  const it = await begun("upon upon a time,");
  it.manuscript.type("Once ", 0);
  it.manuscript.type("", 5, 10);
  it.desk.more(1);
  await settled();
  assert.equal(it.api.last.body.prompt, "Once upon a time,");
});

test("the words that could stand at a place of a card are asked for behind the mended text", async () => {
  const it = await begun();
  mend(it);
  it.api.answers["v1/srb/completions"] = { completions: [{ logprobs: [] }] };
  await it.desk.alternatives(0, 2);
  assert.equal(it.api.calls.at(-1).body.prompt, "Once upon a time, b");
});

test("a card that is still written keeps its request when it is to be longer", async () => {
  const it = await begun();
  mend(it);
  it.desk.extend(1);
  await settled();
  assert.equal(it.api.last, it.first);
  assert.deepEqual(
    it.api.calls.filter(({ method }) => method === "PATCH").map(({ body }) => body),
    [{ max_tokens: it.desk.settings.max_tokens }],
  );
});

test("further branches of a round that has read the mended text are added to that request", async () => {
  const it = await begun();
  mend(it);
  it.desk.more(1);
  await settled();
  it.api.last.send({ event: "start", id: "mended", count: 1, seeds: [3], prompt_tokens: 5 });
  it.desk.more(1);
  await settled();
  assert.deepEqual(
    calls(it).map(({ path }) => path.split("/").at(-2)),
    ["mended"],
  );
});

test("words whose end the cards go on from were taken out: further ones go on from it, too", async () => {
  const it = await begun("It was a fox.");
  it.manuscript.type("", 8, 13);
  it.desk.vary(0, 2, 1);
  await settled();
  assert.equal(it.api.last, it.first);
});

test("after a reload a request that has read the mended text is not taken for one that has read the first", async () => {
  const it = await begun();
  mend(it);
  it.desk.more(1);
  await settled();
  it.api.last.send({ event: "start", id: "mended", count: 1, seeds: [3], prompt_tokens: 5 });
  it.api.last.send({ event: "stream", index: 0, text: " z" });
  it.desk.rounds.save();
  it.api.answers["v1/srb/completions"] = { completions: [{ id: "mended" }] };
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  const branch = { index: 0, seed: 3, state: "running", length: 3, max_tokens: 9, text: " z" };
  it.api.last.send({ event: "snapshot", id: "mended", state: "running", branches: [branch] });
  it.desk.more(1);
  await settled();
  assert.equal(it.api.last.body?.prompt, "Once upon a time,");
  assert.deepEqual(calls(it), []);
});
