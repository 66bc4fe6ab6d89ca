// Shared beginnings are those that a naive comparison finds, and a comparison of words adds up to both texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  commonLength,
  diffWords,
  duplicates,
  isAlike,
  mergedTree,
  ownWord,
  repeatedShares,
  sharedBeginnings,
} from "../../../srb/page/compare.js";
import { random } from "./random.js";

const next = random(11);
const below = (n) => Math.floor(next() * n);
const words = [" the", " lamp", " lantern", " sea", "\n", "🙂", "🙃", " a", "."];
const sentence = (length) => Array.from({ length }, () => words[below(words.length)]).join("");

test("each text's shared beginning is the longest one that it has with any other", () => {
  for (let round = 0; round < 300; round++) {
    const texts = Array.from({ length: 1 + below(9) }, () => sentence(below(6)));
    const naive = texts.map((text, i) =>
      Math.max(0, ...texts.map((other, j) => (i === j ? 0 : commonLength(text, other)))),
    );
    assert.deepEqual(sharedBeginnings(texts), naive);
  }
});

test("no more than the limit is compared", () => {
  const long = "x".repeat(1000);
  assert.deepEqual(sharedBeginnings([long, `${long}y`], 400), [400, 400]);
});

test("the first own word is a whole word", () => {
  const [a, b] = [" the lamp was", " the lantern is"];
  const [shared] = sharedBeginnings([a, b]);
  assert.deepEqual(
    [a, b].map((text) => text.slice(ownWord(text, shared).from, ownWord(text, shared).to)),
    ["lamp", "lantern"],
  );
  assert.equal(ownWord(" the", 4), null);
  assert.equal(ownWord(" the ", 4), null);
  const { from, to } = ownWord(" the end", 4);
  assert.equal(" the end".slice(from, to), "end");
});

test("duplicates are equal texts; empty ones are none", () => {
  assert.deepEqual(duplicates(["a", "", "b", "a", "", "a"]), [[0, 3, 5]]);
});

test("the merged tree holds each text once, in whole", () => {
  for (let round = 0; round < 200; round++) {
    const texts = Array.from({ length: 1 + below(9) }, () => sentence(1 + below(6)));
    const read = texts.map(() => "");
    for (const { places, from, to } of mergedTree(texts)) {
      for (const place of places) {
        assert.equal(read[place].length, from, "a part follows what was read before");
        read[place] += texts[places[0]].slice(from, to);
      }
    }
    assert.deepEqual(read, texts);
  }
});

test("the merged tree of three texts is nested where they part", () => {
  const texts = [" the lamp was lit", " a sea", " the lamp was out"];
  const twigs = mergedTree(texts).map(({ depth, places, from, to }) => [
    depth,
    places,
    texts[places[0]].slice(from, to),
  ]);
  assert.deepEqual(twigs, [
    [0, [0, 2], " the lamp was "],
    [1, [0], "lit"],
    [1, [2], "out"],
    [0, [1], " a sea"],
  ]);
});

test("a comparison of words adds up to both texts", () => {
  for (let round = 0; round < 300; round++) {
    const before = sentence(below(40));
    const after = below(2) ? sentence(below(40)) : before.replace(" lamp", sentence(2));
    const parts = diffWords(before, after);
    const of = (kind) =>
      parts
        .filter((part) => part.kind !== kind)
        .map((part) => part.text)
        .join("");
    assert.deepEqual([of("added"), of("removed")], [before, after]);
  }
});

test("one changed word in a book is one removed and one added word", () => {
  const lines = Array.from({ length: 3000 }, (_, i) => `Line ${i} of the book, with some words in it.\n`);
  const changed = lines.map((line, i) => (i === 1500 ? line.replace("some", "many") : line));
  const parts = diffWords(lines.join(""), changed.join(""));
  assert.deepEqual(
    parts.filter((part) => part.kind !== "same"),
    [
      { kind: "removed", text: "some" },
      { kind: "added", text: "many" },
    ],
  );
});

test("texts with nothing in common replace each other", () => {
  const numbers = (from) => Array.from({ length: 4000 }, (_, i) => `${from + i}`).join(" ");
  const parts = diffWords(numbers(0).replaceAll(" ", "-"), numbers(10_000).replaceAll(" ", "_"));
  assert.deepEqual(
    parts.map((part) => part.kind),
    ["removed", "added"],
  );
});

test("texts are alike that share a third of their words, some of them together", () => {
  const passage = "The dog, the cat and the owl slept in the barn all night.";
  const alike = (one, other) => isAlike(diffWords(one, other), one);
  assert.ok(alike(passage, "The dog, the cat and the owl slept in the hay all night."));
  assert.ok(!alike(passage, "The sea, the sky, the sun: all night Mara walked, and the owl was gone."));
  assert.ok(!alike(passage, "Slept in the sea."), "two of thirteen words");
  assert.ok(alike("One day. Nobody came.", "One day."), "in a short text two words are together");
  const long =
    "I told you, the next day it rained, and the woman had a sword of stone, and she said no, and it was so.";
  const far =
    "I told you, an hour later and far from the coast a man drew a net of rope, and cried out, and all was lost.";
  assert.ok(!alike(long, far), "words between two changes do not count");
  assert.ok(!alike("The dog, the cat, the owl.", "The sea, the sky, the sun."));
});

test("the words that come again are those that a naive search finds, in groups of four", () => {
  assert.deepEqual(repeatedShares(["A b c d. E", "猫は寝た猫は寝た", "a b c", ""], "x a, b c d"), [1 / 2, 1 / 5, 0, 0]);
  for (let round = 0; round < 200; round++) {
    const texts = Array.from({ length: 1 + below(5) }, () =>
      Array.from({ length: below(20) }, () => "abc"[below(3)]).join(" "),
    );
    const seen = [];
    const naive = texts.map((text) => {
      const letters = text.split(" ").filter(Boolean);
      const groups = letters.slice(3).map((_, at) => letters.slice(at, at + 4).join());
      const again = groups.filter((group) => seen.includes(group) || !seen.push(group));
      return groups.length ? again.length / groups.length : 0;
    });
    assert.deepEqual(repeatedShares(texts.slice(1), texts[0]), naive.slice(1));
  }
});
