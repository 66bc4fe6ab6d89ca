import assert from "node:assert/strict";
import { test } from "node:test";

import { FIRST_RATE, learnRate, planPrompt, straightened, trimmedLength } from "../../../srb/page/prompt.js";

const SETTINGS = { n: 8, max_tokens: 128, mode: "text" };
const ROOMY = { settings: SETTINGS, n_ctx: 1_000_000 };

/** Numbers from 0 up to 1 that are the same in every run. */
function numbers(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A text of paragraphs of random lengths. */
function prose(random, length) {
  let text = "";
  while (text.length < length) {
    const words = Array.from({ length: 5 + Math.floor(random() * 120) }, () =>
      "abcdefghij".slice(Math.floor(random() * 9)),
    );
    text += `${words.join(" ")}.\n\n`;
  }
  return text;
}

const characters = (plan, kind) => plan.parts.find((each) => each.kind === kind).characters;

test("a short story is sent as it is written, without spaces at its end and with its line ends", () => {
  const plan = planPrompt({ text: "Once.\n\nUpon a time, \t", ...ROOMY });
  assert.equal(plan.prompt, "Once.\n\nUpon a time,");
  assert.equal(plan.keep, plan.prompt.length);
  assert.equal(plan.cut, null);
  assert.equal(planPrompt({ text: "The end.\n\n", ...ROOMY }).prompt, "The end.\n\n");
  assert.equal(trimmedLength("  "), 0);
});

test("memory stands before the story, and the note before the paragraphs that its depth counts", () => {
  const text = "One.\n\nTwo.\n\nThree.\n\nFour, and";
  const plan = (depth) =>
    planPrompt({ text, memory: "Dora keeps the light.\n", note: { text: "[Sad.]", depth }, ...ROOMY });
  assert.equal(plan(1).prompt, "Dora keeps the light.\n\nOne.\n\nTwo.\n\nThree.\n\n[Sad.]\n\nFour, and");
  assert.equal(plan(3).prompt, "Dora keeps the light.\n\nOne.\n\n[Sad.]\n\nTwo.\n\nThree.\n\nFour, and");
  assert.equal(plan(9).prompt, "Dora keeps the light.\n\n[Sad.]\n\nOne.\n\nTwo.\n\nThree.\n\nFour, and");
});

for (const [name, note, sent] of [
  ["in brackets by default", { text: " Sad. " }, "[Author's note: Sad.]"],
  ["in its own brackets alone", { text: "[Sad.]" }, "[Sad.]"],
  ["in a frame of the story's own", { text: "[Sad.]", frame: "<< <|> >>" }, "<< [Sad.] >>"],
  ["with its signs of replacement", { text: "$& $1", frame: "(<|>)" }, "($& $1)"],
  ["bare in an empty frame", { text: "Sad.", frame: "" }, "Sad."],
  ["bare in a frame without its place", { text: "Sad.", frame: "[Note]" }, "Sad."],
])
  test(`a note is sent ${name}`, () => {
    const plan = planPrompt({ text: "One.\n\nTwo.", note: { depth: 1, ...note }, ...ROOMY });
    assert.equal(plan.prompt, `One.\n\n${sent}\n\nTwo.`);
    const { characters, cut } = plan.parts.find(({ kind }) => kind === "note");
    assert.deepEqual([characters, cut], [sent.length, 0]);
  });

test("no note has no frame, and a note that is too long is cut within it", () => {
  assert.equal(planPrompt({ text: "One.", note: { text: " ", depth: 1 }, ...ROOMY }).prompt, "One.");
  const note = { text: "sad and slow ".repeat(3000), depth: 1 };
  const { prompt, parts } = planPrompt({ text: "One.\n\nTwo.", note, settings: SETTINGS, n_ctx: 4096 });
  const [, sent] = /(\[Author's note: (?:sad and slow )+sad[^\]]*\])\n\nTwo\.$/.exec(prompt);
  const { characters, cut } = parts.find(({ kind }) => kind === "note");
  assert.deepEqual(
    [characters, cut],
    [sent.length, "[Author's note: ]".length + note.text.trim().length - sent.length],
  );
});

test("a note between single lines takes one line", () => {
  const plan = planPrompt({ text: "One.\nTwo.\nThree", note: { text: "[Sad.]", depth: 1 }, ...ROOMY });
  assert.equal(plan.prompt, "One.\nTwo.\n[Sad.]\nThree");
});

test("a chat has system prompt and memory, the instruction, and the story as the answer's beginning", () => {
  const settings = { ...SETTINGS, mode: "chat", system: "You write prose.", instruction: "Go on." };
  const plan = planPrompt({ text: "Once upon ", memory: "Dora.", settings, n_ctx: 8192 });
  assert.equal(plan.prompt, null);
  assert.deepEqual(plan.template.messages, [
    { role: "system", content: "You write prose.\n\nDora." },
    { role: "user", content: "Go on." },
    { role: "assistant", content: "Once upon" },
  ]);
  assert.equal(plan.template.continue_final_message, true);
});

test("a chat without a story, a system prompt and an instruction asks the model to continue", () => {
  const plan = planPrompt({
    text: "",
    settings: { ...SETTINGS, mode: "chat", system: "", instruction: " " },
    n_ctx: 8192,
  });
  assert.deepEqual(plan.template.messages, [{ role: "user", content: "Continue the story." }]);
  assert.equal(plan.template.continue_final_message, undefined);
});

test("a long story is cut where a paragraph begins, and memory and note stay whole", () => {
  const text = prose(numbers(1), 60_000);
  const memory = "Dora keeps the light. ".repeat(20).trim();
  const plan = planPrompt({ text, memory, note: { text: "[Sad.]", depth: 2 }, settings: SETTINGS, n_ctx: 4096 });
  assert.ok(plan.prompt.startsWith(`${memory}\n\n${text.slice(plan.cut.at, plan.cut.at + 50)}`));
  assert.equal(text.slice(plan.cut.at - 2, plan.cut.at), "\n\n");
  assert.equal(plan.cut.characters, plan.cut.at);
  assert.ok(plan.prompt.includes("[Sad.]"));
  assert.equal(plan.parts.find((each) => each.kind === "memory").cut, 0);
});

test("while a story grows, its cut moves rarely, by about a quarter of the room, and the prompt always fits", () => {
  const random = numbers(2);
  const n_ctx = 4096;
  const room = 8 * 128;
  const most = (n_ctx - room) * FIRST_RATE;
  const book = prose(random, 120_000);
  let text = "";
  let cut = null;
  const moves = [];
  let rounds = 0;
  for (; text.length < book.length - 2; rounds += 1) {
    text = book.slice(0, text.length + 20 + Math.floor(random() * 300)).trimEnd();
    const plan = planPrompt({ text, settings: SETTINGS, n_ctx, cut });
    assert.ok(plan.prompt.length <= most, `${plan.prompt.length} characters`);
    assert.ok(text.endsWith(plan.prompt));
    if ((plan.cut?.at ?? 0) !== (cut?.at ?? 0)) {
      moves.push(plan.cut.at - (cut?.at ?? 0));
    }
    cut = plan.cut;
  }
  assert.ok(
    moves.every((by) => by > most / 5 && by < most * 0.6),
    moves.join(),
  );
  assert.ok(moves.length < rounds / 12, `${moves.length} moves in ${rounds} rounds`);
});

test("the cut stays when the last paragraphs are undone, and when words before it are changed", () => {
  const text = prose(numbers(3), 60_000);
  const { cut } = planPrompt({ text, settings: SETTINGS, n_ctx: 4096 });
  const shorter = planPrompt({ text: text.slice(0, -2000), settings: SETTINGS, n_ctx: 4096, cut });
  assert.equal(shorter.cut.at, cut.at);
  const edited = planPrompt({ text: `A new beginning. ${text}`, settings: SETTINGS, n_ctx: 4096, cut });
  assert.equal(edited.cut.at, cut.at + "A new beginning. ".length);
  assert.equal(edited.prompt, text.slice(cut.at));
});

test("a cut that is not needed any more goes away", () => {
  const text = prose(numbers(4), 60_000);
  const { cut } = planPrompt({ text, settings: SETTINGS, n_ctx: 4096 });
  assert.equal(planPrompt({ text, settings: SETTINGS, n_ctx: 100_000, cut }).cut, null);
  const early = text.slice(0, 5000).trim();
  assert.equal(planPrompt({ text: early, settings: SETTINGS, n_ctx: 4096, cut }).prompt, early);
});

test("a text without paragraphs, sentences or spaces is cut between characters, never inside a pair", () => {
  for (const size of [4096, 4097, 4098, 4099]) {
    const plan = planPrompt({ text: "\u{1F56F}".repeat(30_000), settings: SETTINGS, n_ctx: size });
    assert.equal(plan.cut.at % 2, 0);
    assert.ok(plan.prompt.startsWith("\u{1F56F}"));
  }
  const words = planPrompt({ text: "word ".repeat(20_000), settings: SETTINGS, n_ctx: 4096 });
  assert.ok(words.prompt.startsWith("word word"));
});

test("a memory that is longer than the context leaves a quarter to the story, and says what it lost", () => {
  const text = prose(numbers(5), 40_000);
  const plan = planPrompt({ text, memory: "word ".repeat(10_000), settings: SETTINGS, n_ctx: 4096 });
  const memory = plan.parts.find((each) => each.kind === "memory");
  assert.ok(memory.characters > 0 && memory.cut > 0);
  assert.ok(characters(plan, "story") > 1000);
  assert.ok(plan.prompt.length <= 4096 * FIRST_RATE);
  const short = planPrompt({ text: "Once", memory: "word ".repeat(10_000), settings: SETTINGS, n_ctx: 4096 });
  assert.ok(short.prompt.endsWith("\n\nOnce"));
});

test("the parts add up to the prompt and the room of the branches", () => {
  const plan = planPrompt({ text: "Once upon a time", memory: "Dora.", settings: SETTINGS, n_ctx: 8192, rate: 4 });
  assert.equal(characters(plan, "memory") + characters(plan, "story") + 2, plan.prompt.length);
  assert.equal(plan.parts.find((each) => each.kind === "story").tokens, 4);
  assert.equal(plan.parts.find((each) => each.kind === "room").tokens, 1024);
});

test("the branches' room is at most half of the context", () => {
  for (const max_tokens of [100_000, -1]) {
    const plan = planPrompt({ text: prose(numbers(6), 60_000), settings: { n: 64, max_tokens }, n_ctx: 4096 });
    assert.equal(plan.parts.find((each) => each.kind === "room").tokens, 2048);
    assert.ok(plan.prompt.length > 1000);
  }
});

test("characters per token are learned from counted prompts, from long ones at once", () => {
  assert.equal(learnRate(FIRST_RATE, 8000, 2000), 4);
  const little = learnRate(FIRST_RATE, 40, 20);
  assert.ok(little < FIRST_RATE && little > 3);
  assert.equal(learnRate(FIRST_RATE, 0, 0), FIRST_RATE);
  const text = prose(numbers(7), 60_000);
  const lengthAt = (rate) => planPrompt({ text, settings: SETTINGS, n_ctx: 4096, rate }).prompt.length;
  assert.ok(lengthAt(1) < 4096 && lengthAt(4) > 6000);
});

test("a picture that is not sent takes no room, and neither does its marker", () => {
  const marker = `![cat](srb:${"0".repeat(32)})`;
  const story = (/** @type {object} */ more) =>
    planPrompt({
      text: `${marker} there`,
      settings: SETTINGS,
      n_ctx: 8192,
      rate: 4,
      perMedium: 576,
      ...more,
    }).parts.find(({ kind }) => kind === "story").tokens;
  assert.equal(story({}), 576 + 2);
  assert.equal(story({ unsent: new Set([0]) }), 2);
  const text = `${marker}${prose(numbers(8), 8000)}`;
  const all = { text, settings: SETTINGS, n_ctx: 4096, perMedium: 2000 };
  assert.ok(planPrompt(all).cut.at >= marker.length);
  assert.equal(planPrompt({ ...all, unsent: new Set([0]) }).cut, null, "the words have its room");
});

test("characters that the vocabulary lacks are sent as plain ones, and those that it has as they are", () => {
  const story = "“It’s ‘here’,” she said — «là»… \u00a0é";
  assert.equal(straightened(story, ""), story);
  assert.equal(straightened(story, null), story);
  assert.equal(straightened(story, undefined), story);
  assert.equal(straightened(story, "“”„«»‘’‚–—…\u00a0"), '"It\'s \'here\'," she said - "là"...  é');
  assert.equal(straightened(story, "“"), story.replace("“", '"'));
  assert.equal(straightened("é", "é"), "é"); // nothing plain stands for it
});
