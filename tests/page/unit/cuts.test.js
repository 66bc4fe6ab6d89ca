// Words, sentences and cuts are found where a person sees them, in any script, at a cost that does not grow with the text.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as cuts from "../../../srb/page/cuts.js";
import { random } from "./random.js";

const { codePoints, nextWord, onBoundary, previousWord, sentenceAt, sentenceEnd, trimCut, wordEndAt, wordStartAt } =
  cuts;

test("a click anywhere in a word finds its end, and in a space the end of the word before", () => {
  const text = " The keeper's lamp, lit";
  for (const at of [1, 2, 3]) assert.equal(wordEndAt(text, at), 4);
  assert.equal(wordEndAt(text, 4), 4);
  for (let at = 5; at < 13; at++) assert.equal(text.slice(0, wordEndAt(text, at)), " The keeper's");
  assert.equal(text.slice(0, wordEndAt(text, 18)), " The keeper's lamp,");
  assert.equal(wordEndAt(text, text.length), text.length);
  assert.equal(wordEndAt("", 5), 0);
});

test("a word's beginning is found from inside it and from its end", () => {
  const text = "one two  three";
  for (const at of [5, 6, 7]) assert.equal(wordStartAt(text, at), 4);
  assert.equal(wordStartAt(text, 9), 9);
  assert.equal(wordStartAt(text, 0), 0);
});

test("words are stepped through forwards and backwards by the same ends", () => {
  const texts = [
    "She said: “No – never,” and left.\n\nThe end",
    "吾輩は猫である。名前はまだ無い。",
    "Приве́т, мир! 🙂🙂 да",
    "吾輩は猫である。名前はまだ無い、".repeat(90),
  ];
  for (const text of texts) {
    const ends = [];
    for (let at = nextWord(text, 0); at < text.length; at = nextWord(text, at)) ends.push(at);
    const back = [];
    for (let at = previousWord(text, text.length); at > 0; at = previousWord(text, at)) back.unshift(at);
    assert.deepEqual(
      back.filter((at) => ends.includes(at)),
      ends,
      text.slice(0, 40),
    );
  }
});

test("a sentence ends after its mark and closing quotes, and not after a title or in a number", () => {
  const text = "Mr. Hill paid 3.50 to J. R. Tolkien. “Go!” he said. Then … nothing. 終わり。はい";
  const parts = [];
  for (let at = 0; at < text.length; ) {
    const end = sentenceEnd(text, at);
    parts.push(text.slice(at, end).trim());
    at = end;
  }
  assert.deepEqual(parts, [
    "Mr. Hill paid 3.50 to J. R. Tolkien.",
    "“Go!” he said.",
    "Then … nothing.",
    "終わり。",
    "はい",
  ]);
  assert.equal(sentenceEnd("A heading\n\nText.", 0), 9);
  assert.equal(sentenceEnd("no mark", 2), 7);
});

test("a cut never ends in a space, inside a pair of surrogates or inside a character", () => {
  const pieces = ["a", "é", " ", "  ", "\n", "🙂", "👩‍👩‍👧", "🇩🇪🇫🇷", "n\u0303", "\u00a0", "漢"];
  const next = random(3);
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: 20 }, () => pieces[Math.floor(next() * pieces.length)]).join("");
    const whole = new Set(
      [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)].map((s) => s.index),
    );
    for (let at = 0; at <= text.length; at++) {
      const boundary = onBoundary(text, at);
      assert.ok(whole.has(boundary) || boundary === text.length, JSON.stringify([text, at, boundary]));
      const cut = trimCut(text, at);
      assert.ok(cut <= at && !/[^\S\n]$/u.test(text.slice(0, cut)));
    }
  }
});

test("characters are counted as the server counts them", () => {
  const text = "a🙂é漢👩‍👧 z";
  for (let at = 0; at <= text.length; at++) {
    const splits = /[\ud800-\udbff]$/.test(text.slice(0, at));
    if (!splits) assert.equal(codePoints(text, at), [...text.slice(0, at)].length);
  }
});

test("a text without a space costs no more at its end than at its beginning", () => {
  const text = "x".repeat(100_000);
  for (const at of [0, 50_000, 99_999]) {
    const end = wordEndAt(text, at);
    assert.ok(end > at && end <= text.length);
  }
  assert.equal(trimCut(text, 60_000), 60_000);
});

test("a place stands in the sentence around it, which begins behind the one before", () => {
  const text = "One lamp. Mr. Brown lit it!\n\n“Who?” she said. No end";
  const of = (at) => text.slice(sentenceAt(text, at).from, sentenceAt(text, at).to);
  assert.equal(of(0), "One lamp.");
  assert.equal(of(4), "One lamp.");
  assert.equal(of(text.indexOf("Brown")), "Mr. Brown lit it!");
  assert.equal(of(text.indexOf("she")), "“Who?” she said.");
  assert.equal(of(text.length), "No end");
  const long = "word ".repeat(5000);
  assert.deepEqual(sentenceAt(long, 20_000), { from: 19_000, to: long.length });
});
