/** Cards in the middle of a text, sorted by how likely what follows becomes behind each. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDesk, round, settled } from "./fake_desk.js";

const BEFORE = "The lake was still.";
const BEHIND = " Nobody came. It froze.";
const CARDS = [" One.", " Two.", "", " Three 🦊."];
const VALUES = { " One.": -3, " Two.": -1, " Three 🦊.": -2 };

/** The answer of a server that reads characters as tokens: those behind the card are as likely as `VALUES` says, those of it the less so. */
function answer({ texts }) {
  return {
    texts: texts.map((text) => {
      const card = Object.keys(VALUES).find((each) => text.includes(each));
      const begins = [...text.slice(0, text.indexOf(card) + card.length)].length;
      const tokens = [...text].map((_, at) => ({
        start: at,
        logprob: at < begins ? -10 - 3 * VALUES[card] : VALUES[card],
      }));
      return { tokens: [{ start: -1, logprob: null }, ...tokens] };
    }),
  };
}

async function inside(before = BEFORE, behind = BEHIND, cards = CARDS) {
  const it = await makeDesk();
  it.api.answers["v1/srb/surprise"] = answer;
  it.manuscript.type(before + behind);
  it.manuscript.select(before.length);
  await round(it, ...cards);
  it.asked = () => it.api.calls.filter(({ path }) => path === "v1/srb/surprise").map(({ body }) => body);
  return it;
}

test("the card after which the next words are likeliest comes first, and one without words last", async () => {
  const { desk, asked } = await inside();
  await desk.rounds.gestures.sortByFollowing();
  assert.deepEqual(desk.round.order, [1, 3, 0, 2]);
  const [{ prompt, texts }] = asked();
  assert.equal(prompt, BEFORE, "which is read once");
  assert.deepEqual(
    texts,
    [" One.", " Two.", " Three 🦊."].map((card) => card + BEHIND),
  );
  desk.undo();
  assert.deepEqual(desk.round.order, [0, 1, 2, 3]);
  desk.redo();
  assert.deepEqual(desk.round.order, [1, 3, 0, 2]);
});

test("cards that came without their likelihood are sorted by what the model reads in them", async () => {
  const { desk, api, asked } = await inside();
  for (const index of CARDS.keys()) api.last.send({ event: "stop", index, end: { reason: "eos" } });
  await desk.sort();
  assert.deepEqual(asked()[0].texts, [" One.", " Two.", " Three 🦊."]);
  assert.deepEqual(desk.round.order, [0, 3, 1, 2]); // of the cards themselves, the first is the likeliest here
  assert.deepEqual(
    desk.round.slots.map(({ meanLogprob }) => meanLogprob),
    [-1, -7, null, -4],
  );
  await desk.sort();
  assert.equal(asked().length, 1);
});

test("however long the text and however many the cards, one request reads sixteen, and a bound of what follows", async () => {
  const cards = Array.from({ length: 40 }, () => " One.");
  const it = await inside("before ".repeat(9000).trim(), ` ${"behind ".repeat(9000)}`, cards);
  await it.desk.rounds.gestures.sortByFollowing();
  const [{ prompt, texts }, ...more] = it.asked();
  assert.deepEqual([texts.length, more.length], [16, 0]);
  assert.ok(texts.every((text) => text.length < 300));
  assert.ok(prompt.length < 4096 * 20, "no more than the model's context holds");
});

test("a reading that is stopped, or comes to another round, changes no order", async () => {
  const it = await inside();
  let open;
  it.api.answers["v1/srb/surprise"] = (body) => new Promise((done) => (open = () => done(answer(body))));
  const sorting = it.desk.rounds.gestures.sortByFollowing();
  await settled();
  await round(it, " a", " b", " c", " d");
  open();
  await sorting;
  assert.deepEqual(it.desk.round.order, [0, 1, 2, 3]);
  assert.deepEqual(it.desk.said, []);
});

test("for a passage that is written anew, cards are read as a take would put them", async () => {
  const it = await makeDesk();
  it.api.answers["v1/srb/surprise"] = answer;
  it.manuscript.type("It rained. Nobody came. It froze.");
  it.manuscript.select(11, 23);
  it.desk.go({ n: 2, task: { verb: "rewrite", instruction: "Anew." } });
  await settled();
  it.api.last.send({ event: "start", id: "r", count: 2, seeds: [1, 2], prompt_tokens: 6 });
  for (const [index, text] of ["\n One.", " Two. \n"].entries()) it.api.last.send({ event: "stream", index, text });
  await it.desk.rounds.gestures.sortByFollowing();
  const { prompt, texts } = it.api.calls.find(({ path }) => path === "v1/srb/surprise").body;
  assert.deepEqual(
    texts.map((text) => prompt + text),
    ["It rained. One. It froze.", "It rained. Two. It froze."],
  );
});
