/** A model that summarizes the beginning that it no longer reads: a part of the text after the other, each with the summary of all
 * before it, so that no request is longer than the context. */

import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { beginningAfter, forTemplate, straightened } from "../prompt.js";
import { NO_SUMMARY, summaryOf, summaryUpTo, toldOf } from "./summaries.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{known: string, part: string, length: number}} Asked   the summary so far, what follows, and the tokens of the new summary */

const LENGTH = 300; // tokens of a summary, and at most an eighth of the context
const LEAST = 200; // characters of a part: each takes the summary further
const KNOWN = 1 / 2; // of the characters that are summarized: more of the summary so far is left out
const SHARE = 0.7; // of the context that a request's prompt takes
const FRAME = 400; // characters around what is summarized
const MENDED = 3; // times that a prompt is made shorter: its length in tokens is an estimate until the server has counted one
const TASK =
  "in one paragraph of at most 150 words: who they are, what has happened, where they are now, and what is still open. Answer with the summary alone.";
const DRAFT = "[Summary of the story so far, in one paragraph]";

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
    const prompt = await promptOf(desk, asked, signal);
    try {
      const { told, tokens } = await answerTo(desk, prompt, asked.length, signal);
      context.learn(prompt, tokens);
      if (story !== desk.story) return; // another was opened meanwhile
      summary = summaryUpTo(told, text, to);
    } catch (error) {
      const { n_prompt_tokens: tokens } = /** @type {any} */ (error).body?.error ?? {};
      if (!tokens || tries-- === 0) throw error;
      context.learn(prompt, tokens); // the next one is cut to what fits
      continue;
    }
    desk.setMeta("summary", summary);
  }
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

/** @param {Desk} desk @param {Asked} asked @param {AbortSignal} signal @returns {Promise<string>} */
async function promptOf({ api, settings, server }, { known, part }, signal) {
  if (!server.chat_template)
    return [known && `[The story so far: ${known}]`, part, `${DRAFT}\n\n`].filter(Boolean).join("\n\n");
  const messages = messagesOf(known, part);
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

/** @param {string} known @param {string} part @returns {import("../prompt.js").Message[]} */
function messagesOf(known, part) {
  const content = known
    ? `This is a summary of a story so far:\n\n${known}\n\nThe story goes on:\n\n${part}\n\nSummarize all of it ${TASK}`
    : `This is the beginning of a story:\n\n${part}\n\nSummarize it ${TASK}`;
  return [{ role: "user", content }];
}
