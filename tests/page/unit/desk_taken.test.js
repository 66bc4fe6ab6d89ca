/** How a person chooses: the cards that she took are counted, and the steps from which most of them came. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { stepsOf, tasteOf } from "../../../srb/page/desk/taken.js";
import { makeDesk, round } from "./fake_desk.js";
import { Random } from "./random.js";

const LADDER = { name: "temperature", from: 0.5, to: 1.1 };

/** A desk whose rounds have three cards, with temperatures 0.5, 0.8 and 1.1. */
async function climbing() {
  const it = await makeDesk();
  it.desk.setSetting("ladder", LADDER);
  it.manuscript.type("The lake was still.");
  it.round = async (take, part = false) => {
    await round(it, " One lamp burned.", " Two gulls sat.", " Three men came.");
    if (part) it.desk.setStart(take, 4);
    if (take !== null) await it.desk.take(take, { go: false });
  };
  return it;
}

test("taken cards are counted with the steps of their ladder, also where only a part was taken", async () => {
  const { desk, manuscript, ...it } = await climbing();
  for (const [take, part] of [[1], [1, true], [null], [1], [1], [0], [1, true], [1], [2], [1]]) {
    await it.round(take, part);
    manuscript.type(" And so on.");
  }
  const taste = tasteOf(desk.story, desk.settings.ladder);
  assert.deepEqual([taste.taken, taste.cards], [9, 30]);
  assert.deepEqual(taste.steps, { count: 7, of: 9, first: 2, last: 2, from: 0.8, to: 0.8 });
  assert.equal(tasteOf(desk.story, { ...LADDER, name: "min_p" }).steps, null);
  assert.equal(tasteOf(desk.story, null).steps, null);
});

test("what was put elsewhere counts once, and what grew by itself does not", async () => {
  const { desk, manuscript, ...it } = await climbing();
  await it.round(null);
  manuscript.select(desk.text.length);
  await desk.put(0);
  await desk.put(0);
  assert.equal(tasteOf(desk.story, LADDER).taken, 1);
  for (const run of desk.story.runs.values()) run.request.grown = true;
  assert.deepEqual([tasteOf(desk.story, LADDER).taken, tasteOf(desk.story, LADDER).cards], [0, 0]);
});

for (let seed = 1; seed <= 60; seed += 1)
  test(`the steps are the fewest that stand together and have most of what was taken (${seed})`, () => {
    const random = new Random(seed);
    const way = random.chance(1, 2) ? 1 : -1;
    const taken = Array.from({ length: random.below(40) }, () => random.choice([0.5, 0.7, 0.9, 1.1, 1.3]));
    const values = [...new Set(taken)].sort((one, other) => way * (one - other));
    const found = stepsOf(taken, way);
    const windows = values.flatMap((_, first) =>
      values.slice(first).map((_, more) => {
        const within = values.slice(first, first + more + 1);
        return { first, width: more + 1, count: taken.filter((each) => within.includes(each)).length };
      }),
    );
    const good = windows.filter(({ width, count }) => width < values.length && count >= 0.6 * taken.length);
    if (taken.length < 8 || good.length === 0) return assert.equal(found, null);
    const width = Math.min(...good.map((each) => each.width));
    const count = Math.max(...good.filter((each) => each.width === width).map((each) => each.count));
    assert.deepEqual([found.last - found.first + 1, found.count, found.of], [width, count, taken.length]);
    assert.deepEqual([values[found.first - 1], values[found.last - 1]], [found.from, found.to]);
  });
