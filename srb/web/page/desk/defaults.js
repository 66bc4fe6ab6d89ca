/** Settings of a story, and their values where a story says nothing. Those with null are the server's. */

import { SAMPLERS } from "../sampling.js";

export const DEFAULTS = Object.freeze({
  n: 8,
  max_tokens: 128,
  stop_at: "paragraph",
  stop_after: 1,
  .../** @type {Record<string, number | null>} */ (Object.fromEntries(SAMPLERS.map(({ name }) => [name, null]))),
  seed: /** @type {number | null} */ (null),
  ladder: /** @type {{name: string, from: number, to: number} | null} */ (null),
  distinct_first: /** @type {boolean} */ (false),
  sibling_penalty: 0,
  banned_strings: /** @type {string[]} */ ([]),
  mode: /** @type {"text" | "chat"} */ ("text"),
  system: "",
  instruction: "Continue the story.",
  let_finish: /** @type {boolean} */ (false),
  logprobs: /** @type {boolean} */ (false),
  single_keys: /** @type {boolean} */ (true),
  font: /** @type {"prose" | "mono"} */ ("prose"),
  size: 18,
  measure: 68,
  theme: /** @type {"auto" | "light" | "dark"} */ ("auto"),
});

/** @typedef {{-readonly [name in keyof typeof DEFAULTS]: (typeof DEFAULTS)[name]} & Record<string, any>} Settings */

/** @param {import("../story.js").Story} story @returns {Settings} */
export function settingsOf(story) {
  /** @type {Settings} */
  const settings = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    const value = story.meta(`settings.${name}`);
    if (value !== undefined && sameKind(value, settings[name])) settings[name] = value;
  }
  return settings;
}

/** Whether a value from a file or another tab is of the kind that the setting has. @param {any} value @param {any} known */
function sameKind(value, known) {
  if (known === null) return value === null || typeof value === "number" || typeof value === "object";
  return typeof value === typeof known && Array.isArray(value) === Array.isArray(known);
}
