/** How much cards differ in what they mean, and their order by it, as the server tells it. */
import assert from "node:assert/strict";
import { test } from "node:test";
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
  await desk.sortByMeaning();
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
  await desk.sortByMeaning();
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
  const sorting = it.desk.sortByMeaning();
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
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1]);
  assert.ok(!desk.round.canRefill(desk.round.slots[3])); // its text is its own
  desk.undo();
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]);
  desk.redo();
  assert.deepEqual(desk.round.shown, [0, 1]);
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]);
  await desk.groupByMeaning();
  await desk.prune(0);
  assert.deepEqual(desk.round.shown, [0, 1, 2, 3]); // nothing stands behind what was set aside
});

test("a card that a person has marked stands for its group, and each further one for itself", async () => {
  const { desk } = await ended(ALIKE, " fox", " sea", " dog", " cat");
  desk.setMark(2, 4);
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [1, 2]);
  await desk.groupByMeaning();
  desk.setNodeMark(desk.round.slots[3].node, "star", true);
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [1, 2, 3]);
  assert.equal(desk.round.slots[0].foldedUnder, 3);
});

test("a card that goes on keeps what stands behind it, and one that is written still stays in front", async () => {
  const { desk, stream } = await compared(ALIKE, " fox", " sea", " dog", " cat");
  for (const index of [0, 1, 2]) stream.send({ event: "stop", index, reason: "limit", length: 3 });
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1, 3]);
  stream.send({ event: "branch", index: 0, seed: 7, resumed: true });
  stream.send({ event: "stream", index: 0, text: " ran" });
  assert.deepEqual(desk.round.shown, [0, 1, 3]);
});

test("cards that all differ stay where they are, and it is said", async () => {
  const { desk } = await ended({ by: "words", different: 2, order: [0, 1], groups: [[0], [1]] }, " fox", " sea");
  await desk.groupByMeaning();
  assert.deepEqual(desk.round.shown, [0, 1]);
  assert.equal(desk.said.length, 1);
});
