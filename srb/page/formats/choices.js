/**
 * A story's choices as data: what was taken of each round, and what was passed over. Lines of JSON as TRL's trainers read them: pairs
 * for DPO (`prompt`, `chosen`, `rejected`), and single texts for KTO (`prompt`, `completion`, `label`).
 *
 * A card is taken if the manuscript has it, or if the story went on from it: then as much of it as that took. Others of its round are
 * passed over. A round of which nothing was taken says nothing, but for cards that were set aside.
 */

/** @import {Story} from "./types.js" */
/** @import {Node, Run} from "../story/types.js" */
/** @typedef {{id: string, node: Node, run: Run, taken: number}} Card  `taken`: characters of its text */

const LONGEST = 8000; // characters of a prompt: its end; the whole text in each line would be gigabytes of a novel

/** @param {Story} story */
export function writePairs(story) {
  return lines(story, ({ prompt, cards }) => {
    const chosen = cards.filter(({ taken }) => taken > 0);
    const rejected = cards.filter(({ taken, node }) => taken === 0 && node.text !== "");
    return chosen.flatMap((one) =>
      rejected.map((other) => ({
        prompt,
        chosen: one.node.text.slice(0, one.taken),
        rejected: other.node.text,
        ...factsOf(one),
        chosen_seed: seedOf(one),
        rejected_seed: seedOf(other),
      })),
    );
  });
}

/** @param {Story} story */
export function writeLabels(story) {
  return lines(story, ({ prompt, cards }) => {
    const isDecided = cards.some(({ taken }) => taken > 0);
    const told = cards.filter(
      ({ id, node, taken }) => node.text !== "" && (isDecided || (taken === 0 && story.mark(id).pruned)),
    );
    return told.map((card) => ({
      prompt,
      completion: card.taken ? card.node.text.slice(0, card.taken) : card.node.text,
      label: card.taken > 0,
      ...factsOf(card),
      seed: seedOf(card),
    }));
  });
}

/** @param {Story} story @param {(round: {prompt: string, cards: Card[]}) => object[]} rowsOf */
function lines(story, rowsOf) {
  return roundsOf(story)
    .flatMap(rowsOf)
    .map((row) => `${JSON.stringify(row)}\n`)
    .join("");
}

/** What is told of a round in each line, of the same types in all, as tables of lines need it. @param {Card} card */
const factsOf = ({ run }) => ({
  round: run.round ?? run.id,
  model: run.model,
  made: new Date(run.made).toISOString(),
  blind: /** @type {any} */ (run.request).blind === true,
  parameters: JSON.stringify(run.request),
});

/** @param {Card} card */
const seedOf = ({ node }) => node.seed ?? -1;

/** The cards of each round that begin at the same place, with the text before that. @param {Story} story */
function roundsOf(story) {
  const lengths = takenLengths(story);
  /** @type {Map<string, {prompt: string, cards: Card[]}>} */
  const rounds = new Map();
  for (const [id, node] of story.nodes) {
    const run = node.run === undefined ? undefined : story.runs.get(node.run);
    if (node.by !== "model" || run === undefined || node.of !== undefined) continue;
    const key = JSON.stringify([run.round ?? run.id, node.parent ?? "", node.keep ?? 0]);
    const round = rounds.get(key) ?? { prompt: promptOf(story, node), cards: [] };
    rounds.set(key, round);
    round.cards.push({ id, node, run, taken: Math.max(0, Math.min(node.text.length, lengths.get(id) ?? 0)) });
  }
  return [...rounds.values()];
}

/** @param {Story} story @param {Node} node */
function promptOf(story, { parent = "", keep = 0 }) {
  return parent === "" ? "" : story.text(parent, keep).slice(-LONGEST);
}

/** How much of each node's own text another act took: the manuscript, what a person or a later round went on from, or a copy. @param {Story} story */
function takenLengths(story) {
  /** @type {Map<string, number>} */
  const lengths = new Map();
  const take = (/** @type {string} */ id, /** @type {number} */ at) => {
    const node = story.nodes.get(id);
    if (node) lengths.set(id, Math.max(lengths.get(id) ?? 0, at - (node.keep ?? 0)));
  };
  const roundOf = (/** @type {Node | undefined} */ node) => {
    const run = story.runs.get(node?.run ?? "");
    return run && (run.round ?? run.id);
  };
  for (const node of story.nodes.values()) {
    const { parent } = node;
    const isSameRound = roundOf(node) !== undefined && roundOf(node) === roundOf(story.nodes.get(parent ?? ""));
    if (parent !== undefined && !isSameRound) take(parent, node.keep ?? 0);
    if (node.of !== undefined) lengths.set(node.of.node, Number.POSITIVE_INFINITY);
  }
  take(story.head.node, story.head.at);
  return lengths;
}
