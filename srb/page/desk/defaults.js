/** Settings of a story, and their values where a story says nothing. Those with null are the server's. */

/** The names of `SAMPLERS` in sampling.js, whose words nobody needs before the settings are opened. */
export const SAMPLER_NAMES = [
  "temperature",
  "min_p",
  "top_p",
  "top_k",
  "repeat_penalty",
  "repeat_last_n",
  "presence_penalty",
  "frequency_penalty",
  "dry_multiplier",
  "dry_allowed_length",
  "dry_penalty_last_n",
  "xtc_probability",
  "xtc_threshold",
  "typical_p",
  "top_n_sigma",
  "dynatemp_range",
  "mirostat",
  "mirostat_tau",
  "mirostat_eta",
  "min_tokens",
];

/** DRY as its author recommends it, over some pages: with the server's 64 tokens the sentence before last may come again. */
export const UNREPEATED = Object.freeze({ dry_multiplier: 0.8, dry_penalty_last_n: 4096 });

export const DEFAULTS = Object.freeze({
  model: "", // its name, where a server has several; empty: the server's first
  voices: /** @type {string[]} */ ([]), // models or adapters that write beside the story's own
  n: 8,
  chosen_from: /** @type {number | null} */ (null), // branches that are written for n cards: those that differ most are shown
  max_tokens: 128,
  stop_at: "paragraph",
  stop_after: 1,
  .../** @type {Record<string, number | null>} */ (Object.fromEntries(SAMPLER_NAMES.map((name) => [name, null]))),
  ...UNREPEATED,
  seed: /** @type {number | null} */ (null),
  ladder: /** @type {{name: string, from: number, to: number} | null} */ (null),
  distinct_first: /** @type {boolean} */ (false),
  blind: /** @type {boolean} */ (false), // cards hide their models, order and likelihood until one is taken
  sibling_penalty: 0,
  banned_strings: /** @type {string[]} */ ([]), // lines of words that never come, as bans.js has them
  seldom_strings: /** @type {string[]} */ ([]), // … and that come seldom
  mode: /** @type {"text" | "chat"} */ ("text"),
  system: "",
  instruction: "Continue the story.",
  wish_frame: "[What happens next: <|>]",
  directions: /** @type {string[]} */ ([]), // of every round's cards, by their places; "": of none
  shows_directions: /** @type {boolean} */ (true),
  ignore_eos: /** @type {boolean} */ (false),
  let_finish: /** @type {boolean} */ (false),
  logprobs: /** @type {boolean} */ (false),
  likelihood: /** @type {boolean} */ (false), // of each branch, for sorting
  lore_words: 1000, // at the text's end, in which keywords of the lorebook are looked for
  lore_tokens: 512, // that the lorebook may take
  writes_first: /** @type {boolean} */ (false), // cards stay covered until a person's own sentence stands
  shows_pointed: /** @type {boolean} */ (true), // in the text, a card that is pointed at
  single_keys: /** @type {boolean} */ (true),
  typographic_quotes: /** @type {boolean} */ (true), // in the place of plain signs that are typed
  font: /** @type {"prose" | "mono"} */ ("prose"),
  size: 18,
  measure: 68,
  authors: /** @type {boolean} */ (false), // whether the manuscript shows who wrote what
  theme: /** @type {"auto" | "light" | "dark"} */ ("auto"),
});

/** @typedef {{-readonly [name in keyof typeof DEFAULTS]: (typeof DEFAULTS)[name]} & Record<string, any>} Settings */

/** @param {import("../story.js").Story} story @returns {Settings} */
export function settingsOf(story) {
  /** @type {Settings} */
  const settings = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    const value = story.meta(`settings.${name}`);
    const known = SAMPLER_NAMES.includes(name) ? null : settings[name];
    if (value !== undefined && sameKind(value, known)) settings[name] = value;
  }
  return settings;
}

/** Settings of the page more than of a story: a new story begins with those of the one before. */
const LOOKS = ["theme", "font", "size", "measure", "authors", "single_keys", "typographic_quotes", "writes_first"];

/** Let a new story look as the page does. @param {import("../story.js").Story} story @param {Settings} settings */
export function withLooks(story, settings) {
  for (const name of LOOKS) {
    const value = settings[name];
    if (value !== settingsOf(story)[name]) story.setMeta(`settings.${name}`, value);
  }
  return story;
}

/** Whether a value from a file or another tab is of the kind that the setting has. @param {any} value @param {any} known */
function sameKind(value, known) {
  if (known === null) return value === null || typeof value === "number" || typeof value === "object";
  if (Array.isArray(known)) return Array.isArray(value) && value.every((each) => typeof each === "string");
  return typeof value === typeof known && !Array.isArray(value);
}
