/** A model that summarizes: the beginning that it no longer reads, a part of the text after the other, each with the summary of all
 * before it, so that no request is longer than the context; or each chapter and scene in a line. */

import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { beginningAfter, forTemplate, straightened } from "../prompt.js";
import { beforeCaret } from "./beats.js";
import { NO_SUMMARY, summaryOf, summaryUpTo, toldOf } from "./summaries.js";
import { emptyBefore, LONGEST, setSynopsis, toldParts } from "./synopses.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{known: string, part: string, length: number}} Asked   the summary so far, what follows, and the tokens of the new summary */
/** @typedef {{content: string, draft: string[]}} Question   for a chat model, or a base model to go on with */

const LENGTH = 300; // tokens of a summary, and at most an eighth of the context
const LEAST = 200; // characters of a part: each takes the summary further
const KNOWN = 1 / 2; // of the characters that are summarized: more of the summary so far is left out
const SHARE = 0.7; // of the context that a request's prompt takes
const FRAME = 400; // characters around what is summarized
const MENDED = 3; // times that a prompt is made shorter: its length in tokens is an estimate until the server has counted one
const TASK =
  "in one paragraph of at most 150 words: who they are, what has happened, where they are now, and what is still open. Answer with the summary alone.";
const DRAFT = "[Summary of the story so far, in one paragraph]";
const LINE = 60; // tokens of a line on a part
const LINE_TASK =
  "Say in one short sentence, in the language of the story, what happens in this part of it. Answer with the sentence alone.";
const LINE_DRAFT = "[The part above, in one short sentence]";

/**
 * Write the summary up to where the model begins to read. Each part is kept as soon as it is told, so that a stop loses the last one
 * alone; together they are one step of undo.
 * @param {import("./rounds.js").Rounds} rounds
 * @param {{isAnew: boolean, signal: AbortSignal}} options `isAnew`: from the text's beginning
 */
export async function summarize(rounds, options) {
  const { desk } = rounds;
  const { story } = desk;
  const before = story.meta("summary");
  try {
    await writeParts(rounds, options);
  } finally {
    if (story === desk.story && story.meta("summary") !== before) desk.recordMeta("summary", before);
  }
}

/** @param {import("./rounds.js").Rounds} rounds @param {Parameters<typeof summarize>[1]} options */
async function writeParts({ desk, context }, { isAnew, signal }) {
  const { story } = desk;
  let summary = isAnew ? NO_SUMMARY : summaryOf(story);
  let tries = MENDED;
  for (;;) {
    const { text } = desk;
    const end = context.measure().cut;
    const from = toldOf(summary, text);
    if (from >= end || story !== desk.story) return;
    const { to, asked } = nextPart(context, { text, from, end, known: from > 0 ? summary.text : "" });
    const prompt = await promptOf(desk, summaryQuestion(asked), signal);
    try {
      const { told, tokens } = await answerTo(desk, prompt, asked.length, signal);
      context.learn(prompt, tokens);
      if (story !== desk.story) return; // another was opened meanwhile
      summary = summaryUpTo(told, text, to);
    } catch (error) {
      if (tries-- === 0) throw error;
      learnFrom(error, context, prompt);
      continue;
    }
    desk.setMeta("summary", summary);
  }
}

/** Learn how many tokens a prompt has that was too long: the next one is cut to what fits.
 * @param {any} error @param {import("./context.js").Context} context @param {string} prompt */
function learnFrom(error, context, prompt) {
  const { n_prompt_tokens: tokens } = error.body?.error ?? {};
  if (!tokens) throw error;
  context.learn(prompt, tokens);
}

/**
 * Write a line on each part before the one with the caret that has none. Each is kept as soon as it is written; together they are one
 * step of undo.
 * @param {import("./rounds.js").Rounds} rounds @param {AbortSignal} signal
 */
export async function writeLines({ desk, context }, signal) {
  const { story } = desk;
  /** @type {Map<string, unknown>} */
  const written = new Map();
  try {
    /** @type {Set<string>} */
    const read = new Set();
    for (let part = emptyPart(desk); part; part = emptyPart(desk)) {
      const words = desk.text.slice(part.at, part.end);
      if (read.has(words)) return; // it stands in the text twice
      read.add(words);
      const line = await lineOf(desk, context, words, signal);
      if (story !== desk.story) return; // another was opened meanwhile
      const now = toldParts(story, desk.head).find(({ at, end }) => desk.text.slice(at, end) === words);
      if (!now) continue; // its words were changed
      const key = setSynopsis(desk, now, line);
      written.set(key, story.meta(key));
    }
  } finally {
    if (written.size && story === desk.story) {
      const set = (/** @type {boolean} */ isThere) => {
        for (const [key, value] of written) desk.setMeta(key, isThere ? value : null);
      };
      desk.record(
        () => set(false),
        () => set(true),
      );
    }
  }
}

/** The first part without a line before the one with the caret. @param {Desk} desk */
const emptyPart = (desk) => emptyBefore(toldParts(desk.story, desk.head), beforeCaret(desk).at)[0];

/** @param {Desk} desk @param {import("./context.js").Context} context @param {string} words @param {AbortSignal} signal */
async function lineOf(desk, context, words, signal) {
  for (let tries = MENDED; ; tries -= 1) {
    const most = Math.max(LEAST, Math.floor(SHARE * (desk.server.n_ctx - LINE) * context.rate) - FRAME);
    const part = withoutMarkers(bothEnds(words.trim(), most));
    const question = { content: `${part}\n\n${LINE_TASK}`, draft: [part, `${LINE_DRAFT}\n\n`] };
    const prompt = await promptOf(desk, question, signal);
    try {
      const { told, tokens } = await answerTo(desk, prompt, LINE, signal);
      context.learn(prompt, tokens);
      const line = told.replace(/\s+/gu, " ").slice(0, LONGEST);
      return /^.*?[.!?…]["”’»)]*(?=\s|$)/u.exec(line)?.[0] ?? line;
    } catch (error) {
      if (tries === 0) throw error;
      learnFrom(error, context, prompt);
    }
  }
}

/** A text's beginning and its end, where it has more characters. @param {string} text @param {number} most */
function bothEnds(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  const from = text.length - half;
  return `${text.slice(0, half)} …\n\n${text.slice(beginningAfter(text, from, text.length))}`;
}

/**
 * Return where the next part ends, and what is asked of it.
 * @param {import("./context.js").Context} context @param {{text: string, from: number, end: number, known: string}} given
 * @returns {{to: number, asked: Asked}}
 */
function nextPart({ desk, rate }, { text, from, end, known }) {
  const { n_ctx } = desk.server;
  const length = Math.min(LENGTH, Math.floor(n_ctx / 8));
  const most = Math.floor(SHARE * (n_ctx - length) * rate) - FRAME; // characters, with those of the summary so far
  const kept = known.slice(0, Math.max(0, Math.min(KNOWN * most, most - LEAST)));
  const to = partEnd(text, from, end, Math.max(LEAST, most - kept.length));
  return { to, asked: { length, known: kept, part: withoutMarkers(text.slice(from, to)).trim() } };
}

/** Where a part ends: at a paragraph's end, if there is one. @param {string} text @param {number} from @param {number} end @param {number} most */
function partEnd(text, from, end, most) {
  if (end - from <= most) return end;
  return beginningAfter(text, from + Math.floor((3 * most) / 4), from + most);
}

/** @param {Desk} desk @param {Question} question @param {AbortSignal} signal @returns {Promise<string>} */
async function promptOf({ api, settings, server }, { content, draft }, signal) {
  if (!server.chat_template) return draft.join("\n\n");
  const messages = [{ role: "user", content }];
  return (await api.post("apply-template", { messages, ...forTemplate(settings) }, { signal })).prompt;
}

/** @param {Desk} desk @param {string} prompt @param {number} max_tokens @param {AbortSignal} signal */
async function answerTo({ api, settings, server }, prompt, max_tokens, signal) {
  const body = {
    ...(settings.model ? { model: settings.model } : {}),
    prompt: straightened(prompt, server.lacks),
    n: 1,
    max_tokens,
    temperature: 0.3,
    ...(server.chat_template ? {} : { stop_at: "paragraph" }), // behind it a base model would write the story on
    stream: false,
  };
  const { completions, usage } = await api.post("v1/srb/completions", body, { signal });
  const told = completions[0].text.trim();
  if (told === "") throw new Error(msg`The model has written no summary. Try again, or write one yourself.`);
  return { told, tokens: /** @type {number | undefined} */ (usage?.prompt_tokens) };
}

/** @param {Asked} asked @returns {Question} */
function summaryQuestion({ known, part }) {
  const content = known
    ? `This is a summary of a story so far:\n\n${known}\n\nThe story goes on:\n\n${part}\n\nSummarize all of it ${TASK}`
    : `This is the beginning of a story:\n\n${part}\n\nSummarize it ${TASK}`;
  return { content, draft: [...(known ? [`[The story so far: ${known}]`] : []), part, `${DRAFT}\n\n`] };
}
