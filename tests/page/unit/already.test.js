// Sentences that the manuscript has already are found in a branch, however it grows, and nothing else is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Repeats, sentencesBefore } from "../../../srb/page/already.js";
import { random } from "./random.js";

const next = random(5);
const below = (n) => Math.floor(next() * n);

/** The parts of a text that stand before it already, told at once. */
function found(before, text, isWhole = true) {
  const repeats = new Repeats(sentencesBefore(before));
  repeats.follow(text, isWhole);
  return repeats.ranges.map(({ from, to }) => text.slice(from, to));
}

const TABLE = [
  ["He went to the sea. She slept.", " He went to the sea. And then", ["He went to the sea."]],
  ["He went to the sea. She slept.", " She slept. She slept.", []], // too short to tell anything
  ["“He went to the sea!”", " He went\nto the SEA.", ["He went\nto the SEA."]], // marks and capitals are no words
  ["Mr. Brown went to the sea. Mr. Brown", " went to the sea. He", [" went to the sea."]], // goes on with an open sentence
  ["It rained. He went", "\n\nHe went to the sea.", []],
  ["He went to the sea", "\n\nHe went to the sea.", []], // an open sentence is none yet
  ["He went to the sea.", " He went to the sea and back.", []],
  ["He went to the sea.", " Then he went to the sea.", []],
  ["海辺の町に雨が降った。", "海辺の町に雨が降った。そして", ["海辺の町に雨が降った。"]],
  ["Il pleuvait sur la ville. « Non ! »", " Il pleuvait sur la ville.", ["Il pleuvait sur la ville."]],
  ["", "He went to the sea. He went to the sea.", []],
];

for (const [before, text, expected] of TABLE) {
  test(`after ${JSON.stringify(before)} of ${JSON.stringify(text)}`, () => {
    assert.deepEqual(
      found(before, text).map((each) => each.trim()),
      expected.map((each) => each.trim()),
    );
  });
}

const SENTENCES = Array.from({ length: 30 }, (_, place) => `The ${place}. guest came to the house${"!?."[place % 3]}`);

test("the sentences of a text are those that stood before it, whatever its pieces", () => {
  for (let round = 0; round < 200; round++) {
    const before = Array.from({ length: below(12) }, () => SENTENCES[below(30)]);
    const own = Array.from({ length: 1 + below(12) }, () => SENTENCES[below(30)]);
    const text = ` ${own.join(" ")}`;
    const repeats = new Repeats(sentencesBefore(before.join(" ")));
    for (let length = 0; length < text.length; length += 1 + below(9)) repeats.follow(text.slice(0, length), false);
    repeats.follow(text, true);
    assert.deepEqual(
      repeats.ranges.map(({ from, to }) => text.slice(from, to)),
      own.filter((sentence) => before.includes(sentence)),
    );
  }
});

test("the last sentence of a growing text is told once it has ended", () => {
  assert.deepEqual(found("He went to the sea.", " He went to the sea.", false), []); // "and back" may follow
  assert.deepEqual(found("He went to the sea.", " He went to the sea. A", false), ["He went to the sea."]);
});

test("another branch's text begins anew", () => {
  const repeats = new Repeats(sentencesBefore("He went to the sea."));
  repeats.follow(" He went to the sea. And", true);
  repeats.follow(" So", false);
  assert.deepEqual(repeats.ranges, []);
});

test("a text without ends of sentences is gone through once", () => {
  const repeats = new Repeats(sentencesBefore("He went to the sea."));
  const text = "word ".repeat(20_000);
  for (let length = 0; length < text.length; length += 500) repeats.follow(text.slice(0, length), false);
  assert.ok(repeats.at > text.length - 4000);
  assert.deepEqual(repeats.ranges, []);
});
