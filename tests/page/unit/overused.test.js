import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { patternOf } from "../../../srb/page/bans.js";
import { overusedIn } from "../../../srb/page/slop/overused.js";

const read = (/** @type {string} */ name) =>
  JSON.parse(readFileSync(new URL(`../../../srb/page/slop/${name}.json`, import.meta.url), "utf8"));
const ENGLISH = read("en");
const GERMAN = read("de");
const MODELS = read("models").map((/** @type {any} */ each) =>
  typeof each === "string" ? { line: each, words: each } : each,
);

/** A text of sentences of everyday words, each with its number, so that none comes twice. */
function plain(count, sentence = (number) => `They went to the house and saw it was number ${number}.`) {
  return Array.from({ length: count }, (_, number) => sentence(number));
}

const wordsOf = ({ words }) => words.map((each) => each.words);
const phrasesOf = ({ phrases }) => phrases.map((each) => each.words);

test("words that come oftener than in the language are told with both counts, those that come as often are not", () => {
  const sentences = plain(300, (number) => `She asked him for the ${number} and he gave it to them, suddenly or not.`);
  const found = overusedIn(sentences.join(" "), ENGLISH);
  assert.ok(wordsOf(found).includes("suddenly"));
  assert.ok(!wordsOf(found).includes("the"));
  const { count, expected } = found.words.find(({ words }) => words === "suddenly");
  assert.equal(count, 300);
  assert.ok(expected < 5);
});

test("phrases are found in their whole length, not across sentences, and none of plain words alone", () => {
  const sentences = plain(60, (number) => `He ${number} waited for a moment longer. ${number} out of the ${number}.`);
  const found = phrasesOf(overusedIn(sentences.join(" "), ENGLISH));
  assert.ok(found.includes("waited for a moment longer"));
  for (const part of ["for a moment", "waited for", "a moment longer"]) assert.ok(!found.includes(part), part);
  assert.ok(!found.includes("out of the"));
  assert.ok(found.every((phrase) => !phrase.includes("longer 1")));
});

test("of a sentence that comes again and again only the beginning is told", () => {
  const text = plain(
    9,
    (number) => `${number} silver rivers wander gently beneath crooked towers tonight ${number}.`,
  ).join(" ");
  assert.deepEqual(phrasesOf(overusedIn(text, ENGLISH)), ["silver rivers wander gently beneath"]);
});

test("a shorter phrase is told beside longer ones that come less often", () => {
  const sentences = plain(40, (number) => `${number} waited for a moment, ${number}.`);
  sentences.push(...plain(40, (number) => `${number} thought for a moment, ${number}.`));
  assert.ok(phrasesOf(overusedIn(sentences.join(" "), ENGLISH)).includes("for a moment"));
});

test("names are left out, and so is what only one part of the text is about", () => {
  const sentences = plain(400, (number) => `And then Marwenna went, ${number}.`);
  sentences.splice(100, 0, ...plain(9, (number) => `The portcullis, ${number}.`));
  const found = wordsOf(overusedIn(sentences.join(" "), ENGLISH));
  assert.ok(!found.includes("marwenna"));
  assert.ok(!found.includes("portcullis"));
});

test("in German, nouns with their capitals are words like others, and names are not", () => {
  const sentences = plain(
    200,
    (number) => `Er sah den Schatten im Haus und Marwenna lief plötzlich über den Hof, ${number}.`,
  );
  const found = wordsOf(overusedIn(sentences.join(" "), GERMAN));
  for (const word of ["schatten", "plötzlich"]) assert.ok(found.includes(word), word);
  assert.ok(!found.includes("marwenna"));
});

test("in a language without a list phrases are found, and an empty text has nothing", () => {
  const text = plain(30, (number) => `elle haussa les épaules, ${number}.`).join(" ");
  const found = overusedIn(text, null);
  assert.deepEqual(found.words, []);
  assert.ok(phrasesOf(found).includes("elle haussa les épaules"));
  assert.deepEqual(overusedIn("", ENGLISH, MODELS), { numWords: 0, words: [], phrases: [], models: [] });
});

test("what models overuse is counted by its patterns, however it is bent or its quotes are curled", () => {
  const text = "Her eyes glinted. It wasn’t just a testament to him: Shivers ran down. His eyes gleaming, her smirks.";
  const found = Object.fromEntries(overusedIn(text, ENGLISH, MODELS).models.map(({ words, count }) => [words, count]));
  assert.equal(found["eyes that glint, gleam, sparkle, twinkle"], 2);
  for (const words of ["a testament to", "it wasn’t just", "shivers ran down", "smirk*"])
    assert.equal(found[words], 1, words);
});

test("each line of the list is a pattern that fits the server's limits, and none is there twice", () => {
  const lines = MODELS.map(({ line }) => line);
  assert.equal(new Set(lines).size, lines.length);
  for (const line of lines) {
    const pattern = patternOf(line);
    assert.ok(pattern.length <= 256, line);
    assert.ok(!new RegExp(pattern, "iu").test(""), line);
  }
});

test("the lists of words fall in frequency and have each word once", () => {
  for (const { first, words } of [ENGLISH, GERMAN]) {
    const all = words.flatMap((each) => (each ? each.split(" ") : []));
    assert.equal(all.length, 14_000);
    assert.equal(new Set(all).size, all.length);
    assert.ok(first > 100 && first + words.length < 600);
  }
});
