/** Rounds of the past, made again from the story: the cards of a run, with their texts and the nodes that hold them. */

import { commonLength } from "../compare.js";
import { noteMoods } from "../moods.js";
import { Round } from "../round.js";
import { isCount } from "../story/check.js";
import { shuffled } from "./blind.js";
import { Trail } from "./trail.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Run} Run */

/** A story may come from anywhere: no request has more branches in its life (MAX_BRANCHES of the server). */
const MOST = 4096;

const NOTHING = { reason: "lost", message: "nothing was written" };

/** Whether a value is the number of a slot or a branch. @param {unknown} value @returns {value is number} */
const isNumber = (value) => isCount(value) && value < MOST;

/** @param {unknown} n */
const countOf = (n) => (isCount(n) ? Math.min(n, MOST) : 0);

/** Finds the newest run that began at a place, and the runs that joined its round; looks through all runs only after there are
 * more of them. */
export class RunIndex {
  constructor() {
    /** @type {Map<string, Run>} */
    this.byPlace = new Map();
    /** @type {Map<string, Run[]>} */
    this.byRound = new Map();
    this.size = 0;
  }

  forget() {
    this.byPlace.clear();
    this.byRound.clear();
    this.size = 0;
  }

  /** @param {Story} story @param {Place} place @returns {Run | undefined} */
  at(story, { node, at }) {
    this.look(story);
    return this.byPlace.get(`${node}:${at}`);
  }

  /** The newest run that began on the way to a place. @param {Story} story @param {Place} place @returns {Run | undefined} */
  before(story, { node, at }) {
    this.look(story);
    const path = new Set(at > 0 ? story.path(node) : []);
    return [...this.byPlace.values()].filter((run) => path.has(run.node)).sort((a, b) => b.made - a.made)[0];
  }

  /** @param {Story} story @param {Run} run */
  joined(story, { id }) {
    this.look(story);
    return this.byRound.get(id) ?? [];
  }

  /** @param {Story} story */
  look(story) {
    if (this.size === story.runs.size) return;
    this.forget();
    for (const run of [...story.runs.values()].sort((a, b) => a.made - b.made)) {
      if (run.round === undefined) this.byPlace.set(`${run.node}:${run.at}`, run);
      else this.byRound.set(run.round, [...(this.byRound.get(run.round) ?? []), run]);
    }
    this.size = story.runs.size;
  }
}

/**
 * Return the round of a run, with a trail for each card. Its prompt is null until somebody needs it; its requests, which may
 * still be running, are the run's own and those of the runs that joined it.
 * @param {Story} story @param {Run} run @param {Run[]} [joined] in the order of their making
 */
export function rebuilt(story, run, joined = []) {
  const written = [...nodesOf(story, run)];
  const latest = latestNodes(written);
  const asked = /** @type {any} */ (run.request ?? {});
  const keep = isCount(asked.keep) && asked.keep <= run.at ? asked.keep : run.at;
  const until = isCount(asked.until) && asked.until >= keep && asked.until <= run.at ? asked.until : run.at;
  const requests = [own(run, written), ...joined.map((each) => further(each, written))];
  const numbers = [...latest.keys(), ...requests.flatMap(({ slots }) => slots.filter(isNumber))];
  const round = new Round({
    id: run.id,
    base: { node: run.node, at: run.at },
    keep,
    until,
    n: numbers.reduce((most, number) => Math.max(most, number + 1), 1),
    prompts: null,
    voices: voicesOf([run, ...joined]),
    lore: Array.isArray(asked.lore) ? asked.lore.filter((/** @type {unknown} */ id) => typeof id === "string") : [],
    stopAt: typeof asked.stop_at === "string" ? asked.stop_at : "",
    task: taskOf(asked.task),
    wanted: countOf(asked.shown),
    isBlind: asked.blind === true,
    passage: story.text(run.node, run.at).slice(keep, until).trim(),
    asked: Math.max(requests[0].slots.length, written.length), // at most once each: later ones have seeds of their own
  });
  round.n = countOf(asked.n) || round.n;
  if (round.isBlind) round.order = shuffled(round.order);
  /** @type {Map<number, Trail>} */
  const trails = new Map();
  for (const slot of round.slots) {
    const node = latest.get(slot.number);
    if (!node) Object.assign(slot, { state: "failed", end: NOTHING });
    else {
      show(slot, node, story, keep);
      trails.set(slot.number, new Trail(round.base, keep, pieces(story, run, node.id, keep)));
    }
  }
  for (const request of requests) recall(round, trails, request, latest);
  return { round, trails };
}

/** The voices of a round's runs, in the order of their making. @param {Run[]} runs */
function voicesOf(runs) {
  const named = runs.map(({ request }) => voiceOf(request)).filter(Boolean);
  return named.length ? [...new Set(named)] : [""];
}

/** @param {any} request of a file */
const voiceOf = (request) => (typeof request?.voice === "string" ? request.voice : "");

/** @param {any} task of a file @returns {import("../tasks.js").Task | null} */
function taskOf(task) {
  const { verb, instruction } = task ?? {};
  return typeof verb === "string" && typeof instruction === "string" ? { verb, instruction } : null;
}

/** @param {import("../round.js").Slot} slot @param {Written} node @param {Story} story @param {number} keep */
function show(slot, node, story, keep) {
  const { id, seed = null, index = null, end = { reason: "lost" }, logprob = null } = node;
  const state = story.mark(id).pruned === true ? "pruned" : "ended";
  Object.assign(slot, { text: story.text(id).slice(keep), node: id, seed, index, end, logprob, state });
}

// ---- Requests

/**
 * A request of the past: the slots that its branches fill, by index (with holes), the words that its prompt had after the round's, and what
 * each branch was told.
 * @typedef {{id: string, made: number, given: string, voice: string, isMended?: boolean, slots: number[], directions: unknown[], ladder?: unknown,
 *   wrote: (node: Written) => boolean}} Past
 */

/** @param {Run} run @param {Written[]} written @returns {Past} */
function own({ request_id: id, made, request }, written) {
  const { n, slots: share, directions, ladder } = /** @type {any} */ (request ?? {});
  const slots = slotsOf(share) ?? Array.from({ length: countOf(n) }, (_, number) => number);
  return fill(
    {
      id,
      made,
      given: "",
      voice: voiceOf(request),
      slots,
      directions: listOf(directions),
      ladder,
      wrote: (node) => node.request === undefined || node.request === id,
    },
    written,
  );
}

/** @param {Run} run that joined the round @param {Written[]} written @returns {Past} */
function further({ request_id: id, made, request }, written) {
  const { given: words, slots: asked, mended, directions, ladder } = /** @type {any} */ (request ?? {});
  const given = typeof words === "string" ? words : "";
  const slots = slotsOf(asked) ?? [];
  return fill(
    {
      id,
      made,
      given,
      voice: voiceOf(request),
      isMended: mended === true,
      slots,
      directions: listOf(directions),
      ladder,
      wrote: ({ request }) => request === id,
    },
    written,
  );
}

/** @param {unknown} value of a file @returns {unknown[]} */
const listOf = (value) => (Array.isArray(value) ? value : []);

/** @param {unknown} asked of a file */
const slotsOf = (asked) => (Array.isArray(asked) ? asked.slice(0, MOST).filter(isNumber) : null);

/** Add the slots of the branches that were added to a request. @param {Past} request @param {Written[]} written */
function fill(request, written) {
  for (const node of written) if (isNumber(node.index) && request.wrote(node)) request.slots[node.index] = node.slot;
  return request;
}

/**
 * Let the round know a request, and which cards its branches fill: those whose latest text it wrote, and those for which it
 * was asked after the latest text was written.
 * @param {Round} round @param {Map<number, Trail>} trails @param {Past} request @param {Map<number, Written>} latest
 */
function recall(round, trails, request, latest) {
  const { id, made, given, voice, isMended, slots, directions } = request;
  const key = `${round.id} ${id}`;
  round.recall(key, id, slots, given, { isMended, voice });
  noteMoods(round, slots, request.ladder);
  for (const [index, number] of slots.entries()) {
    if (number === undefined) continue;
    const slot = round.slots[number];
    const node = latest.get(number);
    if (node && request.wrote(node) ? node.index !== index : node && node.made >= made) continue;
    const isWritten = node && request.wrote(node);
    const direction = isWritten ? node.direction : directions[index];
    round.directions[number] = typeof direction === "string" ? direction : "";
    if (!isWritten) {
      trails.set(number, trailOf(round, trails, given));
      slot.begin(given);
      slot.state = given ? "ended" : "failed";
      slot.end = given ? { reason: "lost" } : NOTHING;
    }
    Object.assign(slot, { request: key, index, given: given.length });
  }
}

/** Return the trail of a text that nobody has written yet: below the card with which it shares most. @param {Round} round
 * @param {Map<number, Trail>} trails @param {string} text */
function trailOf(round, trails, text) {
  const shared = round.slots.map((slot) => commonLength(slot.text, text));
  const origin = shared.indexOf(Math.max(...shared));
  return (shared[origin] && trails.get(origin)?.fork(shared[origin])) || new Trail(round.base, round.keep);
}

// ---- Nodes

/** Return the newest node of each slot. @param {Written[]} written */
function latestNodes(written) {
  /** @type {Map<number, Written>} */
  const latest = new Map();
  for (const node of written) {
    const known = latest.get(node.slot);
    const later = known ? node.made - known.made || (node.index ?? 0) - (known.index ?? 0) : 0;
    if (later >= 0) latest.set(node.slot, node);
  }
  return latest;
}

/** @typedef {import("../story/types.js").Node & {slot: number}} Written */

/** Yield the nodes that the branches of a run wrote. @param {Story} story @param {Run} run @returns {Generator<Written>} */
function* nodesOf(story, run) {
  const open = [run.node];
  while (open.length) {
    for (const id of story.children(/** @type {string} */ (open.pop()))) {
      const node = story.nodes.get(id);
      if (node?.run !== run.id || !isNumber(node.slot)) continue;
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
