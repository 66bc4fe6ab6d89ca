/** Runs of a card's words: what is taken or put somewhere is what is marked, by its own author, in one step of undo. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDesk, round } from "./fake_desk.js";
import { Random } from "./random.js";

const TEXT = "The lake was still. Nobody came.";

/** A desk with a round of two cards. */
async function written(...cards) {
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  await round(it, ...cards);
  return it;
}

const authors = ({ story, head }) => story.pieces(head.node, head.at).map(({ by, from, to }) => `${by} ${from}-${to}`);

test("a beginning and an end make a run, and one that would be empty takes the other away", async () => {
  const { desk } = await written(" One little lamp burned.", " Two.");
  const [slot] = desk.round.slots;
  desk.setStart(0, 5);
  desk.setMark(0, 16);
  assert.deepEqual(desk.round.taken(0), { from: 5, to: 16, text: "little lamp" });
  assert.equal(desk.round.taken(0, 4).text, " One", "a take up to a word before the beginning has all up to it");
  desk.setMark(0, 4);
  assert.deepEqual([slot.start, slot.mark], [0, 4]);
  desk.setStart(0, 12);
  assert.deepEqual([slot.start, slot.mark], [12, null]);
});

test("a run is taken with the space that it needs, and the words are the model's", async () => {
  const { desk } = await written(" One little lamp burned.", " Two.");
  desk.setStart(0, 5);
  desk.setMark(0, 16);
  await desk.take(0, { go: false });
  assert.equal(desk.text, `${TEXT} little lamp`);
  assert.deepEqual(
    authors(desk).map((each) => each.split(" ")[0]),
    ["person", "model", "model"],
  );
  const copied = [...desk.story.nodes.values()].filter(({ of }) => of);
  assert.ok(copied.every(({ by }) => by === "model"));
});

test("two cards' sentences are mixed with two gestures, each one step of undo, and the cards stay", async () => {
  const { desk, manuscript } = await written(" One lamp burned. It hissed.", " Two gulls sat. They slept.");
  const { round: shown } = desk;
  manuscript.select(TEXT.length);
  desk.setMark(0, 17);
  await desk.put(0);
  assert.equal(desk.text, `${TEXT} One lamp burned.`);
  desk.setStart(1, 16);
  await desk.put(1);
  assert.equal(desk.text, `${TEXT} One lamp burned. They slept.`);
  assert.equal(desk.round, shown);
  desk.undo();
  assert.equal(desk.text, `${TEXT} One lamp burned.`);
  desk.undo();
  assert.equal(desk.text, TEXT);
  desk.redo();
  desk.redo();
  assert.equal(desk.text, `${TEXT} One lamp burned. They slept.`);
});

for (let seed = 1; seed <= 40; seed += 1)
  test(`whatever run is put wherever, the text has it there, whole and by the model, and undo leads back (${seed})`, async () => {
    const random = new Random(seed);
    const cards = [0, 1].map(() => ` ${"One little lamp, 🦊 burned; all night. ".repeat(1 + random.below(3)).trim()}`);
    const { desk, manuscript } = await written(...cards);
    const texts = [desk.text];
    for (let step = 0; step < 8; step += 1) {
      const number = random.below(2);
      desk.setStart(number, random.below(cards[number].length));
      desk.setMark(number, random.chance(1, 3) ? null : random.below(cards[number].length));
      const { text } = desk.round.taken(number);
      if (!text.trim()) continue;
      const before = desk.text;
      const at = random.below(before.length + 1);
      const end = random.chance(1, 3) ? Math.min(before.length, at + random.below(6)) : at;
      manuscript.select(at, end);
      await desk.put(number);
      const now = desk.text;
      const behind = before.slice(end);
      assert.ok(now.startsWith(before.slice(0, at)) && now.endsWith(behind), `${before} -> ${now}`);
      const put = now.slice(at, now.length - behind.length);
      assert.equal(put.trim(), text.trim());
      const { story, head } = desk;
      const here = story.pieces(head.node, head.at).filter(({ from, to }) => from < at + put.length && to > at);
      assert.deepEqual([...new Set(here.map(({ by }) => by))], ["model"]);
      texts.push(now);
    }
    for (const text of texts.reverse()) {
      assert.equal(desk.text, text);
      desk.undo();
    }
  });
