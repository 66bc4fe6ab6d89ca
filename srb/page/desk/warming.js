/** Has the server compute the open story's text before its first round, behind all that anybody waits for. */

import { trimCut } from "../cuts.js";
import { markersOf } from "../markers.js";
import { FIRST_RATE } from "../prompt.js";
import { gapAt } from "./gap.js";

/** @typedef {import("./rounds.js").Rounds} Rounds */

const PATIENCE = 2000; // ms after which the header says that a text is made ready

/**
 * Return what the next round's prompt begins with: all of it, or what stands before its first picture or sound.
 * @param {Rounds} rounds @param {AbortSignal} signal
 */
async function beginning({ desk, context }, signal) {
  const { text, manuscript } = desk;
  const { at, until } = gapAt(text, manuscript?.caret() ?? text.length);
  const { prompt, template } = context.plan(text.slice(0, at), text.slice(until));
  const whole = prompt ?? (await desk.api.post("apply-template?autoload=false", template, { signal })).prompt;
  return /** @type {string} */ (whole).slice(0, markersOf(whole)[0]?.from);
}

/** Have the open story's text computed, for its own model. @param {Rounds} rounds @param {AbortSignal} signal */
export async function warm(rounds, signal) {
  const { desk, context } = rounds;
  const { n_ctx } = desk.server;
  let prompt = await beginning(rounds, signal);
  if (signal.aborted || !prompt.trim()) return;
  const sure = Math.floor(n_ctx / 2); // characters that fit in any language
  if (n_ctx && prompt.length > sure && context.rate === FIRST_RATE) {
    // Nobody knows yet how many tokens it has: its beginning tells how many there are to a character, by which the rest is cut.
    await compute(rounds, prompt.slice(0, trimCut(prompt, sure)), signal);
    prompt = await beginning(rounds, signal);
  }
  await compute(rounds, prompt, signal);
}

/** @param {Rounds} rounds @param {string} prompt @param {AbortSignal} signal */
async function compute(rounds, prompt, signal) {
  const { desk, context } = rounds;
  const { story, settings } = desk;
  const more = settings.model ? { model: settings.model } : {};
  const read = { prompt: context.media.field(prompt), session: story.id, return_progress: true };
  const body = { ...more, ...read, n: 1, max_tokens: 0, priority: 1 };
  let percent = 0;
  const tell = () => rounds.tellWarming(percent);
  let timer = window.setTimeout(() => {
    timer = 0;
    tell();
  }, PATIENCE);
  /** @param {any[]} events */
  const onevents = (events) => {
    for (const { event, processed, total, prompt_tokens } of events) {
      if (event === "start") context.learn(prompt, prompt_tokens);
      if (event === "prompt") percent = Math.floor((100 * processed) / Math.max(1, total));
    }
    if (!timer) tell();
  };
  try {
    await desk.api.stream("POST", "v1/srb/completions", body, { signal, onevents });
  } finally {
    clearTimeout(timer);
    rounds.tellWarming(null);
  }
}
