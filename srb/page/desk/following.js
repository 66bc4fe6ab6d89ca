/** The likelihood of cards that came without it, and of what follows them in the middle of a text: how likely its first words become
 * behind each card. A model that cannot be told what follows writes past it; behind a card that leads there, it finds those words likely. */

import { beginningOf } from "../behind.js";
import { codePoints, trimCut } from "../cuts.js";
import { withoutMarkers } from "../markers.js";
import { beginningAfter, straightened } from "../prompt.js";
import { between, joined } from "./gap.js";

/** @typedef {import("../round.js").Round} Round */
/** @typedef {{number: number, prompt: string, at: number}} Reading   of a card: what the model reads, and where in it the words begin that are judged */

const MOST = 16; // cards that are read, the first in their order
const READ = 1200; // characters at the end of what stands before: the card, and the text before it
const FOLLOWING = 240; // characters of what follows
const AT_ONCE = 4; // prompts of a request: other requests have their turns between

/** The first words of what follows a round's cards. @param {import("../story.js").Story} story @param {Round} round */
function followingOf(story, { base, until }) {
  const behind = story.text(base.node, base.at).slice(until, until + 20 * FOLLOWING);
  return beginningOf(withoutMarkers(behind), 4 * FOLLOWING); // of a budget, it takes a quarter
}

/**
 * Return the mean log-probability of the words that follow the cards that have a text, by their numbers; or, with `isOfCards`, of the cards' own.
 * @param {import("./rounds.js").Rounds} rounds @param {Round} round @param {AbortSignal} signal @param {{isOfCards?: boolean}} [options]
 * @returns {Promise<Map<number, number>>}
 */
export async function likelihoods({ desk, voices }, round, signal, { isOfCards = false } = {}) {
  const { asked, fields } = voices.of(round.voices[0] ?? "");
  const { model } = asked.settings;
  const readings = readingsOf(desk.story, round, asked.server.lacks, isOfCards);
  /** @type {Map<number, number>} */
  const means = new Map();
  for (let first = 0; first < readings.length; first += AT_ONCE) {
    const some = readings.slice(first, first + AT_ONCE);
    const prompt = some.map((reading) => reading.prompt);
    const more = { ...(model ? { model } : {}), ...fields };
    const body = { ...more, prompt, n: 1, max_tokens: 0, echo: true, logprobs: 0, stream: false, format: "openai" };
    const { choices } = await desk.api.post("v1/completions", body, { signal });
    for (const { index, logprobs } of choices) {
      const reading = some[index];
      const likelihood = reading ? meanFrom(reading.at, logprobs) : null;
      if (likelihood !== null) means.set(reading.number, likelihood);
    }
  }
  return means;
}

/** @param {import("../story.js").Story} story @param {Round} round @param {string | null | undefined} lacks @param {boolean} isOfCards @returns {Reading[]} */
function readingsOf(story, round, lacks, isOfCards) {
  const before = story.text(round.base.node, round.keep);
  const following = followingOf(story, round);
  const written = round.order.filter(
    (number) => round.slots[number]?.text.trim() && round.slots[number]?.state !== "pruned",
  );
  return written.slice(0, MOST).map((number) => {
    const card = cardOf(round, number, before);
    if (isOfCards) {
      const cut = Math.max(0, before.length - READ);
      const known = straightened(
        withoutMarkers(before.slice(cut && beginningAfter(before, cut, before.length))),
        lacks,
      );
      return { number, prompt: known + straightened(card, lacks), at: codePoints(known, known.length) };
    }
    const whole = withoutMarkers(before.slice(-2 * READ) + card);
    const cut = Math.max(0, whole.length - READ);
    const head = straightened(whole.slice(cut && beginningAfter(whole, cut, whole.length)), lacks);
    const prompt = head + straightened(between(before, card, following) + following, lacks);
    return { number, prompt, at: codePoints(prompt, head.length) };
  });
}

/** A card's text as a take puts it behind the text. @param {Round} round @param {number} number @param {string} before */
function cardOf({ slots, passage }, number, before) {
  const { text = "", mark = null } = slots[number] ?? {};
  const taken = text.slice(0, trimCut(text, mark ?? text.length));
  if (!passage) return taken;
  return joined(before, [{ text: taken.trim(), by: "model" }])
    .map((each) => each.text)
    .join("");
}

/**
 * The mean of the tokens that begin at a place or behind it; null without one.
 * @param {number} at @param {{token_logprobs: (number | null)[], text_offset: number[]}} logprobs
 */
function meanFrom(at, { token_logprobs: values, text_offset: offsets }) {
  const known = values.flatMap((value, place) => (value !== null && (offsets[place] ?? 0) >= at ? [value] : []));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
