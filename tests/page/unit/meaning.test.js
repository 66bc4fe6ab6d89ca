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
