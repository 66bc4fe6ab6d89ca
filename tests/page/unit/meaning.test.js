/** How much cards differ in what they mean, and their order by it, as the server tells it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ROUTE = "v1/srb/meaning";

/** A desk with a round of these cards, on a server that says of their texts what `said` has. */
async function compared(said, ...texts) {
  const it = await makeDesk();
  it.manuscript.type("A");
  it.stream = await round(it, ...texts);
  it.api.answers[ROUTE] = said;
  it.asked = () => it.api.calls.filter(({ path }) => path === ROUTE).map(({ body }) => body);
  return it;
}

test("cards are sorted as the server says, whatever stands between those that have a text, and undo puts them back", async () => {
  const said = { by: "meaning", different: 1.94, order: [0, 2, 3, 1], groups: [[0, 2, 3], [1]] };
  const { desk, asked } = await compared(said, " fox", " sea", "", " dog", " lake");
  await desk.rounds.gestures.sortByMeaning();
  assert.deepEqual(asked(), [
    { texts: ["fox", "sea", "dog", "lake"], logprobs: [null, null, null, null], n: undefined },
  ]);
  assert.deepEqual(desk.round.order, [0, 3, 4, 1, 2]);
  assert.equal(desk.round.meaning.different, 1.94);
  assert.deepEqual(desk.round.meaning.groups, [[0, 3, 4], [1]]);
  desk.undo();
  await settled();
  assert.deepEqual(desk.round.order, [0, 1, 2, 3, 4]);
});

test("of long texts the beginning is sent, without pictures, of many cards the first 64, and none that is set aside", async () => {
  const texts = Array.from({ length: 70 }, (_, number) => ` ${number} ${"word ".repeat(1000)}`);
  const order = Array.from({ length: 64 }, (_, place) => place);
  const { desk, asked } = await compared({ by: "words", different: 9, order, groups: [order] }, ...texts);
  await desk.prune(3);
  await desk.rounds.gestures.sortByMeaning();
  const [{ texts: sent }] = asked();
  assert.equal(sent.length, 64);
  assert.ok(sent.every((text) => text.length <= 2000));
  assert.deepEqual(
    sent.map((text) => Number.parseInt(text, 10)),
    Array.from({ length: 65 }, (_, number) => number).filter((number) => number !== 3),
  );
});

test("a comparison that comes to another round changes no order", async () => {
  let open;
  const said = () =>
    new Promise((done) => (open = () => done({ by: "words", different: 2, order: [1, 0], groups: [] })));
  const it = await compared(said, " a", " b");
  const sorting = it.desk.rounds.gestures.sortByMeaning();
  await settled();
  await round(it, " c", " d");
  open();
  await sorting;
  assert.deepEqual(it.desk.round.order, [0, 1]);
  assert.deepEqual(it.desk.said, []);
});

const ALIKE = { by: "meaning", different: 2.2, order: [0, 2, 3, 1], groups: [[0, 3, 2], [1]] };

/** A desk whose cards have ended. */
async function ended(said, ...texts) {
  const it = await compared(said, ...texts);
  for (const index of texts.keys()) it.stream.send({ event: "stop", index, reason: "limit", length: 3 });
  return it;
}

test("what is alike stands behind one card, comes out with it, and the next time all stand in front", async () => {
  const { desk } = await ended(ALIKE, " fox", " sea", " dog", " cat");
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1]);
  assert.ok(!desk.round.canRefill(desk.round.slots[3])); // its text is its own
  desk.undo();
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]);
  desk.redo();
  assert.deepEqual(desk.round.shown, [0, 1]);
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]);
  await desk.rounds.gestures.groupByMeaning();
  await desk.prune(0);
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]); // nothing stands behind what was set aside
});

test("a card that a person has marked stands for its group, and each further one for itself", async () => {
  const { desk } = await ended(ALIKE, " fox", " sea", " dog", " cat");
  desk.setMark(2, 4);
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [1, 2]);
  await desk.rounds.gestures.groupByMeaning();
  desk.setNodeMark(desk.round.slots[3].node, "star", true);
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [1, 2, 3]);
  assert.equal(desk.round.slots[0].foldedUnder, 3);
});

test("a card that goes on keeps what stands behind it, and one that is written still stays in front", async () => {
  const { desk, stream } = await compared(ALIKE, " fox", " sea", " dog", " cat");
  for (const index of [0, 1, 2]) stream.send({ event: "stop", index, reason: "limit", length: 3 });
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1, 3]);
  stream.send({ event: "branch", index: 0, seed: 7, resumed: true });
  stream.send({ event: "stream", index: 0, text: " ran" });
  assert.deepEqual(desk.round.shown, [0, 1, 3]);
});

test("cards that all differ stay where they are, and it is said", async () => {
  const { desk } = await ended({ by: "words", different: 2, order: [0, 1], groups: [[0], [1]] }, " fox", " sea");
  await desk.rounds.gestures.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1]);
  assert.equal(desk.said.length, 1);
});

/** A desk on which two of six are shown, and a server that takes the first text and the last one. */
async function twoOfSix(settings = {}) {
  const it = await makeDesk();
  for (const [name, value] of Object.entries({ n: 2, chosen_from: 6, ...settings })) it.desk.setSetting(name, value);
  it.api.answers[ROUTE] = ({ texts }) => {
    const order = texts.map((_, place) => place);
    return { by: "meaning", different: 2, order, groups: [order.slice(0, -1), order.slice(-1)] };
  };
  it.asked = () => it.api.calls.filter(({ path }) => path === ROUTE).map(({ body }) => body);
  it.manuscript.type("A");
  it.desk.go();
  await settled();
  it.stream = it.api.last;
  it.start = () => it.stream.send({ event: "start", id: "six", count: 6, seeds: [1, 2, 3, 4, 5, 6], prompt_tokens: 2 });
  it.end = (...indices) => {
    for (const index of indices)
      it.stream.send(
        { event: "stream", index, text: ` text ${index}` },
        { event: "stop", index, reason: "limit", length: 2, logprob: -1 - index },
      );
  };
  return it;
}

test("of six that are written two are shown when all have ended, with their likelihoods, and all are in the story", async () => {
  const { desk, api, stream, start, end, asked } = await twoOfSix();
  assert.deepEqual([stream.body.n, stream.body.rank], [6, true]);
  start();
  end(0, 1, 2, 3, 4);
  await settled();
  assert.deepEqual([asked(), desk.round.shown.length], [[], 6]);
  end(5);
  await settled();
  assert.deepEqual(asked(), [
    { texts: [0, 1, 2, 3, 4, 5].map((n) => `text ${n}`), logprobs: [-1, -2, -3, -4, -5, -6], n: 2 },
  ]);
  assert.deepEqual(desk.round.shown, [0, 5]);
  assert.equal([...desk.story.nodes.values()].filter(({ slot }) => slot !== undefined).length, 6);
  await desk.unfold(0);
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3, 4, 5]);
  stream.end();
  await settled();
  assert.equal(asked().length, 1); // what a person shows again stays
  assert.equal(api.streams.length, 1);
});

test("cards that were set aside or have no words are not compared, and too few are all shown", async () => {
  const { desk, stream, start, end, asked } = await twoOfSix();
  start();
  await desk.prune(0);
  stream.send({ event: "stop", index: 0, reason: "cancelled", length: 0 });
  stream.send({ event: "stop", index: 1, reason: "eos", length: 0 });
  end(2, 3, 4, 5);
  await settled();
  assert.deepEqual(
    asked()[0].texts,
    [2, 3, 4, 5].map((n) => `text ${n}`),
  );
  assert.deepEqual(desk.round.shown, [0, 2, 5]); // what was set aside is where it was
  const few = await twoOfSix();
  few.start();
  for (const index of [0, 1, 2, 3]) few.stream.send({ event: "stop", index, reason: "eos", length: 0 });
  few.end(4, 5);
  await settled();
  assert.deepEqual([few.asked(), few.desk.round.shown.length], [[], 6]);
});

test("after a reload the same cards stand in front, and a round that is left is chosen from when it is shown again", async () => {
  const { desk, start, end, asked } = await twoOfSix();
  start();
  end(0, 1, 2, 3, 4, 5);
  await settled();
  desk.rounds.save();
  desk.setStory(storyOf(JSON.stringify(desk.story.toJSON())));
  await settled();
  assert.deepEqual([asked().length, desk.round.wanted, desk.round.shown], [2, 2, [0, 5]]);
});

test("each direction is for as many branches, and a server's limit holds", async () => {
  const { stream } = await twoOfSix({ directions: ["rain", "a lie"] });
  assert.deepEqual(stream.body.directions, ["rain", "a lie", "rain", "a lie", "rain", "a lie"]);
  const { stream: other } = await twoOfSix({ n: 16, chosen_from: 200 });
  assert.equal(other.body.n, 64);
  const { stream: all, desk } = await twoOfSix({ n: 8 }); // more are shown than it says to write
  assert.deepEqual([all.body.n, all.body.rank, desk.round.wanted], [8, undefined, 0]);
});

test("a comparison that fails is said once, and all cards are shown", async () => {
  const { desk, api, start, end } = await twoOfSix();
  api.answers[ROUTE] = () => Promise.reject(new Error("The server is full."));
  start();
  end(0, 1, 2, 3, 4, 5);
  await settled();
  desk.setMark(0, 3);
  await settled();
  assert.deepEqual(
    desk.said.map(({ text }) => text),
    ["The server is full."],
  );
  assert.equal(desk.round.shown.length, 6);
});
