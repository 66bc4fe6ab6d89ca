/** The likelihood of cards that came without it, and of what follows them in the middle of a text: how likely its first words become
 * behind each card. A model that cannot be told what follows writes past it; behind a card that leads there, it finds those words likely. */

import { beginningOf } from "../behind.js";
import { codePoints, trimCut } from "../cuts.js";
import { withoutMarkers } from "../markers.js";
import { between, joined } from "./gap.js";
import { surprisesOf } from "./surprise.js";

/** @typedef {import("../round.js").Round} Round */

const MOST = 16; // cards that are read, the first in their order
const FOLLOWING = 240; // characters of what follows

/** The first words of what follows a round's cards. @param {import("../story.js").Story} story @param {Round} round */
function followingOf(story, { base, until }) {
  const behind = story.text(base.node, base.at).slice(until, until + 20 * FOLLOWING);
  return beginningOf(withoutMarkers(behind), 4 * FOLLOWING); // of a budget, it takes a quarter
}

/**
 * Return the mean log-probability of the words that follow the cards that have a text, by their numbers; or, with `isOfCards`, of the cards' own.
 * The text before them is computed once.
 * @param {import("./rounds.js").Rounds} rounds @param {Round} round @param {AbortSignal} signal @param {{isOfCards?: boolean}} [options]
 * @returns {Promise<Map<number, number>>}
 */
export async function likelihoods({ desk, voices }, round, signal, { isOfCards = false } = {}) {
  const before = desk.story.text(round.base.node, round.keep);
  const following = followingOf(desk.story, round);
  const readings = written(round, before).map(({ number, text }) => {
    const head = text + (isOfCards ? "" : between(before, text, following));
    return { number, text: isOfCards ? text : head + following, at: isOfCards ? 0 : codePoints(head, head.length) };
  });
  const voice = voices.of(round.voices[0] ?? "");
  const texts = readings.map(({ text }) => text);
  const known = texts.length ? await surprisesOf(desk, voice, before, texts, { signal }) : [];
  const means = readings.map(({ number, at }, place) => [number, meanFrom(at, known[place] ?? [])]);
  return new Map(/** @type {[number, number][]} */ (means.filter(([, mean]) => mean !== null)));
}

/** The first cards that have words, in their order, as a take puts these behind the text. @param {Round} round @param {string} before */
export function written({ order, passage, slots }, before) {
  const all = order.filter((number) => slots[number]?.text.trim() && slots[number]?.state !== "pruned");
  return all.slice(0, MOST).map((number) => {
    const { text, mark } = slots[number];
    const taken = text.slice(0, trimCut(text, mark ?? text.length));
    const stretches = passage ? joined(before, [{ text: taken.trim(), by: "model" }]) : [{ text: taken }];
    return { number, text: stretches.map((each) => each.text).join("") };
  });
}

/** The mean of the tokens that begin at a place or behind it; null without one. @param {number} at @param {import("./surprise.js").Known[]} known */
function meanFrom(at, known) {
  const values = known.flatMap(({ start, logprob }) => (logprob !== null && start >= at ? [logprob] : []));
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}
