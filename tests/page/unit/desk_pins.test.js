/** Pinned cards: they stay with the story, know what they went on from, and go anywhere in the text. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isPinned, pinsOf, placeOf, putPinned, togglePin } from "../../../srb/page/desk/pins.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round } from "./fake_desk.js";
import { Random } from "./random.js";

const TEXT = "The lake was still.";

/** A desk with a round of two cards, of which the first one is pinned. */
async function pinned(text = TEXT) {
  const it = await makeDesk();
  it.manuscript.type(text);
  await round(it, " One lamp burned.", " Two gulls sat.");
  it.desk.rounds.gestures.pin(0);
  return it;
}

test("a card is pinned and taken off by the same key, and both are steps of undo", async () => {
  const { desk } = await pinned();
  const [pin] = pinsOf(desk.story);
  assert.deepEqual([pin.text, pin.before], [" One lamp burned.", TEXT]);
  assert.equal(desk.rounds.gestures.pin(0), false);
  assert.deepEqual(pinsOf(desk.story), []);
  desk.undo();
  assert.equal(pinsOf(desk.story).length, 1);
  desk.undo();
  assert.equal(pinsOf(desk.story).length, 0);
});

test("what a pinned card went on from is told without signs of headings and emphasis", async () => {
  const { desk } = await pinned("## The Lake\n\nIt was *still*.");
  assert.equal(pinsOf(desk.story)[0].before, "The Lake It was still.");
});

test("a pinned card survives the next rounds and goes to the caret, and back to where it went on", async () => {
  const { desk, manuscript } = await pinned();
  await desk.take(1, { go: false });
  manuscript.type(" The end.");
  const [pin] = pinsOf(desk.story);
  assert.equal(placeOf(desk, pin), TEXT.length);
  manuscript.select(desk.text.length);
  putPinned(desk, pin);
  assert.equal(desk.text, `${TEXT} Two gulls sat. The end. One lamp burned.`);
  desk.undo();
  putPinned(desk, pin, { isInPlace: true });
  assert.equal(desk.text, `${TEXT} One lamp burned. Two gulls sat. The end.`);
  const by = desk.story.pieces(desk.head.node, desk.head.at).map((piece) => piece.by);
  assert.deepEqual(by, ["person", "model", "model", "person"]);
  desk.undo();
  assert.equal(desk.text, `${TEXT} Two gulls sat. The end.`);
});

test("a card whose text is gone says so, and still goes to the caret", async () => {
  const { desk, manuscript } = await pinned();
  manuscript.type("Another beginning.", 0, desk.text.length);
  const [pin] = pinsOf(desk.story);
  assert.equal(placeOf(desk, pin), null);
  putPinned(desk, pin);
  assert.equal(desk.text, "Another beginning. One lamp burned.");
});

test("a part that is marked is pinned alone, and a card that grows is pinned as it will be", async () => {
  const { desk } = await pinned();
  desk.setStart(1, 5);
  desk.setMark(1, 10);
  desk.rounds.gestures.pin(1);
  assert.deepEqual(
    pinsOf(desk.story)
      .map(({ text }) => text)
      .sort(),
    [" One lamp burned.", "gulls"],
  );
  assert.deepEqual(
    pinsOf(desk.story).map(({ before }) => before),
    [TEXT, TEXT],
  );
});

test("what a file has in the place of a pin, and is none, is left out", async () => {
  const { desk } = await pinned();
  const { story } = desk;
  const [{ node }] = pinsOf(story);
  for (const value of [
    5,
    "x",
    { at: 0, from: -1, to: 2 },
    { at: 0, from: 0 },
    { from: 0, to: 1 },
    { at: 0, from: 0.5, to: null },
    null,
  ]) {
    story.setMeta(`pin.${node}`, value);
    assert.deepEqual(pinsOf(story), []);
    assert.equal(isPinned(story, node), false);
  }
  story.setMeta("pin.nowhere", { at: 0, from: 0, to: 1 });
  story.setMeta(`pin.${node}`, { at: 9999, from: 9999, to: 10 });
  assert.deepEqual(
    pinsOf(story).map(({ text }) => text),
    [""],
  );
});

for (let seed = 1; seed <= 25; seed += 1)
  test(`two windows that pin and take off agree when they have heard of each other (${seed})`, async () => {
    const random = new Random(seed);
    const { desk } = await pinned();
    let now = Date.now(); // later than all that is pinned
    const first = desk.story;
    first.now = () => (now += 1);
    const second = new Story(first.id, first.now);
    second.merge(first.wire());
    const nodes = [...first.nodes.keys()];
    const stories = [first, second];
    const record = () => {};
    /** The last word on each node, by hand. */
    const expected = new Map(pinsOf(first).map(({ node, from }) => [node, { from, to: null }]));
    for (let step = 0; step < 20; step += 1) {
      const story = random.choice(stories);
      const node = random.choice(nodes);
      const pin = { at: 0, from: random.below(5), to: random.chance(1, 2) ? null : 5 + random.below(5) };
      const setMeta = (key, value) => story.setMeta(key, value);
      expected.set(node, isPinned(story, node) ? null : pin);
      togglePin({ story, setMeta, recordMeta: record }, node, pin);
      if (random.chance(1, 3)) story === first ? second.merge(first.wire()) : first.merge(second.wire());
    }
    first.merge(second.wire());
    second.merge(first.wire());
    const left = [...expected].filter(([, pin]) => pin).map(([node]) => node);
    for (const story of stories) assert.deepEqual(new Set(pinsOf(story).map(({ node }) => node)), new Set(left));
    assert.deepEqual(pinsOf(first), pinsOf(second));
  });
