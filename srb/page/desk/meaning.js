/** How much a round's cards differ in what they mean, their order and their groups by it: the server compares them. */

import { withoutMarkers } from "../markers.js";

/** @typedef {{by: "meaning" | "words", different: number, order: number[], groups: number[][], key: string}} Meaning   `by`: what was compared;
 *   `different`: how many really different texts there are; `order`: the cards' numbers, neighbours alike; `groups`: the cards' numbers, the
 *   first of each stands for the others; `key`: of the texts that were compared */

const READ = 2000; // characters of a card: a small model reads as many
const MOST = 64; // cards: those of a round at its beginning

/** What tells whether cards still have the texts that were compared. @param {import("../round.js").Round} round */
export const keyOf = ({ slots }) => slots.map(({ text, state }) => (state === "pruned" ? "" : text.length)).join();

/**
 * Ask the server how alike the texts of a round's cards are.
 * @param {import("../desk.js").Desk} desk @param {import("../round.js").Round} round
 * @param {{n?: number, signal?: AbortSignal}} options `n`: how many groups; else as many as really differ @returns {Promise<Meaning>}
 */
export async function meaningOf({ api }, round, { n, signal }) {
  const key = keyOf(round);
  const read = round.order
    .map((number) => round.slots[number])
    .filter(({ text, state }) => text.trim() && state !== "pruned")
    .slice(0, MOST);
  const texts = read.map(({ text }) => withoutMarkers(text).slice(0, READ).trim());
  const logprobs = read.map(({ meanLogprob }) => meanLogprob);
  const { by, different, order, groups } = await api.post("v1/srb/meaning", { texts, logprobs, n }, { signal });
  const numbers = (/** @type {number[]} */ places) => places.map((place) => read[place].number);
  return { by, different, order: numbers(order), groups: groups.map(numbers), key };
}
