/** A story that grows by itself from the end of its text: round after round behind all that anybody asks for, until a budget is used up. The
 * tree is all that is kept of its words: a growth that begins again goes on at the ends that are there. For as long as its window may be
 * closed, the server writes on at the part that is begun, and the window that is opened again takes the growth up. */

import { ApiError } from "../api.js";
import { countWords } from "../keep/describe.js";
import { msg, wordCount } from "../languages.js";
import { Round } from "../round.js";
import { newId } from "../story.js";
import { Ends } from "./ends.js";
import { gapAt } from "./gap.js";
import { BEAT, forgetGrowth, keepGrowth } from "./growth_record.js";
import { Live } from "./live.js";
import { rebuilt } from "./past_rounds.js";

/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("./growth_record.js").Left} Left */
/** @typedef {{words?: number, minutes?: number, closed?: number, left?: Left}} Budget   `closed`: minutes for which the window may be closed;
 *   `left`: of one that is taken up again */

const WAYS = 2; // from each end
const SHOWN = 20; // ends that differ most
const COMPARED = 64; // ends, the longest lines
const READ = 1500; // characters of a line's end: lines have their beginnings in common
const MINUTE = 60_000; // ms
const LATEST = 2 ** 31 - 1; // ms that a timer can wait

export class Growth {
  /** @param {import("./rounds.js").Rounds} rounds @param {Budget} budget */
  constructor(rounds, { words, minutes, closed = 0, left }) {
    const { desk } = rounds;
    this.rounds = rounds;
    this.desk = desk;
    this.story = desk.story;
    this.left = left ?? null;
    this.root = left && desk.story.isPlace(left.root) ? left.root : desk.settle();
    const text = desk.story.text(this.root.node, this.root.at);
    this.from = gapAt(text, text.length).at;
    this.ends = new Ends(desk.story, this.root, this.from);
    this.most = left ? left.words : (words ?? null);
    this.until = left ? left.until : minutes ? Date.now() + minutes * MINUTE : null;
    this.closed = left ? left.closed : Math.min(closed * 60, desk.server.max_linger);
    this.noted = 0; // when it was last noted that it is at work
    this.words = 0; // that it has written
    this.ending = new AbortController();
    this.ended = new Promise((resolve) => this.ending.signal.addEventListener("abort", resolve));
    /** @type {Live | null} the round that is written */
    this.live = null;
    /** @type {Error | null} */
    this.error = null;
  }

  get isOver() {
    return this.ending.signal.aborted || this.error !== null || this.words >= (this.most ?? Number.POSITIVE_INFINITY);
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
    const { left, until } = this;
    const timer = until === null ? 0 : window.setTimeout(() => this.stop(), Math.min(until - Date.now(), LATEST));
    const beat = window.setInterval(() => this.note(), BEAT);
    const heard = this.listen();
    try {
      if (left?.run) await this.whenIdle();
      if (left?.run && !this.isOver) await this.takeUp(left.run);
      for (let tip = await this.next(); tip; tip = await this.next()) await this.write(tip);
    } finally {
      clearTimeout(timer);
      clearInterval(beat);
      heard.abort();
      const isLost = this.error instanceof ApiError && this.error.status === 0; // so all end when a window is closed
      if (this.closed && !isLost) forgetGrowth();
    }
    if (this.error) throw this.error;
    if (this.story === this.desk.story && this.words > 0) await this.sayEnds();
  }

  /** Hear of what a person does to the tree; returns what ends that. */
  listen() {
    const { desk, ends, story } = this;
    const heard = new AbortController();
    const { signal } = heard;
    const cards = () => {
      const { base, slots = [] } = desk.round ?? {};
      if (base) ends.touch([base.node, ...slots.flatMap(({ node }) => node ?? [])]);
    };
    for (const topic of ["round", "nodes"]) desk.addEventListener(topic, cards, { signal });
    const marked = (/** @type {Event} */ event) => {
      const { ids } = /** @type {CustomEvent} */ (event).detail;
      if ([...(ids ?? [])].some((id) => story.nodes.get(id)?.by === "model")) ends.forget();
    };
    desk.addEventListener("nodes", marked, { signal });
    return heard;
  }

  /** Note that it is at work, for when the window is closed. */
  note() {
    if (!this.closed || this.isOver) return;
    this.noted = Date.now();
    const { closed, root, until, noted: seen } = this;
    const words = this.most === null ? null : this.most - this.words;
    const run = this.live?.hasBegun ? this.live.round.id : null;
    keepGrowth({ story: this.story.id, root, words, until, closed, seen, run });
  }

  /** Wait until nobody waits for the server, and return the end at which the line is shortest; null if it is over. */
  async next() {
    await this.whenIdle();
    return this.isOver ? null : this.ends.shortest();
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

  // ---- Writing

  /** @param {Place} base */
  async write(base) {
    const { rounds, story } = this;
    const text = story.text(base.node, base.at);
    const { at: keep, until } = gapAt(text, text.length);
    const { prompts, lore } = await rounds.prepare([""], { before: text.slice(0, keep), behind: "" }, { of: base });
    if (this.isOver) return;
    const stopAt = rounds.context.stopAt(null);
    const round = new Round({ id: newId(), base, keep, until, n: WAYS, prompts, lore, stopAt });
    const live = new Live({ api: this.desk.api, story, round, listener: this });
    const written = this.follow(live, live.begin({ ...rounds.body(round), priority: 1, linger: this.closed }));
    rounds.saveWhileOpen(); // the map shows it grow
    await written;
    const { slots } = round;
    this.ends.touch([base.node]);
    if (slots.every(({ text, end }) => !text.trim() && end?.reason !== "eos"))
      this.error ??= new Error(msg`The model has written nothing.`);
  }

  /** Read a part that was being written when the window was closed, as far as the server has come. @param {string} id of its run */
  async takeUp(id) {
    const { rounds, story } = this;
    const run = story.runs.get(id);
    const shown = rounds.kept.get(id);
    if (shown) this.words += wordsOf(shown.round); // its cards are beside the text, where the desk reads on by itself
    if (shown || !run) return;
    const { round, trails } = rebuilt(story, run);
    const live = new Live({ api: this.desk.api, story, round, trails, listener: this });
    const running = await rounds.runningThere();
    if (running?.has(run.request_id)) return this.follow(live, live.attach(run.request_id));
    this.words += wordsOf(round);
    rounds.settle(live, new Set());
  }

  /** Follow a part until it is written; one that is stopped before the server has begun it ends later. @param {Live} live @param {Promise<unknown>} reading */
  async follow(live, reading) {
    this.live = live;
    await Promise.race([reading, this.ended]);
    live.save();
    this.words += wordsOf(live.round);
    this.live = null;
    this.note();
    this.desk.tell("rounds");
  }

  // ---- What its rounds report (Listener)

  text() {
    if (Date.now() - this.noted > BEAT / 2) this.note(); // timers of a hidden window are slow
  }

  /** A part that is written is not kept at the server. @param {Live} live */
  round(live) {
    live.endResting();
  }

  troubled() {}

  nodes() {
    this.rounds.nodes();
  }

  /** @param {Live} live @param {string} id @param {any} event */
  began(live, id, event) {
    this.rounds.began(live, id, event);
    this.note();
  }

  /** @param {Live} _live @param {Error} error */
  failed(_live, error) {
    this.error = error;
  }

  // ---- Its end

  /** Say how much was written, and offer the map with the ends that differ most. */
  async sayEnds() {
    const { desk, story, from } = this;
    const ends = this.ends
      .all()
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

/** @param {Round} round */
const wordsOf = ({ slots }) => slots.reduce((words, { text }) => words + countWords(text), 0);
