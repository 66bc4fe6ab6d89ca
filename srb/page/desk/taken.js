/** How a person chooses: which cards of a story she took, from which steps of a ladder and from which model. */

import { origin } from "../story/pen.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("../sampling.js").Ladder} Ladder */
/** @typedef {{name: string, values: number[]}} Rungs   of a run, for its slots in their order */
/** @typedef {{count: number, of: number, first: number, last: number, from: number, to: number}} Steps   `count` of `of` cards were taken from the
 *   steps `first` to `last`, which have the values `from` to `to` */
/** @typedef {{taken: number, cards: number, steps: Steps | null, model: {name: string, count: number} | null}} Taste */

const FEW = 8; // cards that tell nothing yet
const MOST_OF = 0.6; // share of them that some steps have to have

/**
 * Return the cards that a person took, each as one of its nodes: her text goes on from it, or has words of it.
 * @param {Story} story
 */
export function takenCards(story) {
  /** @type {Map<string, Node>} */
  const taken = new Map();
  const add = (/** @type {Node | undefined} */ node) => {
    if (node?.by === "model" && node.run !== undefined && node.slot !== undefined && !isGrown(story, node))
      taken.set(keyOf(node), node);
  };
  for (const node of story.nodes.values()) {
    const above = story.nodes.get(node.parent ?? "");
    if (node.of) add(story.nodes.get(origin(node).node));
    const goesOn = above && node.run !== above.run && (node.keep ?? 0) > (above.keep ?? 0) && !isGrown(story, node);
    if (goesOn) add(above);
  }
  add(story.nodes.get(story.head.node));
  return [...taken.values()];
}

/** @param {Node} node */
const keyOf = ({ run, slot }) => `${run} ${slot}`;

/** @param {Story} story @param {Node} node */
const requestOf = (story, { run }) => /** @type {any} */ (story.runs.get(run ?? "")?.request ?? {});

/** Whether a branch was written while the story grew by itself. @param {Story} story @param {Node} node */
const isGrown = (story, node) => requestOf(story, node).grown === true;

/** @param {Story} story @param {Ladder | null} ladder of the next round @returns {Taste} */
export function tasteOf(story, ladder) {
  const cards = new Set();
  for (const node of story.nodes.values())
    if (node.by === "model" && node.slot !== undefined && !node.of && !isGrown(story, node)) cards.add(keyOf(node));
  const taken = takenCards(story);
  const values = valuesOf(story);
  const known = taken.flatMap((node) => values.get(`${keyOf(node)} ${ladder?.name}`) ?? []);
  return {
    taken: taken.length,
    cards: cards.size,
    steps: ladder && stepsOf(known, ladder.from > ladder.to ? -1 : 1),
    model: modelOf(story, taken),
  };
}

/** The values that the ladders of a story gave to its cards, by card and sampler. @param {Story} story */
function valuesOf(story) {
  /** @type {Map<string, number>} */
  const values = new Map();
  for (const run of [...story.runs.values()].sort((one, other) => one.made - other.made)) {
    const { ladder, slots } = /** @type {any} */ (run.request ?? {});
    if (typeof ladder?.name !== "string" || !Array.isArray(ladder.values)) continue;
    for (const [place, value] of ladder.values.entries())
      if (typeof value === "number")
        values.set(`${run.round ?? run.id} ${Array.isArray(slots) ? slots[place] : place} ${ladder.name}`, value);
  }
  return values;
}

/**
 * Return the fewest steps from which most cards were taken; null where that is all of them, or too few were.
 * @param {number[]} taken the values of cards @param {1 | -1} way in which the ladder goes
 * @returns {Steps | null}
 */
export function stepsOf(taken, way) {
  const values = [...new Set(taken)].sort((one, other) => way * (one - other));
  if (taken.length < FEW) return null;
  const counts = values.map((value) => taken.filter((each) => each === value).length);
  for (let width = 1; width < values.length; width += 1) {
    const sums = counts.slice(width - 1).map((_, first) => counts.slice(first, first + width).reduce((a, b) => a + b));
    const count = Math.max(...sums);
    if (count < MOST_OF * taken.length) continue;
    const first = sums.indexOf(count);
    const last = first + width - 1;
    return { count, of: taken.length, first: first + 1, last: last + 1, from: values[first], to: values[last] };
  }
  return null;
}

/** The model of which most of the taken cards are, where several write. @param {Story} story @param {Node[]} taken */
function modelOf(story, taken) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const node of taken) {
    const run =
      [...story.runs.values()].find(({ request_id: id }) => id === node.request) ?? story.runs.get(node.run ?? "");
    const name = /** @type {any} */ (run?.request)?.voice || run?.model;
    if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const [most] = [...counts].sort(([, one], [, other]) => other - one);
  return counts.size > 1 && taken.length >= FEW ? { name: most[0], count: most[1] } : null;
}
