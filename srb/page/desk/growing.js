/** A story that grows by itself from the end of its text: round after round behind all that anybody asks for, until a budget is used up. The
 * tree is all that is kept of it: a growth that begins again goes on at the ends that are there. */

import { countWords } from "../keep/describe.js";
import { msg, wordCount } from "../languages.js";
import { Round } from "../round.js";
import { newId } from "../story.js";
import { gapAt } from "./gap.js";
import { Live } from "./live.js";

/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{words?: number, minutes?: number}} Budget */

const WAYS = 2; // from each end
const SHOWN = 20; // ends that differ most
const COMPARED = 64; // ends, the longest lines
const READ = 1500; // characters of a line's end: lines have their beginnings in common
const MINUTE = 60_000; // ms

export class Growth {
  /** @param {import("./rounds.js").Rounds} rounds @param {Budget} budget */
  constructor(rounds, { words = Number.POSITIVE_INFINITY, minutes = 0 }) {
    const { desk } = rounds;
    this.rounds = rounds;
    this.desk = desk;
    this.story = desk.story;
    this.root = desk.settle();
    this.from = gapAt(desk.text, desk.text.length).at;
    this.most = words;
    this.minutes = minutes;
    this.words = 0; // that it has written
    this.ending = new AbortController();
    this.ended = new Promise((resolve) => this.ending.signal.addEventListener("abort", resolve));
    /** @type {Live | null} the round that is written */
    this.live = null;
    /** @type {Error | null} */
    this.error = null;
  }

  get isOver() {
    return this.ending.signal.aborted || this.error !== null || this.words >= this.most;
  }

  /** End it: what is written stays. */
  stop() {
    this.ending.abort();
    this.live?.stop();
  }

  save() {
    this.live?.save();
  }

  /** Write until the budget is used up, and say which ends differ most. */
  async run() {
    const timer = this.minutes ? window.setTimeout(() => this.stop(), this.minutes * MINUTE) : 0;
    try {
      for (let tip = await this.next(); tip; tip = await this.next()) await this.write(tip);
    } finally {
      clearTimeout(timer);
    }
    if (this.error) throw this.error;
    if (this.story === this.desk.story && this.words > 0) await this.sayEnds();
  }

  /** Wait until nobody waits for the server, and return the end at which the line is shortest; null if it is over. */
  async next() {
    await this.whenIdle();
    return this.isOver ? null : this.tip();
  }

  /** @returns {Promise<void>} */
  whenIdle() {
    const { desk, ending } = this;
    const heard = new AbortController();
    return new Promise((resolve) => {
      const look = () => {
        if (!this.isOver && (desk.isRunning || desk.server.state !== "ready")) return;
        heard.abort();
        resolve();
      };
      for (const topic of ["round", "server"]) desk.addEventListener(topic, look, { signal: heard.signal });
      ending.signal.addEventListener("abort", look, { signal: heard.signal });
      look();
    });
  }

  // ---- The tree

  /** The ends of all that models have written behind the text and nobody has set aside. @returns {Place[]} */
  ends() {
    const { root, story } = this;
    const open = this.goesOn(root.node).filter((id) => (story.nodes.get(id)?.keep ?? 0) >= this.from);
    const ends = [];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      const further = this.goesOn(id);
      if (!further.length) ends.push({ node: id, at: story.length(id) });
      open.push(...further);
    }
    return ends;
  }

  /** What goes on from a node. @param {string} id */
  goesOn(id) {
    const { story } = this;
    return story.children(id).filter((each) => story.nodes.get(each)?.by === "model" && !story.mark(each).pruned);
  }

  /** The end of the shortest line that goes on; the text's own end, if nothing is there yet. */
  tip() {
    const ends = this.ends();
    if (!ends.length) return this.root;
    const isOpen = (/** @type {Place} */ { node }) => this.story.nodes.get(node)?.end?.reason !== "eos";
    return ends.filter(isOpen).sort((a, b) => a.at - b.at)[0] ?? null;
  }

  // ---- Writing

  /** @param {Place} base */
  async write(base) {
    const { rounds, story } = this;
    const text = story.text(base.node, base.at);
    const { at: keep, until } = gapAt(text, text.length);
    const { prompts, lore } = await rounds.prepare([""], { before: text.slice(0, keep), behind: "" }, {});
    if (this.isOver) return;
    const stopAt = rounds.context.stopAt(null);
    const round = new Round({ id: newId(), base, keep, until, n: WAYS, prompts, lore, stopAt });
    this.live = new Live({ api: this.desk.api, story, round, listener: this });
    const body = { ...rounds.body(round), priority: 1, linger: 0 };
    const written = this.live.begin(body);
    rounds.saveWhileOpen(); // the map shows it grow
    await Promise.race([written, this.ended]); // one that is stopped before the server has begun it ends later
    this.live.save();
    const words = round.slots.reduce((sum, slot) => sum + countWords(slot.text), 0);
    this.words += words;
    this.live = null;
    if (!words && round.slots.every(({ end }) => end?.reason !== "eos"))
      this.error ??= new Error(msg`The model has written nothing.`);
    this.desk.tell("rounds");
  }

  // ---- What its rounds report (Listener)

  text() {}

  round() {}

  troubled() {}

  nodes() {
    this.rounds.nodes();
  }

  /** @param {Live} live @param {string} id @param {any} event */
  began(live, id, event) {
    this.rounds.began(live, id, event);
  }

  /** @param {Live} _live @param {Error} error */
  failed(_live, error) {
    this.error = error;
  }

  // ---- Its end

  /** Say how much was written, and offer the map with the ends that differ most. */
  async sayEnds() {
    const { desk, story, from } = this;
    const ends = this.ends()
      .sort((a, b) => b.at - a.at)
      .slice(0, COMPARED);
    const texts = ends.map(({ node, at }) =>
      story
        .text(node, at)
        .slice(Math.max(from, at - READ), at)
        .trim(),
    );
    const { groups } = await desk.api.post("v1/srb/meaning", { texts, n: Math.min(SHOWN, ends.length) });
    this.rounds.ends = groups.map((/** @type {number[]} */ [first]) => ends[first].node);
    const run = () => desk.openDialog("map");
    desk.notice(msg`The story has grown by ${wordCount(this.words)}.`, "info", {
      label: msg`Show the ends that differ most`,
      run,
    });
  }
}
