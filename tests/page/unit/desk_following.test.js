/** Cards in the middle of a text, sorted by how likely what follows becomes behind each. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDesk, round, settled } from "./fake_desk.js";

const BEFORE = "The lake was still.";
const BEHIND = " Nobody came. It froze.";
const CARDS = [" One.", " Two.", "", " Three 🦊."];
const VALUES = { " One.": -3, " Two.": -1, " Three 🦊.": -2 };

/** The answer of a server that reads characters as tokens: those behind the card are as likely as `VALUES` says, those of it the less so. */
function answer({ prompt, echo, max_tokens, logprobs }) {
  assert.deepEqual({ echo, max_tokens, logprobs }, { echo: true, max_tokens: 0, logprobs: 0 });
  const choices = prompt.map((text, index) => {
    const card = Object.keys(VALUES).find((each) => text.includes(each));
    const tokens = [...text].map((_, at) => at);
    const begins = [...text.slice(0, text.indexOf(card) + card.length)].length;
    const token_logprobs = tokens.map((at) => (at === 0 ? null : at < begins ? -10 - 3 * VALUES[card] : VALUES[card]));
    return { index, logprobs: { tokens: [...text], token_logprobs, text_offset: tokens } };
  });
  return { choices: choices.reverse() };
}

async function inside(before = BEFORE, behind = BEHIND, cards = CARDS) {
  const it = await makeDesk();
  it.api.answers["v1/completions"] = answer;
  it.manuscript.type(before + behind);
  it.manuscript.select(before.length);
  await round(it, ...cards);
  it.asked = () => it.api.calls.filter(({ path }) => path === "v1/completions").map(({ body }) => body.prompt);
  return it;
}

test("the card after which the next words are likeliest comes first, and one without words last", async () => {
  const { desk, asked } = await inside();
  await desk.sortByFollowing();
  assert.deepEqual(desk.round.order, [1, 3, 0, 2]);
  assert.deepEqual(asked(), [[" One.", " Two.", " Three 🦊."].map((card) => BEFORE + card + BEHIND)]);
  desk.undo();
  assert.deepEqual(desk.round.order, [0, 1, 2, 3]);
  desk.redo();
  assert.deepEqual(desk.round.order, [1, 3, 0, 2]);
});

test("cards that came without their likelihood are sorted by what the model reads in them", async () => {
  const { desk, api, asked } = await inside();
  for (const index of CARDS.keys()) api.last.send({ event: "stop", index, end: { reason: "eos" } });
  await desk.sort();
  assert.deepEqual(asked(), [[" One.", " Two.", " Three 🦊."].map((card) => BEFORE + card)]);
  assert.deepEqual(desk.round.order, [0, 3, 1, 2]); // of the cards themselves, the first is the likeliest here
  assert.deepEqual(
    desk.round.slots.map(({ meanLogprob }) => meanLogprob),
    [-1, -7, null, -4],
  );
  await desk.sort();
  assert.equal(asked().length, 1);
});

test("however long the text and however many the cards, what is read has a bound", async () => {
  const cards = Array.from({ length: 40 }, (_, number) => ` One. ${"word ".repeat(number * 20)}`);
  const it = await inside("before ".repeat(9000).trim(), ` ${"behind ".repeat(9000)}`, cards);
  it.api.answers["v1/completions"] = ({ prompt }) => ({
    choices: prompt.map((_, index) => ({ index, logprobs: { token_logprobs: [null, -1], text_offset: [0, 1450] } })),
  });
  await it.desk.sortByFollowing();
  const prompts = it.asked().flat();
  assert.equal(prompts.length, 16);
  assert.ok(prompts.every((prompt) => prompt.length < 1500));
  assert.ok(it.asked().every((some) => some.length <= 4));
});

test("a reading that is stopped, or comes to another round, changes no order", async () => {
  const it = await inside();
  let open;
  it.api.answers["v1/completions"] = (body) => new Promise((done) => (open = () => done(answer(body))));
  const sorting = it.desk.sortByFollowing();
  await settled();
  await round(it, " a", " b", " c", " d");
  open();
  await sorting;
  assert.deepEqual(it.desk.round.order, [0, 1, 2, 3]);
  assert.deepEqual(it.desk.said, []);
});

test("for a passage that is written anew, cards are read as a take would put them", async () => {
  const it = await makeDesk();
  it.api.answers["v1/completions"] = answer;
  it.manuscript.type("It rained. Nobody came. It froze.");
  it.manuscript.select(11, 23);
  it.desk.go({ n: 2, task: { verb: "rewrite", instruction: "Anew." } });
  await settled();
  it.api.last.send({ event: "start", id: "r", count: 2, seeds: [1, 2], prompt_tokens: 6 });
  for (const [index, text] of ["\n One.", " Two. \n"].entries()) it.api.last.send({ event: "stream", index, text });
  await it.desk.sortByFollowing();
  const [prompts] = it.api.calls.filter(({ path }) => path === "v1/completions").map(({ body }) => body.prompt);
  assert.deepEqual(prompts, ["It rained. One. It froze.", "It rained. Two. It froze."]);
});
