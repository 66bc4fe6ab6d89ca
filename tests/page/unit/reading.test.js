/** All that the model reads, with the origin of each stretch. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { readingOfNext, readingOfShown } from "../../../srb/page/desk/readings.js";
import { planPrompt } from "../../../srb/page/prompt.js";
import { readingOf } from "../../../srb/page/reading.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ROOMY = { settings: { n: 1, max_tokens: 8 }, n_ctx: 4096 };
const short = (stretches) => stretches.map(({ origin, text }) => [origin, text]);

test("memory, lorebook, note, instruction and text of a prompt are told apart, and nothing is added or lost", () => {
  const plan = planPrompt({
    text: "One.\n\nTwo.\n\nThree.",
    memory: "Dora keeps the light.",
    note: { text: "Sad.", depth: 2 },
    wish: { text: "It rains.", depth: 1, frame: "[<|>]" },
    lore: { before: "Tom is old.", within: "[Mara: tall]", placeIn: () => 6 },
    ...ROOMY,
  });
  const reading = readingOf(plan.prompt, plan.blocks);
  assert.equal(reading.map(({ text }) => text).join(""), plan.prompt);
  assert.deepEqual(
    reading.filter(({ origin }) => origin !== "text").map(({ origin, text }) => [origin, text.trim()]),
    [
      ["memory", "Dora keeps the light."],
      ["lore", "Tom is old."],
      ["lore", "[Mara: tall]"],
      ["note", "[Author's note: Sad.]"],
      ["instruction", "[It rains.]"],
    ],
  );
});

test("the words of a template stand between those of the story", () => {
  const plan = planPrompt({
    text: "A fox.",
    memory: "Mara.",
    ...ROOMY,
    settings: { ...ROOMY.settings, mode: "chat", system: "Write. ", instruction: "Go on." },
  });
  const prompt = "<s>Write.\n\nMara.</s><u>Go on.</u><a>A fox.";
  assert.deepEqual(short(readingOf(prompt, plan.blocks)), [
    ["template", "<s>"],
    ["instruction", "Write."],
    ["template", "\n\n"],
    ["memory", "Mara."],
    ["template", "</s><u>"],
    ["instruction", "Go on."],
    ["template", "</u><a>"],
    ["text", "A fox."],
  ]);
});

test("a text with a gap has the model's own tokens around it, in either order", () => {
  for (const suffix_first of [false, true]) {
    const fill = { prefix: "<p>", suffix: "<s>", middle: "<m>", suffix_first };
    const plan = planPrompt({ text: "A fox.", behind: "It slept.", fill, ...ROOMY });
    const words = short(readingOf(plan.prompt, plan.blocks)).filter(([origin]) => origin === "text");
    assert.deepEqual(words.flat().sort(), ["A fox.", "It slept.", "text", "text"]);
  }
});

test("what a template has changed is the template's", () => {
  assert.deepEqual(short(readingOf("<A FOX.>", [[{ origin: "text", text: "A fox." }]])), [["template", "<A FOX.>"]]);
});

test("the next round's reading is that of its request, with the plain signs that a model knows", async () => {
  const it = await makeDesk();
  it.api.answers["v1/srb/server"] = { ...it.api.answers["v1/srb/server"], lacks: "“”" };
  await it.desk.watch.check();
  it.desk.watch.stop();
  it.desk.setMemory("Mara.");
  it.manuscript.type("“A fox.”");
  const { stretches, isRemade } = await readingOfNext(it.desk.rounds);
  assert.equal(isRemade, false);
  assert.deepEqual(short(stretches), [
    ["memory", "Mara.\n\n"],
    ["text", '"A fox."'],
  ]);
  const stream = await round(it, " It ran.");
  assert.equal(stream.body.prompt, stretches.map(({ text }) => text).join(""));
});

test("a past round's reading is what it was sent, and one of an earlier page is made again", async () => {
  const it = await makeDesk();
  it.manuscript.type("A fox.");
  await round(it, " It ran.");
  it.desk.setMemory("Mara.");
  const { rounds } = it.desk;
  assert.deepEqual(short((await readingOfShown(rounds)).stretches), [["text", "A fox."]]);
  await it.desk.flush();
  rounds.kept.clear();
  rounds.follow("load");
  await settled();
  const again = await readingOfShown(rounds);
  assert.equal(again.isRemade, true);
  assert.deepEqual(short(again.stretches), [
    ["memory", "Mara.\n\n"],
    ["text", "A fox."],
  ]);
});
