/** Blind rounds: until a card is taken, nobody sees which model wrote which, in which order, and how likely the texts are. */

import { takenCards } from "./taken.js";

/** @typedef {import("../story.js").Story} Story */

/** The rounds of which cards were taken, as the story was when it was asked last. @type {WeakMap<Story, {basis: string, taken: Set<string | undefined>}>} */
const KNOWN = new WeakMap();

/** Whether a card of a round was taken. @param {Story} story @param {string} round */
export function isTaken(story, round) {
  const basis = `${story.nodes.size} ${story.head.node}`;
  let known = KNOWN.get(story);
  if (known?.basis !== basis) {
    known = { basis, taken: new Set(takenCards(story).map(({ run }) => run)) };
    KNOWN.set(story, known);
  }
  return known.taken.has(round);
}

/** Whether a round's cards hide what they are. @param {Story} story @param {string} [round] */
export const isBlind = (story, round = "") =>
  /** @type {any} */ (story.runs.get(round)?.request)?.blind === true && !isTaken(story, round);

/** Return the numbers of slots in an order that tells nothing. @param {readonly number[]} order @param {() => number} [random] */
export function shuffled(order, random = Math.random) {
  const left = [...order];
  return order.map(() => left.splice(Math.floor(random() * left.length), 1)[0]);
}
