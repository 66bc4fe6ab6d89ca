/** Rounds of the past, made again from the story: the cards of a run, with their texts and the nodes that hold them. */

import { Round } from "../round.js";
import { Trail } from "./trail.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Run} Run */

/** Finds the newest run that began at a place; looks through all runs only after there are more of them. */
export class RunIndex {
  constructor() {
    /** @type {Map<string, Run>} */
    this.byPlace = new Map();
    this.size = 0;
  }

  forget() {
    this.byPlace.clear();
    this.size = 0;
  }

  /** @param {Story} story @param {Place} place @returns {Run | undefined} */
  at(story, { node, at }) {
    if (this.size !== story.runs.size) {
      for (const run of story.runs.values()) {
        const key = `${run.node}:${run.at}`;
        const known = this.byPlace.get(key);
        if (!known || run.made >= known.made) this.byPlace.set(key, run);
      }
      this.size = story.runs.size;
    }
    return this.byPlace.get(`${node}:${at}`);
  }
}

/**
 * Return the round of a run, with a trail for each card. Its prompt is null until somebody needs it.
 * @param {Story} story @param {Run} run
 */
export function rebuilt(story, run) {
  const latest = latestNodes(story, run);
  const { n = 0, keep = run.at, stop_at: stopAt = "" } = /** @type {any} */ (run.request ?? {});
  const numbers = [...latest.keys()];
  const base = { node: run.node, at: run.at };
  const count = Math.max(n, ...numbers.map((number) => number + 1), 1);
  const written = [...nodesOf(story, run)].length;
  const asked = Math.max(filledSlots(story, run).length, written); // at most once each: later ones have seeds of their own
  const round = new Round({ id: run.id, base, keep, n: count, prompt: null, stopAt, asked });
  if (n > 0) round.n = n;
  /** @type {Map<number, Trail>} */
  const trails = new Map();
  for (const slot of round.slots) {
    const node = latest.get(slot.number);
    if (!node) {
      Object.assign(slot, { state: "failed", end: { reason: "lost", message: "nothing was written" } });
      continue;
    }
    const pruned = story.mark(node.id).pruned === true;
    Object.assign(slot, {
      text: story.text(node.id).slice(keep),
      node: node.id,
      seed: node.seed ?? null,
      index: node.index ?? null,
    });
    Object.assign(slot, {
      state: pruned ? "pruned" : "ended",
      end: node.end ?? { reason: "lost" },
      logprob: node.logprob ?? null,
    });
    trails.set(slot.number, new Trail(base, keep, pieces(story, run, node.id, keep)));
  }
  return { round, trails };
}

/** Return the newest node of each slot of a run. @param {Story} story @param {Run} run */
function latestNodes(story, run) {
  /** @type {Map<number, Written>} */
  const latest = new Map();
  for (const node of nodesOf(story, run)) {
    const known = latest.get(node.slot);
    const later = known ? node.made - known.made || (node.index ?? 0) - (known.index ?? 0) : 0;
    if (later >= 0) latest.set(node.slot, node);
  }
  return latest;
}

/** Return the slots that the branches of a run's request filled, by index. @param {Story} story @param {Run} run */
export function filledSlots(story, run) {
  const { n = 0 } = /** @type {any} */ (run.request ?? {});
  const filled = Array.from({ length: n }, (_, number) => number);
  for (const { slot, index } of nodesOf(story, run)) if (typeof index === "number") filled[index] = slot;
  return filled;
}

/** @typedef {import("../story/types.js").Node & {slot: number}} Written */

/** Yield the nodes that the branches of a run wrote. @param {Story} story @param {Run} run @returns {Generator<Written>} */
function* nodesOf(story, run) {
  const open = [run.node];
  while (open.length) {
    for (const id of story.children(/** @type {string} */ (open.pop()))) {
      const node = story.nodes.get(id);
      if (node?.run !== run.id || typeof node.slot !== "number") continue;
      yield/** @type {Written} */ (node);
      open.push(id);
    }
  }
}

/** Return the nodes of a card's text, from the first to the last. @param {Story} story @param {Run} run @param {string} id @param {number} keep */
function pieces(story, run, id, keep) {
  const found = [];
  /** @type {import("../story/types.js").Node | undefined} */
  let node = story.nodes.get(id);
  while (node && node.id !== run.node) {
    found.push({ node: node.id, from: (node.keep ?? keep) - keep });
    node = story.nodes.get(node.parent ?? "");
  }
  return found.reverse();
}
