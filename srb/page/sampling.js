// The sampling settings that a writer can set: names, ranges and plain words; presets; ladders over the branches.

import { UNREPEATED } from "./desk/defaults.js";
import { msg } from "./languages.js";

/**
 * @typedef {{name: string, label: string, words: string, min: number, max: number, step: number, group: "main" | "repetition" | "rare",
 *   whole?: boolean}} Sampler   `words` go on after the label; a ladder may climb any sampler of the group "main"
 */

/** @type {readonly Sampler[]} */
export const SAMPLERS = [
  {
    name: "temperature",
    label: msg`Temperature`,
    words: msg`how daring. 0: always the likeliest word`,
    min: 0,
    max: 3,
    step: 0.05,
    group: "main",
  },
  {
    name: "min_p",
    label: "Min-p",
    words: msg`drop words far less likely than the likeliest. Higher is safer`,
    min: 0,
    max: 1,
    step: 0.01,
    group: "main",
  },
  {
    name: "top_p",
    label: "Top-p",
    words: msg`choose among the likeliest words that make up this share. 1: all`,
    min: 0,
    max: 1,
    step: 0.01,
    group: "main",
  },
  {
    name: "top_k",
    label: "Top-k",
    words: msg`choose among this many of the likeliest words. 0: all`,
    min: 0,
    max: 1000,
    step: 1,
    group: "main",
    whole: true,
  },
  {
    name: "repeat_penalty",
    label: msg`Repeat penalty`,
    words: msg`how much repeated words are avoided. 1: off`,
    min: 0.5,
    max: 2,
    step: 0.01,
    group: "repetition",
  },
  {
    name: "repeat_last_n",
    label: msg`Repeat window`,
    words: msg`how many of the last tokens count as repeated. -1: all`,
    min: -1,
    max: 1000000,
    step: 1,
    group: "repetition",
    whole: true,
  },
  {
    name: "presence_penalty",
    label: msg`Presence penalty`,
    words: msg`how much words are avoided that have come at all. 0: off`,
    min: -2,
    max: 2,
    step: 0.05,
    group: "repetition",
  },
  {
    name: "frequency_penalty",
    label: msg`Frequency penalty`,
    words: msg`how much words are avoided for each time they came. 0: off`,
    min: -2,
    max: 2,
    step: 0.05,
    group: "repetition",
  },
  {
    name: "dry_multiplier",
    label: "DRY",
    words: msg`how much whole repeated phrases are avoided. 0: off, 0.8 is usual`,
    min: 0,
    max: 5,
    step: 0.05,
    group: "repetition",
  },
  {
    name: "dry_allowed_length",
    label: msg`DRY length`,
    words: msg`tokens of a phrase that may be repeated`,
    min: 0,
    max: 1000,
    step: 1,
    group: "repetition",
    whole: true,
  },
  {
    name: "dry_penalty_last_n",
    label: msg`DRY window`,
    words: msg`how many of the last tokens DRY looks through. -1: all`,
    min: -1,
    max: 1000000,
    step: 1,
    group: "repetition",
    whole: true,
  },
  {
    name: "xtc_probability",
    label: "XTC",
    words: msg`how often the likeliest words are left out. 0: off`,
    min: 0,
    max: 1,
    step: 0.05,
    group: "rare",
  },
  {
    name: "xtc_threshold",
    label: msg`XTC threshold`,
    words: msg`how likely a word must be to be left out`,
    min: 0,
    max: 0.5,
    step: 0.01,
    group: "rare",
  },
  {
    name: "typical_p",
    label: "Typical-p",
    words: msg`prefer words that surprise as much as usual. 1: off`,
    min: 0,
    max: 1,
    step: 0.01,
    group: "rare",
  },
  {
    name: "top_n_sigma",
    label: "Top-n-sigma",
    words: msg`keep words whose score is near the best. -1: off`,
    min: -1,
    max: 10,
    step: 0.1,
    group: "rare",
  },
  {
    name: "dynatemp_range",
    label: msg`Dynamic temperature`,
    words: msg`how far the temperature follows the model's doubt. 0: off`,
    min: 0,
    max: 2,
    step: 0.05,
    group: "rare",
  },
  {
    name: "mirostat",
    label: "Mirostat",
    words: msg`steer to an even surprise: version 1 or 2. 0: off`,
    min: 0,
    max: 2,
    step: 1,
    group: "rare",
    whole: true,
  },
  {
    name: "mirostat_tau",
    label: msg`Mirostat target`,
    words: msg`the surprise that Mirostat aims at`,
    min: 0,
    max: 20,
    step: 0.1,
    group: "rare",
  },
  {
    name: "mirostat_eta",
    label: msg`Mirostat rate`,
    words: msg`how fast Mirostat adapts`,
    min: 0,
    max: 1,
    step: 0.01,
    group: "rare",
  },
  {
    name: "min_tokens",
    label: msg`Least length`,
    words: msg`tokens before which the model may not end the text. 0: none`,
    min: 0,
    max: 1000,
    step: 10,
    group: "rare",
    whole: true,
  },
];

/** @typedef {{name: string, from: number, to: number}} Ladder   of a sampler: the first branch has `from`, the last one `to` */
/** @typedef {Record<string, number | boolean | Ladder | null>} Preset   null and absent names are the server's defaults */

/** The names that a preset sets. */
export const PRESET_NAMES = [...SAMPLERS.map((each) => each.name), "ladder", "distinct_first", "sibling_penalty"];

/** Measured by bench/prose.py (docs/using/prose.md): without DRY each of them repeats sentences. @type {Readonly<Record<string, Preset>>} */
export const PRESETS = {
  usual: { ...UNREPEATED },
  going_on: { min_tokens: 60, ...UNREPEATED }, // a third of what an instruct model of 135M writes ends within 200 tokens
  steady: { temperature: 0.7, min_p: 0.1, ...UNREPEATED },
  lively: { temperature: 1, min_p: 0.05, top_p: 1, top_k: 0, ...UNREPEATED },
  wild: {
    temperature: 1.3,
    min_p: 0.03,
    top_p: 1,
    top_k: 0,
    xtc_probability: 0.3,
    distinct_first: true,
    ...UNREPEATED,
  },
};

/** The values of the names that a preset does not mention. */
const PRESET_DEFAULTS = /** @type {Preset} */ ({ distinct_first: false, sibling_penalty: 0 });

/**
 * Return every setting that a preset decides, so that nothing of an earlier preset stays.
 *
 * @param {Preset} preset
 * @returns {[name: string, value: Preset[string]][]}
 */
export function presetSettings(preset) {
  return PRESET_NAMES.map((name) => [name, preset[name] ?? PRESET_DEFAULTS[name] ?? null]);
}

/**
 * Return the preset that the settings are.
 *
 * @param {Record<string, any>} settings
 * @returns {Preset}
 */
export function presetOf(settings) {
  const kept = PRESET_NAMES.map((name) => [name, settings[name] ?? null]);
  return Object.fromEntries(kept.filter(([name, value]) => value !== (PRESET_DEFAULTS[name] ?? null)));
}

/**
 * Return the values of a ladder's n rungs, evenly spaced.
 *
 * @param {Ladder} ladder
 * @param {number} n
 */
export function rungs({ name, from, to }, n) {
  const whole = SAMPLERS.find((each) => each.name === name)?.whole ?? false;
  return Array.from({ length: n }, (_, i) => {
    const value = n === 1 ? from : from + ((to - from) * i) / (n - 1);
    return whole ? Math.round(value) : Math.round(value * 1000) / 1000;
  });
}
