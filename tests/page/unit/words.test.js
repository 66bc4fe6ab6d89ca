import assert from "node:assert/strict";
import { test } from "node:test";
import { WordCount, WordsBefore } from "../../../srb/page/desk/words.js";
import { countsCharacters, countWords } from "../../../srb/page/keep/describe.js";
import { Story } from "../../../srb/page/story.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

test("the words of a place are those of its text, whatever was counted before", () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const random = new Random(seed);
    const walk = new Walk(random);
    const words = new WordCount();
    for (let step = 0; step < 120; step += 1) {
      walk.step();
      if (random.chance(1, 3)) continue; // not every place is counted
      assert.equal(words.at(walk.story, walk.head), countWords(walk.text), `seed ${seed}, step ${step}`);
    }
  }
});

test("a key counts its own words and those beside it, not the story's", () => {
  const story = Story.create();
  const words = new WordCount();
  let head = story.edit({ node: "", at: 0 }, 0, 0, "one two ".repeat(50_000));
  assert.equal(words.at(story, head), 100_000);
  const text = story.text.bind(story);
  let read = 0;
  story.text = (id, at) => {
    const whole = text(id, at);
    return /** @type {any} */ ({
      slice: (from, to = whole.length) => {
        read += to - from;
        return whole.slice(from, to);
      },
      length: whole.length,
    });
  };
  for (const letter of " three") head = story.edit(head, 200_000, 200_000, letter);
  assert.equal(words.at(story, head), 100_001);
  for (const letter of " four") head = story.edit(head, head.at, head.at, letter);
  assert.equal(words.at(story, head), 100_002);
  assert.ok(read < 4000, `${read} units were read`);
});

test("the words before a place are those of its text, wherever it was before and whatever the text is", () => {
  const random = new Random(7);
  for (let round = 0; round < 60; round += 1) {
    const before = new WordsBefore();
    let text = "";
    for (let step = 0; step < 60; step += 1) {
      const from = random.below(text.length + 1);
      const to = random.chance(1, 2) ? text.length : Math.min(text.length, from + random.below(12));
      text =
        text.slice(0, from) +
        random.choice(["", " ", "a", "long".repeat(120), "夜の", random.words(9)]) +
        text.slice(to);
      const at = random.below(text.length + 1);
      assert.equal(before.in(text, at), countWords(text.slice(0, at)), `round ${round}, step ${step}`);
    }
  }
});

test("characters are counted of a text whose script puts no spaces between words", () => {
  const counted = ["灯台守は夜ごと海を見ていた。", "Mara 海を見ていた灯台守は", "ねこ"].map(countsCharacters);
  assert.deepEqual(counted, [true, true, true]);
  for (const text of ["", "…", "Mara saw 海.", "Мара ждала", "مرحبا", "🦊 one"])
    assert.equal(countsCharacters(text), false, text);
});
