/** How little the model expects each token of a text, behind what it would read for a round there. */

import { codePoints, unitsOf } from "../cuts.js";
import { withoutMarkers } from "../markers.js";
import { straightened } from "../prompt.js";

/** @typedef {{from: number, to: number, step: number}} Tint */
/** @typedef {{start: number, logprob: number | null}} Known   of a token: where it begins, in characters (code points) */

/**
 * @param {import("../desk.js").Desk} desk @param {string} before @param {string} text @param {AbortSignal} signal
 * @returns {Promise<Known[]>}
 */
export async function surpriseOf(desk, before, text, signal) {
  const { voices } = await desk.loadRounds();
  const [known = []] = await surprisesOf(desk, voices.of(""), before, [text], { signal, priority: 1 });
  return known;
}

/**
 * The same of several texts, each of which goes on from the one before them: that is computed once.
 * @param {import("../desk.js").Desk} desk @param {import("./voices.js").Voice} voice whose model reads @param {string} before
 * @param {string[]} texts @param {{signal: AbortSignal, priority?: number}} options @returns {Promise<Known[][]>}
 */
export async function surprisesOf({ api }, { asked, context, fields }, before, texts, { signal, priority = 0 }) {
  const { prompt, keep } = await context.prepare(before);
  const field = context.media.field(prompt);
  const space = before.slice(keep); // which no prompt ends with
  const { model } = asked.settings;
  const body = {
    ...(model ? { model } : {}),
    ...fields,
    prompt: typeof field === "string" ? field : withoutMarkers(before),
    texts: texts.map((text) => space + straightened(text, asked.server.lacks)),
    priority,
  };
  /** @type {{texts: {tokens: Known[]}[]}} */
  const said = await api.post("v1/srb/surprise", body, { signal });
  const more = codePoints(space, space.length);
  return said.texts.map(({ tokens }) => tokens.map(({ start, logprob }) => ({ start: start - more, logprob })));
}

/** How unlikely a token was, from 1 to 5. @param {number} logprob @returns {1|2|3|4|5} */
export function probabilityStep(logprob) {
  const probability = Math.exp(logprob);
  return probability >= 0.5 ? 1 : probability >= 0.2 ? 2 : probability >= 0.05 ? 3 : probability >= 0.01 ? 4 : 5;
}

/**
 * The tints of a text that begins at `start`: of a token without the space before it, and of neighbours of one step together.
 * @param {string} text @param {number} start @param {Known[]} known @returns {Tint[]}
 */
export function tintsOf(text, start, known) {
  /** @type {Tint[]} */
  const found = [];
  let [at, counted] = [0, 0]; // units of the text, and the characters that they are
  const ends = known.map(({ start: place }) => {
    const more = Math.max(0, place - counted);
    at += unitsOf(text.slice(at, at + 2 * more), more);
    counted += more;
    return at;
  });
  known.forEach(({ logprob }, number) => {
    let from = ends[number] ?? 0;
    const to = ends[number + 1] ?? text.length;
    const step = logprob === null ? 1 : probabilityStep(logprob);
    const last = found.at(-1);
    if (last && last.step === step && last.to === start + from && from < to) {
      last.to = start + to;
      return;
    }
    while (from < to && /\s/u.test(text.charAt(from))) from++;
    if (step > 1 && from < to) found.push({ from: start + from, to: start + to, step });
  });
  return found;
}
