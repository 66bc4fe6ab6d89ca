/** Cards that are covered for a person who writes first, until a sentence of hers stands where they go. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hasSentence } from "../../../srb/page/cuts.js";
import { withLooks } from "../../../srb/page/desk/defaults.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";

const CARDS = [" She ran. She fell.", " It rained."];

async function writing({ text = "The bus had left.", writes_first = true, cards = CARDS } = {}) {
  const it = await makeDesk();
  it.desk.setSetting("writes_first", writes_first);
  if (text) it.manuscript.type(text);
  await round(it, ...cards);
  it.isCovered = () => it.desk.rounds.isCovered;
  return it;
}

test("a sentence is one that has ended: no abbreviation, no number, no sign alone", () => {
  for (const text of ["Yes.", " “Go!” She", "Sie ging. Er", "彼は来た。", "Why?\n"])
    assert.equal(hasSentence(text), true, text);
  for (const text of ["", "No", " “Go!” she", "...", " — ", "She met Dr.", "the 3.14 of", "and then,"])
    assert.equal(hasSentence(text), false, text);
});

test("cards behind a sentence of one's own are there at once, and behind half a one they are not", async () => {
  assert.equal((await writing()).isCovered(), false);
  const it = await writing({ text: "The bus" });
  assert.equal(it.isCovered(), true);
  it.manuscript.type(" had left");
  assert.equal(it.isCovered(), true);
  it.manuscript.type(".");
  assert.equal(it.isCovered(), false);
  it.manuscript.type(" And", 12, 17);
  assert.equal(it.isCovered(), false, "what a person has seen is not covered again");
});

test("without the setting no card is covered", async () => {
  assert.equal((await writing({ text: "The bus", writes_first: false })).isCovered(), false);
});

test("a card that is taken is no sentence of one's own: the next cards are covered until one stands behind it", async () => {
  const it = await writing();
  await it.desk.take(0, { go: false });
  await round(it, " a", " b");
  assert.equal(it.isCovered(), true);
  it.manuscript.type(" The bus", 0, 0);
  assert.equal(it.isCovered(), true, "elsewhere is not there");
  it.manuscript.type(" Nobody came.");
  assert.equal(it.isCovered(), false);
});

test("a person may look, and the next round is covered again", async () => {
  const it = await writing({ text: "The bus" });
  it.desk.rounds.uncover();
  assert.equal(it.isCovered(), false);
  await it.desk.take(1, { go: false });
  await round(it, " a");
  assert.equal(it.isCovered(), true);
});

test("cards for a passage are never covered: it is there already", async () => {
  const it = await writing();
  await it.desk.take(0, { go: false });
  it.manuscript.select(18, 26);
  it.desk.go({ n: 1, task: { verb: "rewrite", instruction: "Anew." } });
  await settled();
  assert.equal(it.isCovered(), false);
});

test("after a reload cards are covered by what the text says, and a new story has the setting", async () => {
  const it = await writing({ text: "The bus" });
  it.desk.rounds.save();
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  assert.equal(it.isCovered(), true);
  assert.equal(withLooks(Story.create(), it.desk.settings).meta("settings.writes_first"), true);
});

test("over random evenings cards are covered exactly while no sentence of hers stands between the last words of a model and their place", async () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = new Random(seed);
    const it = await makeDesk();
    it.desk.setSetting("writes_first", true);
    let hers = "";
    for (let step = 0; step < 12; step++) {
      const words = [" And", " It came.", " Two", " “So?”"][random.below(4)];
      if (random.below(3) > 0) {
        it.manuscript.type(words);
        hers += words;
        continue;
      }
      if (!it.desk.text) continue;
      await round(it, " written.", " made up.");
      assert.equal(it.desk.rounds.isCovered, !/[.?]/.test(hers), `${seed}.${step} ${it.desk.text}`);
      if (random.below(2)) {
        await it.desk.take(0, { go: false });
        hers = "";
      }
    }
  }
});
