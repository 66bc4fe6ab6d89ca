/** Questions about the story. Short readers answer them from what a round would read, so that only the question is new to the model; neither
 * question nor answers are ever a part of the text. */

import { sentenceEnd } from "../cuts.js";
import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { forTemplate } from "../prompt.js";
import { stretch } from "../reading.js";
import { written } from "./following.js";
import { gapAt } from "./gap.js";

/** @typedef {import("./rounds.js").Rounds} Rounds */
/** @typedef {import("./voices.js").Voice} Voice */
/** @typedef {{number: number, node: string | null, line: string, votes: number}} Doubt   a card that seems to contradict a line; so many readers say so */
/** @typedef {{prompt: string, blocks: import("../reading.js").Block[]}} Known */

const LENGTH = 80; // tokens of an answer
const TEMPERATURE = 0.7; // readers who are sure say the same, others do not
const VERDICT = 160; // tokens: a line, and what it is found to be
export const CHECKERS = 3; // readers of each card
const AGREED = 2; // of them, for a doubt
const LINES = 24; // of which a reader names one
const LONGEST = 300; // characters of a line
const KNOWN = ["memory", "lore", "summary", "text"]; // what a card may contradict
const REPLY = "srb-text-so-far"; // where the text stands in the template
const QUESTION =
  "Answer a question about the story above from what it says alone, in one short sentence, in the language of the question. If the story does not say it, say so.\n\nThe question: ";

/** Whether a model takes questions: by its chat template. @param {import("./server_watch.js").Server} server */
export const takesQuestions = (server) => server.chat_template === true;

/**
 * Let readers answer a question about the text up to the caret.
 * @param {Rounds} rounds @param {string} question @param {{n: number, signal: AbortSignal, heard: (answers: string[]) => void}} options
 */
export async function askStory(rounds, question, { n, signal, heard }) {
  const { desk } = rounds;
  const { at } = gapAt(desk.text, desk.manuscript?.caret() ?? desk.text.length);
  const voice = rounds.voices.of("");
  const { prompt } = await knownAt(voice, desk.text.slice(0, at));
  const tail = await tailOf(desk, voice, QUESTION + question);
  return answersTo(desk, voice, prompt + tail, { n, max_tokens: LENGTH, signal, heard });
}

/**
 * Let readers find out which of the shown cards contradict what stands before them; `heard` gets how many have been read.
 * @param {Rounds} rounds @param {{signal: AbortSignal, heard: (read: number, all: number) => void}} options @returns {Promise<Doubt[]>}
 */
export async function doubtsOfCards(rounds, { signal, heard }) {
  const { desk, shown } = rounds;
  if (!shown) return [];
  const { round } = shown;
  const voice = rounds.voices.of("");
  const before = desk.story.text(round.base.node, round.keep);
  const { prompt, blocks } = await knownAt(voice, before);
  const lore = entriesIn(blocks);
  const cards = written(round, before);
  /** @type {Doubt[]} */
  const doubts = [];
  for (const [read, { number, text }] of cards.entries()) {
    heard(read, cards.length);
    const called = (await loreAt(voice, before + text)).filter((entry) => !lore.includes(entry));
    const lines = linesNear(text, [...blocks, called.map((entry) => stretch("lore", entry))]);
    if (!lines.length) continue;
    const tail = await tailOf(desk, voice, checkOf(text, called));
    const options = { n: CHECKERS, max_tokens: VERDICT, signal, json_schema: verdictOf(lines) };
    const line = agreedIn(await answersTo(desk, voice, prompt + text + tail, options));
    if (line) doubts.push({ number, node: round.slots[number].node, ...line });
  }
  round.doubts = new Map(doubts.flatMap(({ node, line }) => (node === null ? [] : [[node, line]])));
  rounds.round(shown, null);
  return doubts;
}

// ---- What is read

/** What a round would read behind a text. @param {Voice} voice @param {string} text @returns {Promise<Known>} */
async function knownAt({ asked, context }, text) {
  if (!takesQuestions(asked.server))
    throw new Error(msg`This model only writes on, and answers no questions: it has no chat template.`);
  if (!withoutMarkers(text).trim()) throw new Error(msg`There is no text yet that could be asked about.`);
  return context.prepare(text);
}

/** The lorebook's entries that a round would read behind a text. @param {Voice} voice @param {string} text */
const loreAt = async (voice, text) => entriesIn((await knownAt(voice, text)).blocks);

/** The lines of the lorebook's entries. @param {import("../reading.js").Block[]} blocks */
const entriesIn = (blocks) =>
  blocks.flat().flatMap(({ origin, text }) => (origin === "lore" ? text.trim().split(/\n+/u) : []));

/** The template's words behind a text that was a reply, with a question. @param {import("../desk.js").Desk} desk @param {Voice} voice @param {string} content */
async function tailOf({ api }, { asked }, content) {
  const messages = [
    { role: "user", content: "Write." },
    { role: "assistant", content: REPLY },
    { role: "user", content },
  ];
  const { prompt } = await api.post("apply-template", { messages, ...forTemplate(asked.settings) });
  const at = prompt.lastIndexOf(REPLY);
  if (at < 0) throw new Error(msg`The template of this model has no place for a question behind a text.`);
  return prompt.slice(at + REPLY.length);
}

/**
 * @param {import("../desk.js").Desk} desk @param {Voice} voice @param {string} prompt
 * @param {{n: number, max_tokens: number, signal: AbortSignal, heard?: (answers: string[]) => void, json_schema?: object}} options
 * @returns {Promise<string[]>}
 */
async function answersTo({ api, story }, { asked, context, fields }, prompt, { signal, heard = () => {}, ...options }) {
  const { model } = asked.settings;
  const more = { ...(model ? { model } : {}), ...fields, session: story.id, temperature: TEMPERATURE };
  const body = { ...more, ...options, prompt: context.media.field(prompt) };
  const answers = Array.from({ length: options.n }, () => "");
  /** @param {any[]} events */
  const onevents = (events) => {
    for (const { event, index, text, message } of events) {
      if (event === "error") throw new Error(message);
      if (event === "stream") answers[index] += text;
    }
    heard(answers);
  };
  await api.stream("POST", "v1/srb/completions", body, { signal, onevents });
  return answers;
}

// ---- Contradictions

/** @param {string} card @param {string[]} called entries of the lorebook that only the card calls up */
const checkOf = (card, called) =>
  `${called.length ? `This holds in the story, too:\n\n${called.join("\n")}\n\n` : ""}Compare this part of the story with what stands before it:\n\n${card.trim()}\n\nQuote the earlier line that it has most to do with, word for word. Then say whether the part agrees with that line or contradicts it.`;

/** @param {string[]} lines */
const verdictOf = (lines) => ({
  type: "object",
  properties: { line: { enum: lines }, part: { enum: ["agrees", "contradicts"] } },
  required: ["line", "part"],
  additionalProperties: false,
});

/** The line that enough readers say is contradicted; null without one. @param {string[]} answers */
export function agreedIn(answers) {
  const named = answers.map(contradictedIn).filter((line) => line !== "");
  if (named.length < AGREED) return null;
  const votes = (/** @type {string} */ line) => named.filter((each) => each === line).length;
  return { line: named.reduce((most, line) => (votes(line) > votes(most) ? line : most)), votes: named.length };
}

/** @param {string} answer of a reader @returns {string} the line that it says is contradicted; "" if it says so of none, or was cut off */
function contradictedIn(answer) {
  try {
    const { line, part } = JSON.parse(answer);
    return part === "contradicts" ? `${line}` : "";
  } catch {
    return "";
  }
}

/**
 * The lines of what the model knows that have most words in common with a card, of equal ones those that stand later.
 * @param {string} card @param {import("../reading.js").Block[]} blocks
 */
export function linesNear(card, blocks) {
  const own = wordsOf(card);
  const known = blocks.flat().filter(({ origin }) => KNOWN.includes(origin));
  const lines = [...new Set(known.flatMap(({ text }) => linesOf(text)).reverse())];
  const common = new Map(lines.map((line) => [line, [...wordsOf(line)].filter((word) => own.has(word)).length]));
  const near = (/** @type {string} */ line) => common.get(line) ?? 0;
  return lines.sort((a, b) => near(b) - near(a)).slice(0, LINES);
}

/** The sentences of a text, each in one line. @param {string} text */
function linesOf(text) {
  const lines = [];
  const plain = withoutMarkers(text);
  for (let at = 0; at < plain.length; ) {
    const end = Math.max(at + 1, sentenceEnd(plain, at));
    const line = plain
      .slice(at, end)
      .replace(/\s+/gu, " ")
      .replace(/^[ [\]]+|[ [\]]+$/gu, ""); // notes stand in brackets
    if (/\p{L}/u.test(line)) lines.push(line.slice(0, LONGEST));
    at = end;
  }
  return lines;
}

/** The words that tell what a text is about. @param {string} text */
const wordsOf = (text) => new Set(text.toLocaleLowerCase().match(/[\p{L}\p{N}]{4,}/gu) ?? []);
