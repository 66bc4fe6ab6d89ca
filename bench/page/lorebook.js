/**
 * What a lorebook costs each round, by the place of its entries: tokens of the prompt that the server has to compute.
 *
 *     node bench/page/lorebook.js http://127.0.0.1:9090
 *
 * A text of some thousand tokens goes on for ten rounds, of which each speaks of other people, so that entries come and go. The next
 * paragraph is given, not the model's, so that all places read the same text; without a lorebook it is the only thing to compute. Run
 * it against a server that does nothing else.
 */

import { choose, restingOf } from "../../srb/page/lore/choice.js";
import { entryOf } from "../../srb/page/lore/entries.js";
import { Keywords } from "../../srb/page/lore/keywords.js";
import { planPrompt } from "../../srb/page/prompt.js";

const [url = "http://127.0.0.1:9090", context = "8192"] = process.argv.slice(2);
const NAMES = ["Tom", "Mara", "Osk", "Ines", "Pell", "Juno", "Brand", "Wick", "Hale", "Rika", "Sorrel", "Vane"];
const ROUNDS = 10;
const SETTINGS = { n: 8, max_tokens: 128, mode: "text" };
const TOKENS = 512; // of all entries
const WORDS = 300; // in which keywords are looked for: people leave the scene

const entries = NAMES.map((name, index) => ({
  ...entryOf({ keys: [name], text: about(name, index) }),
  id: name,
}));
const keywords = new Keywords(entries);

/** Some sentences on a person. @param {string} name @param {number} index */
function about(name, index) {
  return `${name} is ${20 + 3 * index} years old and comes from the ${index % 2 ? "north" : "south"} of the island. ${name} keeps ${index + 2} goats, owes money to the harbour master, and has not forgiven the winter of the great fog. ${name} never speaks of it.`;
}

/** A paragraph of some hundred words that speaks of two people, or of nobody. @param {number} number @param {string[]} people */
function paragraph(number, people) {
  const [first = "the woman", second = "the boy"] = people;
  return `It was the ${number}th evening and the lamp was late. On the stairs ${first} counted the steps, as one does who has counted them before, and stopped at ${number + 40}. Below in the yard ${second} was calling something that the wind took away over the wall. They had agreed on nothing, and yet the boat lay ready, with bread for ${number} days, two blankets and the old chart, on which somebody had drawn a line in red and crossed it out again. Nobody asked who. When the bell went, ${first} put out the light and ${second} let go of the rope.`;
}

const before = Array.from({ length: 24 }, (_, index) => paragraph(index + 1, index < 3 ? [NAMES[0], NAMES[1]] : []));
const rounds = Array.from({ length: ROUNDS }, (_, index) =>
  paragraph(100 + index, index % 5 === 4 ? [] : [NAMES[index % NAMES.length], NAMES[(index * 2 + 3) % NAMES.length]]),
);

/** The places, each with what it remembers from round to round. @type {Record<string, () => (text: string) => string>} */
const PLACES = {
  "no lorebook": () => (text) => plan(text, undefined),
  "before the text": () => (text) => plan(text, atTheTop(chosen(text, null).used)),
  "before the text, and they stay": () => {
    /** @type {Set<string>} */
    const ids = new Set();
    return (text) => {
      for (const { id } of chosen(text, null).used) ids.add(id);
      return plan(text, atTheTop([...ids].map((id) => entries.find((entry) => entry.id === id))));
    };
  },
  "near the end": () => (text) => plan(text, chosen(text, null).lore),
  "near the end, and they rest (the page)": () => {
    let resting = null;
    return (text) => {
      const choice = chosen(text, resting);
      const { prompt, loreAt } = planned(text, choice.lore);
      resting = restingOf(choice, text, loreAt);
      return prompt;
    };
  },
};

/** @param {string} text */
const chosen = (text, resting) => choose({ keywords, text, words: WORDS, room: 3.5 * TOKENS, resting });

/** @param {any[]} used */
const atTheTop = (used) => ({ before: used.map(({ text }) => `[${text}]`).join("\n"), within: "", placeIn: () => 0 });

/** @param {string} text @param {any} lore */
const planned = (text, lore) => planPrompt({ text, lore, settings: SETTINGS, n_ctx: Number(context) });

/** @param {string} text @param {any} lore */
const plan = (text, lore) => planned(text, lore).prompt;

/** @param {string} prompt @returns {Promise<{prompt_n: number, cache_n: number}>} */
async function computed(prompt) {
  const response = await fetch(`${url}/completion`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ prompt, n_predict: 1, cache_prompt: true }),
  });
  const { timings, error } = await response.json();
  if (!response.ok) throw new Error(`${response.status}: ${error?.message}`);
  return timings;
}

for (const [name, make] of Object.entries(PLACES)) {
  const promptOf = make();
  const opening = `A story of ${name}.\n\n`; // no place finds what another one has computed
  let text = opening + before.join("\n\n");
  const counts = [];
  let whole = 0;
  for (const next of ["", ...rounds]) {
    text += next === "" ? "" : `\n\n${next}`;
    const { prompt_n, cache_n } = await computed(promptOf(text));
    counts.push(prompt_n);
    whole = prompt_n + cache_n;
  }
  const [first, ...later] = counts;
  const sum = later.reduce((all, each) => all + each, 0);
  console.log(
    `${name.padEnd(40)} first ${first}, then ${later.join(" ")}: ${sum} in ${ROUNDS} rounds; prompt at last ${whole}`,
  );
}
