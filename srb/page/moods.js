// Ladders of moods: a control vector of the server whose scale each branch has another rung of, and what cards say of it.

import { LANGUAGE } from "./languages.js";
import { rungs } from "./sampling.js";

/** @typedef {import("./sampling.js").Ladder} Ladder */
/** @typedef {{moods: string[]}} Climbed   a round */

const PREFIX = "mood ";
const SIGNED = new Intl.NumberFormat(LANGUAGE, { signDisplay: "exceptZero", maximumFractionDigits: 1 });

/** The name of a mood that a ladder climbs; "" for a ladder of a sampler. @param {string} name the ladder's */
const moodOf = (name) => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "");

/** What a ladder may climb beside samplers: the server's control vectors. @param {{control_vectors?: string[]}} server */
export const moodsOf = ({ control_vectors = [] }) =>
  control_vectors.map((label) => ({ name: PREFIX + label, label, min: -10, max: 10, step: 0.1, from: -1, to: 1 }));

/** The ladder of a story's settings; null without one, and for a mood that the server does not have.
 * @param {{ladder?: Ladder | null}} settings @param {{control_vectors?: string[]}} server */
export function ladderOf({ ladder }, { control_vectors = [] }) {
  if (!ladder) return null;
  const mood = moodOf(ladder.name);
  return !mood || control_vectors.includes(mood) ? ladder : null;
}

/** The fields of a branch on a rung. @param {Ladder} ladder @param {number} value */
export function rungFields({ name }, value) {
  const mood = moodOf(name);
  return mood ? { control_vectors: [{ name: mood, scale: value }] } : { [name]: value };
}

/** The fields of n branches on a ladder. @param {Ladder} ladder @param {number} n */
export const branchesOn = (ladder, n) => rungs(ladder, n).map((value) => rungFields(ladder, value));

/** Let a round's cards know the moods that a request's branches have. @param {Climbed} round @param {readonly number[]} slots
 * @param {unknown} ladder its name and values, as the story has them */
export function noteMoods(round, slots, ladder) {
  const { name, values } = /** @type {any} */ (ladder ?? {});
  const mood = typeof name === "string" && Array.isArray(values) ? moodOf(name) : "";
  for (const [place, number] of slots.entries())
    if (number !== undefined)
      round.moods[number] = mood ? `${mood} ${SIGNED.format(values[place] ?? 0).replace("-", "−")}` : "";
}
