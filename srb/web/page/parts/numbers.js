// Settings that are numbers: name, range, plain words. The samplers among them are in ../sampling.js.

/** @typedef {import("../sampling.js").Sampler} Sampler */
/** @typedef {Omit<Sampler, "group"> & {empty?: string}} NumberSetting   `empty`: the meaning of an empty field, where it may be empty */

/** @type {Readonly<Record<string, NumberSetting>>} */
export const NUMBERS = {
  n: { name: "n", label: "Branches", words: "continuations at once", min: 1, max: 64, step: 1, whole: true },
  max_tokens: {
    name: "max_tokens",
    label: "Length",
    words: "tokens of each branch at most; 128 are about 90 words",
    min: 1,
    max: 100_000,
    step: 16,
    whole: true,
  },
  stop_after: {
    name: "stop_after",
    label: "How many of them",
    words: "a branch stops after so many",
    min: 1,
    max: 1000,
    step: 1,
    whole: true,
  },
  sibling_penalty: {
    name: "sibling_penalty",
    label: "Sibling penalty",
    words: "how much a branch avoids the words of the others. 0: off",
    min: 0,
    max: 100,
    step: 0.5,
  },
  seed: {
    name: "seed",
    label: "Seed",
    words: "the same seed and text give the same branches again",
    min: 0,
    max: 4_294_967_294,
    step: 1,
    whole: true,
    empty: "random",
  },
  size: {
    name: "size",
    label: "Size",
    words: "of the manuscript's letters, in pixels",
    min: 10,
    max: 48,
    step: 1,
    whole: true,
  },
  measure: {
    name: "measure",
    label: "Measure",
    words: "characters in a line",
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
  const orEmpty = empty === undefined ? "" : `, or empty: ${empty}`;
  return fits ? value : `${label}: a ${whole ? "whole " : ""}number from ${min} to ${max}${orEmpty}.`;
}
