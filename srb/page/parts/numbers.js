// Settings that are numbers: name, range, plain words. The samplers among them are in ../sampling.js.

import { msg } from "../languages.js";

/** @typedef {import("../sampling.js").Sampler} Sampler */
/** @typedef {Omit<Sampler, "group"> & {empty?: string}} NumberSetting   `empty`: the meaning of an empty field, where it may be empty */

/** @type {Readonly<Record<string, NumberSetting>>} */
export const NUMBERS = {
  n: { name: "n", label: msg`Branches`, words: msg`continuations at once`, min: 1, max: 64, step: 1, whole: true },
  chosen_from: {
    name: "chosen_from",
    label: msg`Chosen out of`,
    words: msg`branches that are written for them: those that differ most are shown, and the others stand behind them`,
    min: 2,
    max: 64,
    step: 8,
    whole: true,
    empty: msg`no more`,
  },
  max_tokens: {
    name: "max_tokens",
    label: msg`Length`,
    words: msg`of each branch at most; 128 are about 90 words`,
    min: 1,
    max: 100_000,
    step: 16,
    whole: true,
  },
  stop_after: {
    name: "stop_after",
    label: msg`How many of them`,
    words: msg`a branch stops after so many`,
    min: 1,
    max: 1000,
    step: 1,
    whole: true,
  },
  sibling_penalty: {
    name: "sibling_penalty",
    label: msg`Other words than the others`,
    words: msg`how much a branch avoids what the others say. 0: not at all`,
    min: 0,
    max: 100,
    step: 0.5,
  },
  seed: {
    name: "seed",
    label: msg`Seed`,
    words: msg`the same seed and text give the same branches again`,
    min: 0,
    max: 4_294_967_294,
    step: 1,
    whole: true,
    empty: msg`random`,
  },
  size: {
    name: "size",
    label: msg`Size`,
    words: msg`of the manuscript's letters, in pixels`,
    min: 10,
    max: 48,
    step: 1,
    whole: true,
  },
  measure: {
    name: "measure",
    label: msg`Measure`,
    words: msg`characters in a line`,
    min: 30,
    max: 160,
    step: 1,
    whole: true,
  },
};

/**
 * Return a number that was typed, null for an empty text, or a sentence that says what is right.
 *
 * @param {NumberSetting} setting
 * @param {string} typed
 * @returns {number | null | string}
 */
export function readNumber({ label, min, max, whole, empty }, typed) {
  const text = typed.trim().replace(",", ".");
  if (text === "" && empty !== undefined) {
    return null;
  }
  const value = /^[-+]?(\d+\.?\d*|\.\d+)$/.test(text) ? Number(text) : Number.NaN;
  const fits = value >= min && value <= max && (!whole || Number.isInteger(value));
  if (fits) return value;
  if (empty === undefined)
    return whole
      ? msg`${label}: a whole number from ${min} to ${max}.`
      : msg`${label}: a number from ${min} to ${max}.`;
  return whole
    ? msg`${label}: a whole number from ${min} to ${max}, or empty: ${empty}.`
    : msg`${label}: a number from ${min} to ${max}, or empty: ${empty}.`;
}
