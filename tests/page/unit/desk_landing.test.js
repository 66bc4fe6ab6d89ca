/** A card that is shown in the text stands where a take puts it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { passageIn } from "../../../srb/page/tasks.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const TEXT = "The lake was still. Nobody came. It froze.";

async function ended(it, ...cards) {
  await round(it, ...cards);
  return it;
}

const SCENES = {
  "at the end": async (it) => ended(it, " One.", " Two."),
  "in the middle": async (it) => {
    it.manuscript.select(19);
    return ended(it, " One.", "Two");
  },
  "in the place of a passage": async (it) => {
    it.manuscript.select(20, 32);
    it.desk.go({ n: 2, task: { verb: "rewrite", instruction: "Anew." } });
    await settled();
    it.api.last.send({ event: "start", id: "r", count: 2, seeds: [1, 2], prompt_tokens: 6 });
    for (const [index, text] of ["\n One.", "This passage:\n\nTwo. Three."].entries())
      it.api.last.send({ event: "stream", index, text });
    return it;
  },
  "behind what was typed since": async (it) => {
    await ended(it, " One.", "Two.");
    it.manuscript.type(" And then?");
    return it;
  },
  "in the place of what was typed since": async (it) => {
    await ended(it, " One.", " Two.");
    it.manuscript.type(" And then?");
    it.desk.setChoice("instead");
    return it;
  },
  "behind a paragraph that was begun": async (it) => {
    await ended(it, "\n\nOne.", " Two.");
    it.manuscript.type("\n\n");
    return it;
  },
};

for (const [where, act] of Object.entries(SCENES)) {
  for (const [number, start] of [
    [0, 0],
    [1, 0],
    [0, 2],
    [1, 1],
  ]) {
    test(`card ${number + 1} is shown from ${start} on ${where} as it is taken`, async () => {
      const it = await makeDesk();
      it.manuscript.type(TEXT);
      await act(it);
      const { desk } = it;
      desk.setStart(number, start);
      const { from, to, text } = desk.rounds.gestures.landing(number);
      const shown = desk.text.slice(0, from) + text + desk.text.slice(to);
      await desk.take(number, { go: false });
      assert.equal(desk.text, shown);
    });
  }
}

test("a label of the prompt that a small model repeats is no part of the new passage, and words that only look like one are", () => {
  const begins = (card) => card.slice(passageIn(card).from);
  for (const label of [
    "The passage:",
    "The original passage was:\n",
    " This passage: ",
    "[First draft]\n\n",
    "Here is the new passage:\n",
    "The original passage is as follows:\n\n",
    "The passage can be rephrased as: ",
    "The passage begins:\n\n",
  ])
    assert.equal(begins(`${label}The lamp went out.`), "The lamp went out.", label);
  for (const card of [
    "The passage was dark.",
    "This passage led down: Tom went first.",
    "The secret passage opened: Tom went first.",
    "One: two.",
  ])
    assert.equal(begins(` ${card}`), card);
});

test("what a model remarks on its work is no part of the new passage, and is not taken unless it is marked", async () => {
  const ends = (card) => card.slice(0, passageIn(card).to);
  for (const remark of [
    "In this new version, I added a hyphen in the",
    "I've condensed the passage while preserving the original message and",
    "This rewriting aims to improve the passage",
    "The new passage:",
    "Note: shorter.",
  ])
    assert.equal(ends(`The lamp went out.\n\n${remark}`), "The lamp went out.", remark);
  for (const prose of [
    "I have made the bed.",
    "This passage led down.",
    "The new passage led down.",
    "I kept the lamp.",
    "I entered the passage and ran.",
    "I reached the passage at dawn.",
    "This version of events pleased him.",
  ])
    assert.equal(ends(`The lamp went out.\n\n${prose}`), `The lamp went out.\n\n${prose}`);
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  it.manuscript.select(20, 32);
  it.desk.go({ n: 1, task: { verb: "shorter", instruction: "Shorter." } });
  await settled();
  it.api.last.send({ event: "start", id: "r", count: 1, seeds: [1], prompt_tokens: 6 });
  it.api.last.send({ event: "stream", index: 0, text: "The passage: Alone.\n\nI've shortened the passage." });
  assert.equal(it.desk.rounds.gestures.landing(0).taken, "Alone.".length);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "The lake was still. Alone. It froze.");
});

test("of a card with a mark it is known how much a take would bring, and a card without words is not shown", async () => {
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  await ended(it, " One two.", "");
  it.desk.setMark(0, 4);
  const { text, taken } = it.desk.rounds.gestures.landing(0);
  assert.deepEqual([text, taken], [" One two.", 4]);
  assert.equal(it.desk.rounds.gestures.landing(1), null);
});

test("the text hears of a card that is shown once, and of none again when its round goes", async () => {
  const it = await makeDesk();
  let told = 0;
  it.desk.addEventListener("ghost", () => (told += 1));
  const ghost = { number: 0, moves: true };
  for (const each of [null, ghost, ghost, null]) it.desk.showGhost(each);
  assert.equal(told, 2);
});
