/** Readings of rounds: what a model will read for the next one, and what it has read for the one whose cards are shown. */

import { straightened } from "../prompt.js";
import { readingOf } from "../reading.js";
import { gapAt } from "./gap.js";

/** @typedef {import("./rounds.js").Rounds} Rounds */
/** @typedef {import("../reading.js").Stretch} Stretch */
/**
 * @typedef {object} Reading
 * @property {readonly string[]} voices
 * @property {string} voice  whose reading it is
 * @property {Stretch[]} stretches
 * @property {boolean} isRemade  whether it is made from the story as it is now
 */

/** Return what a round at the caret would read. @param {Rounds} rounds @param {string} [wanted] of its voices @returns {Promise<Reading>} */
export async function readingOfNext(rounds, wanted) {
  const { text, manuscript } = rounds.desk;
  const { at, until } = gapAt(text, manuscript?.caret() ?? text.length);
  const voices = await rounds.voices.next();
  const { prompts } = await rounds.prepare(voices, { before: text.slice(0, at), behind: text.slice(until) }, {});
  return made(rounds, prompts, voices, wanted);
}

/** Return what the shown round has read; null without one. @param {Rounds} rounds @param {string} [wanted] @returns {Promise<Reading | null>} */
export async function readingOfShown(rounds, wanted) {
  const { shown, gestures } = rounds;
  if (!shown) return null;
  const { round } = shown;
  if (round.prompts === null) await gestures.makeReady(shown);
  const isRemade = round.isRemade || round.mended !== null;
  return { ...made(rounds, round.prompts ?? new Map(), round.voices, wanted), isRemade };
}

/**
 * @param {Rounds} rounds @param {import("../round.js").Prompts} prompts @param {readonly string[]} voices @param {string} [wanted]
 * @returns {Reading}
 */
function made(rounds, prompts, voices, wanted = "") {
  const voice = voices.includes(wanted) ? wanted : (voices[0] ?? "");
  const { lacks } = rounds.voices.of(voice).asked.server;
  const { prompt = "", blocks = [] } = prompts.get(voice) ?? {};
  const plain = blocks.map((block) => block.map((each) => ({ ...each, text: straightened(each.text, lacks) })));
  return { voices, voice, stretches: readingOf(straightened(prompt, lacks), plain), isRemade: false };
}
