import assert from "node:assert/strict";
import { test } from "node:test";

import { choose, restingOf } from "../../../srb/page/lore/choice.js";
import { entriesOf, entryOf, faultOfEntry, MOST } from "../../../srb/page/lore/entries.js";
import { Keywords, lastWords } from "../../../srb/page/lore/keywords.js";
import { planPrompt } from "../../../srb/page/prompt.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";

const entry = (id, fields) => ({ ...entryOf({ text: `About ${id}.`, ...fields }), id });

/** Whether a text asks for an entry with these keywords. */
const asks = (text, keys, more = {}) => new Keywords([entry("e", { keys, ...more })]).in(text).has("e");

for (const [name, text, key, is, more] of [
  ["a whole word", "Tom came.", "Tom", true],
  ["a word at the text's edge", "so did Tom", "Tom", true],
  ["a part of a word", "Tomorrow, an atom", "tom", false],
  ["a word with a digit behind it", "Tom2 went", "Tom", false],
  ["a word with a mark on its last letter", "cafe\u0301 noir", "cafe", false],
  ["a possessive", "Tom’s boat", "Tom", true],
  ["an apostrophe of the other kind", "O’Brien", "O'Brien", true],
  ["another case", "TOM!", "tom", true],
  ["another case, where capitals count", "the hope of Hope", "HOPE", false, { cased: true }],
  ["the same case, where capitals count", "the hope of Hope", "Hope", true, { cased: true }],
  ["capitals of two letters", "STRASSE und Straße", "straße", true],
  ["several words over a line's end", "the old\n mill", "old mill", true],
  ["composed and decomposed letters", "Zoe\u0308 came", "Zo\u00eb", true],
  ["a name within Japanese", "昔々、灯台守がいた。", "灯台", true],
  ["one character of Chinese", "他去了山上", "山", true],
  ["a Latin name in Japanese", "東京でTomは言った", "Tom", true],
  ["a part of a Latin word in Japanese", "東京でTommyは言った", "Tom", false],
  ["Thai, which has no spaces", "ฉันรักแมวมาก", "แมว", true],
  ["a keyword of signs", "it cost $$$ then", "$$$", true],
  ["a letter beyond the first plane", "the 𝔗𝔬𝔪 sign", "𝔗𝔬𝔪", true],
  ["a part of such a word", "the 𝔗𝔬𝔪𝔶 sign", "𝔗𝔬𝔪", false],
  ["an expression, which is words here", "Tom", "T.m", false],
  ["no keyword", "anything", " ", false],
])
  test(`a keyword is found or not: ${name}`, () => assert.equal(asks(text, [key], more), is));

for (const [rule, text, is] of [
  ["any", "Tom and the mill", true],
  ["any", "Tom", false],
  ["any", "the mill", false],
  ["all", "Tom and the mill", false],
  ["all", "Tom, the mill, the sea", true],
  ["none", "Tom", true],
  ["none", "Tom at sea", false],
  ["not all", "Tom at sea", true],
  ["not all", "Tom, the mill, the sea", false],
])
  test(`second keywords: ${rule} in “${text}” is ${is}`, () =>
    assert.equal(asks(text, ["Tom"], { others: ["mill", "sea"], rule }), is));

test("an entry that is off, or has no text, is never asked for", () => {
  assert.equal(asks("Tom", ["Tom"], { off: true }), false);
  assert.equal(asks("Tom", ["Tom"], { text: " " }), false);
});

test("the last words of a text are found from its end, in bounded work", () => {
  const text = "one two  three\nfour ";
  assert.equal(text.slice(lastWords(text, text.length, 2)), "three\nfour ");
  assert.equal(lastWords(text, text.length, 99), 0);
  assert.equal(lastWords("灯".repeat(1000), 1000, 10), 880);
});

test("work does not grow with the number of keywords that begin alike", () => {
  const many = Array.from({ length: 2000 }, (_, index) =>
    entry(`e${index}`, { keys: Array.from({ length: MOST.keys }, (_each, key) => `aaaa${index} ${key}`) }),
  );
  const keywords = new Keywords(many);
  const lengths = [...keywords.folded.values()].map((each) => each.size);
  assert.ok(Math.max(...lengths) <= MOST.key, "a place of the text is looked at once for each length");
  assert.deepEqual([...keywords.in(`${"aaaa ".repeat(2000)} aaaa7 3`)], [["e7", "aaaa7 3"]]);
});

// ---- What goes into a prompt, and where

const SETTINGS = { n: 8, max_tokens: 128, mode: "text" };
const line = (index, more = "") => `This is line ${index} of the story, in which not much happens${more}.`;
const prose = (from, to, more) => Array.from({ length: to - from }, (_, at) => line(from + at, more)).join("\n\n");

/** The prompts of a text that grows, as the desk makes them. */
class Rounds {
  resting = null;

  constructor(entries, { words = 100, room = 10_000 } = {}) {
    this.given = { keywords: new Keywords(entries), words, room };
  }

  prompt(text) {
    const choice = choose({ ...this.given, text, resting: this.resting });
    const plan = planPrompt({ text, lore: choice.lore, settings: SETTINGS, n_ctx: 8192 });
    this.resting = restingOf(choice, text, plan.loreAt);
    this.choice = choice;
    return plan.prompt;
  }
}

const common = (a, b) => {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
};

test("what is always read stands before the text, the rest in brackets before its last paragraphs", () => {
  const text = `${prose(0, 60)}\n\nTom came.`;
  const rounds = new Rounds([
    entry("world", { always: true, text: "An island." }),
    entry("tom", { keys: ["Tom"], text: "Tom is old." }),
    entry("mara", { keys: ["Mara"] }),
  ]);
  const prompt = rounds.prompt(text);
  assert.ok(prompt.startsWith(`An island.\n\n${line(0)}`));
  const at = prompt.indexOf("\n\n[Tom is old.]\n\n");
  assert.ok(at > 0 && prompt.length - at > 1000 && prompt.length - at < 1500, `${prompt.length - at}`);
  assert.equal(prompt.replace("An island.\n\n", "").replace("[Tom is old.]\n\n", ""), text);
  assert.deepEqual(
    rounds.choice.used.map(({ id }) => id),
    ["world", "tom"],
  );
});

test("entries rest where they are while the text grows, and all before its end stays known", () => {
  const rounds = new Rounds([entry("tom", { keys: ["Tom"] })]);
  let text = `${prose(0, 60)}\n\nTom came.`;
  let last = rounds.prompt(text);
  for (let index = 60; index < 90; index += 1) {
    text += `\n\n${line(index)}`;
    const next = rounds.prompt(text);
    assert.equal(common(last, next), last.length, `round ${index}`);
    last = next;
  }
  assert.equal(rounds.choice.asked.size, 0, "the text has not spoken of Tom for long");
  assert.ok(last.includes("[About tom.]"));
});

test("another entry, or much text behind them, moves entries, and those that nobody asks for go", () => {
  const rounds = new Rounds([entry("tom", { keys: ["Tom"] }), entry("mara", { keys: ["Mara"] })]);
  const first = `${prose(0, 60)}\n\nTom came.`;
  rounds.prompt(first);
  const later = `${first}\n\n${prose(60, 70)}`;
  rounds.prompt(later);
  const both = rounds.prompt(`${later} Mara!`);
  assert.match(both, /\[About mara\.\]\n\n/);
  assert.doesNotMatch(both, /About tom/, "Tom is not in the last hundred words");
  assert.ok(both.length - both.indexOf("[About mara.]") < 1500);
  const far = rounds.prompt(`${later} Mara!\n\n${prose(70, 140)}\n\nMara.`);
  assert.ok(far.length - far.indexOf("[About mara.]") < 1500);
});

test("an entry that is changed, switched off or taken away is not read as it was", () => {
  const tom = entry("tom", { keys: ["Tom"] });
  const text = `${prose(0, 60)}\n\nTom came.`;
  for (const [change, wanted] of [
    [{ text: "Tom is young." }, "[Tom is young.]"],
    [{ off: true }, null],
  ]) {
    const rounds = new Rounds([tom]);
    rounds.prompt(text);
    rounds.given.keywords = new Keywords([{ ...tom, ...change }]);
    const prompt = rounds.prompt(`${text}\n\n${line(60)}`);
    assert.ok(!prompt.includes("About tom"));
    assert.ok(wanted === null || prompt.includes(wanted));
  }
});

test("where not all fit, the higher order goes first, and what is left out is told", () => {
  const entries = [
    entry("tom", { keys: ["Tom"], order: 300, text: "t".repeat(60) }),
    entry("mara", { keys: ["Mara"], order: 200, text: "m".repeat(60) }),
    entry("osk", { keys: ["Osk"], order: 100, text: "o".repeat(10) }),
  ];
  const rounds = new Rounds(entries, { room: 100 });
  const prompt = rounds.prompt("Osk, Mara and Tom.\n\nThey came.");
  assert.deepEqual(
    rounds.choice.used.map(({ id }) => id),
    ["tom", "osk"],
  );
  assert.deepEqual(
    rounds.choice.left.map(({ id }) => id),
    ["mara"],
  );
  assert.ok(prompt.indexOf("[oooo") < prompt.indexOf("[tttt"), "the highest order stands nearest to the end");
});

test("lorebook and note stand each at their own place, the note behind at the same one", () => {
  const lore = { before: "", within: "[Lore.]", placeIn: () => 6 };
  const plan = (depth) =>
    planPrompt({ text: "One.\n\nTwo.\n\nThree.", lore, note: { text: "[N.]", depth }, settings: SETTINGS, n_ctx: 8192 })
      .prompt;
  assert.equal(plan(1), "One.\n\n[Lore.]\n\nTwo.\n\n[N.]\n\nThree.");
  assert.equal(plan(2), "One.\n\n[Lore.]\n\n[N.]\n\nTwo.\n\nThree.");
  assert.equal(plan(3), "[N.]\n\nOne.\n\n[Lore.]\n\nTwo.\n\nThree.");
});

test("a prompt with a large lorebook, a memory and a note still fits", () => {
  const rounds = new Rounds([entry("tom", { keys: ["line"], text: "word ".repeat(400) })], { room: 3.5 * 1024 });
  const text = prose(0, 2000);
  const choice = choose({ ...rounds.given, text });
  const given = {
    text,
    memory: "m ".repeat(300),
    note: { text: "n", depth: 3 },
    lore: choice.lore,
    settings: SETTINGS,
  };
  const { prompt, parts } = planPrompt({ ...given, n_ctx: 4096 });
  assert.ok(prompt.length <= (4096 - 1024) * 3.5);
  assert.equal(parts.find(({ kind }) => kind === "lore").characters, choice.lore.within.length);
  assert.ok(prompt.includes(choice.lore.within));
});

// ---- In a story

test("entries are values of the story by themselves, and two windows that change two of them are merged", () => {
  const story = Story.create("Fog");
  story.setMeta("lore.a", entryOf({ keys: ["Tom"], text: "old" }), 1);
  story.setMeta("lore.b", entryOf({ keys: ["Mara"], text: "old" }), 1);
  const other = new Story(story.id);
  other.merge(story.wire());
  other.takeChanges();
  story.takeChanges();
  story.setMeta("lore.a", entryOf({ keys: ["Tom"], text: "new" }), 5);
  other.setMeta("lore.b", null, 6);
  const [mine, theirs] = [story.takeChanges(), other.takeChanges()];
  story.merge(theirs);
  other.merge(mine);
  for (const each of [story, other])
    assert.deepEqual(
      entriesOf(each).map(({ id, text }) => [id, text]),
      [["a", "new"]],
    );
  assert.deepEqual(entriesOf(storyOf(story.toJSON())), entriesOf(story));
});

test("a value that is no entry is passed over, and in a file it is refused by its field's name", () => {
  const story = Story.create();
  story.setMeta("lore.a", { keys: "Tom", text: "x" });
  story.setMeta("lore.b", entryOf({ text: "fine" }));
  assert.deepEqual(
    entriesOf(story).map(({ id }) => id),
    ["b"],
  );
  assert.throws(() => storyOf(story.toJSON()), /The story's “lore\.a”: “keys” is not a list of texts\./);
});

for (const [value, says] of [
  [[], /is not an object/],
  [{ name: 1 }, /“name” is not a text/],
  [{ text: "x".repeat(MOST.text + 1) }, /“text” has 20001 characters; it may have 20000/],
  [{ keys: [1] }, /“keys” is not a list of texts/],
  [{ keys: Array(MOST.keys + 1).fill("a") }, /“keys” has 65 keywords; it may have 64/],
  [{ others: ["x".repeat(MOST.key + 1)] }, /a keyword of “others” has 121 characters/],
  [{ always: 1 }, /“always” is neither true nor false/],
  [{ order: Number.NaN }, /“order” is not a number/],
  [{ order: "1" }, /“order” is not a number/],
  [{ rule: "some" }, /“rule” is none of any, all, none, not all/],
])
  test(`an entry is checked: ${says.source}`, () => assert.match(faultOfEntry(value, "Entry 1"), says));
