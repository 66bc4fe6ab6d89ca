/** The rounds of the open story: the one that is shown, those that undo may show again, and what a person does with their cards. */

import { Round } from "../round.js";
import { newId } from "../story.js";
import { Live } from "./live.js";
import { RunIndex, rebuilt } from "./past_rounds.js";
import { likelyTokens } from "./rivals.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../round.js").Plan} Plan */
/** @typedef {import("../story/types.js").Place} Place */

const KEPT = 30; // rounds whose cards stay in memory; older ones are made again from the story
const SAVE = 1000; // ms between two saves of texts that grow
const AT_ONCE = 3; // streams of this page: a browser opens six connections to a host
const VARIED = 2; // branches that vary a card

export class Rounds {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    /** @type {Live | null} */
    this.shown = null;
    /** @type {Map<string, Live>} by the place that a round continues; the latest used last */
    this.kept = new Map();
    this.runs = new RunIndex();
    this.asked = 0; // counts `go`, so that only the last one begins a round
    /** @type {Set<number>} slots whose texts have grown since the last frame */
    this.grown = new Set();
    this.frame = 0;
    this.timer = 0;
  }

  // ---- Begin and end

  /** Continue the text. @param {{n?: number}} [options] */
  async go({ n = this.desk.settings.n } = {}) {
    const { desk } = this;
    this.asked += 1;
    const ticket = this.asked;
    this.endShown();
    const base = desk.settle();
    await this.guard(async () => {
      const { prompt, keep } = await desk.prompt.prepare();
      if (ticket !== this.asked) return;
      const round = new Round({ id: newId(), base, keep, n, prompt, stopAt: desk.settings.stop_at });
      const live = this.newLive(round);
      this.remember(live);
      this.show(live);
      const stream = live.begin(this.body(prompt, n));
      this.saveWhileOpen();
      await stream;
    });
  }

  /** @param {Round} round @param {import("./live.js").Live["trails"]} [trails] */
  newLive(round, trails) {
    return new Live({ api: this.desk.api, story: this.desk.story, round, trails, listener: this });
  }

  /** Return the body of a request with the story's settings. @param {string} prompt @param {number} n @param {number} [seedOffset] */
  body(prompt, n, seedOffset = 0) {
    const { seed } = this.desk.settings;
    return { ...this.desk.prompt.body(prompt, n), ...(seed === null ? {} : { seed: seed + seedOffset }) };
  }

  /** End the shown round for the next one: stop it, or let it finish if the settings say so. */
  endShown() {
    const { shown } = this;
    if (!shown) return;
    if (this.desk.settings.let_finish && shown.isRunning) this.makeRoom();
    else shown.stop();
    shown.save();
  }

  /** Stop the oldest streams, so that a connection is free for the next round and one for saving. */
  makeRoom() {
    const open = [...this.kept.values()].filter((live) => live.isConnected);
    for (const live of open.slice(0, Math.max(0, open.length - AT_ONCE + 1))) live.stop();
  }

  stop() {
    this.asked += 1;
    for (const live of this.kept.values()) if (live.isConnected) live.stop();
    this.desk.flush();
  }

  /** Leave the story: its rounds are stopped, and their texts stay. */
  leave() {
    this.asked += 1;
    for (const live of this.kept.values()) live.stop();
    this.kept.clear();
    this.shown = null;
    this.runs.forget();
  }

  // ---- Which round is shown

  /** @param {Live | null} live */
  show(live) {
    this.shown = live;
    this.grown.clear();
    this.desk.tell("round", { slots: null });
  }

  /** @param {Live} live */
  remember(live) {
    const key = keyOf(live.round.base);
    this.kept.delete(key);
    this.kept.set(key, live);
    for (const [oldest, each] of this.kept) {
      if (this.kept.size <= KEPT) break;
      each.stop();
      this.kept.delete(oldest);
    }
  }

  /**
   * Show the round of the place that the head has moved to.
   * @param {"undo" | "open" | "load" | "take"} why
   */
  follow(why) {
    const { head } = this.desk;
    let live = this.kept.get(keyOf(head)) ?? this.fromStory(head, why !== "undo");
    if (!live && why === "undo") live = this.shown;
    if (this.shown && this.shown !== live && this.shown.isRunning && why === "undo") this.shown.stop();
    if (live !== this.shown || why === "load") this.show(live);
    if (live && why === "load") this.attach(live);
  }

  /**
   * Make a round again from the story: one that began at this place or, with `orParent`, the one that wrote it.
   * @param {Place} place @param {boolean} orParent
   */
  fromStory(place, orParent) {
    const { story } = this.desk;
    const run =
      this.runs.at(story, place) ?? (orParent ? story.runs.get(story.nodes.get(place.node)?.run ?? "") : undefined);
    if (!run) return null;
    const known = this.kept.get(keyOf(run));
    if (known) return known;
    const { round, trails } = rebuilt(story, run);
    const live = this.newLive(round, trails);
    this.remember(live);
    return live;
  }

  /** Join a round that the server may still be writing, after a reload or a sleep. @param {Live} live */
  async attach(live) {
    const { desk } = this;
    const run = desk.story.runs.get(live.round.id);
    if (!run || live.isConnected) return;
    const isThere = await this.isRunningThere(run.request_id);
    if (isThere === false) this.settle(live); // it has ended: what was saved is what there is
    if (!isThere) return;
    if (live !== this.shown || live.isConnected) return;
    const slots = live.round.slots.map((slot) => slot.number);
    for (const { index, number } of live.round.slots) if (index !== null) slots[index] = number;
    for (let i = 0; i < slots.length; i += 1) slots[i] ??= i;
    const stream = live.attach(run.request_id, { slots });
    this.saveWhileOpen();
    await stream;
  }

  /** Whether the server still has a request; null if it does not say. @param {string} id @returns {Promise<boolean | null>} */
  async isRunningThere(id) {
    try {
      const { completions } = await this.desk.api.get("v1/srb/completions");
      return completions.some((/** @type {{id: string}} */ each) => each.id === id);
    } catch {
      return null; // the server is away; its state is told in the banner
    }
  }

  /** Close the nodes of a round that nobody writes any more. @param {Live} live */
  settle(live) {
    for (const slot of live.round.slots) live.finish(slot.number);
    this.nodes();
  }

  /** The page is shown again: take up streams that the sleep has ended. */
  comeBack() {
    const { shown } = this;
    if (shown && !shown.isConnected && shown.round.slots.some((slot) => slot.end?.reason === "lost"))
      this.attach(shown);
  }

  // ---- What a person does with the cards

  /** @param {number} number @param {{at?: number | null, go?: boolean}} [options] */
  async take(number, { at = null, go = true } = {}) {
    const { shown, desk } = this;
    if (!shown) return;
    const text = shown.round.taken(number, at);
    if (!text) return desk.notice("This card has no text yet.");
    const place = shown.place(number, text.length);
    this.endShown();
    desk.move(place, "take");
    desk.flush();
    if (go) await this.go();
    else this.follow("take");
  }

  /** @param {number} number */
  prune(number) {
    return this.withShown((live) => {
      const slot = live.round.slots[number];
      const plan = live.round.planPrune(number);
      const node = () => live.trail(number).last.node;
      live.write(number);
      const mark = (/** @type {true | null} */ value) => {
        const id = node();
        if (id) this.desk.story.setMark(id, "pruned", value);
      };
      mark(true);
      this.desk.manuscript?.record(
        () => {
          if (slot.state === "pruned") live.round.unprune(number);
          mark(null);
          this.round(live, new Set([number]));
        },
        () => {
          if (live.round.canPrune(slot)) live.round.planPrune(number);
          mark(true);
          this.round(live, new Set([number]));
        },
      );
      this.round(live, new Set([number]));
      return live.carryOut(plan, this.bodyOf(live));
    });
  }

  refill() {
    return this.withShown((live) => {
      const plan = live.round.planRefill();
      return plan ? this.carryOut(live, plan) : this.desk.notice("No card is empty: prune one first.");
    });
  }

  /** @param {number} number */
  extend(number) {
    return this.withShown((live) => {
      live.write(number);
      const plan = live.round.planExtend(number, this.desk.settings.max_tokens);
      const trail = live.trail(number);
      if (plan.kind === "request") trail.resume(plan.given.length);
      return this.carryOut(live, plan, new Map([[number, trail]]));
    });
  }

  /** @param {number} number @param {number | null} [at] @param {number} [count] */
  vary(number, at, count = VARIED) {
    return this.withShown((live) =>
      this.fork(live, number, live.round.planVary(number, at ?? live.round.slots[number].mark, count)),
    );
  }

  /** @param {number} [count] */
  more(count = this.desk.settings.n) {
    return this.withShown((live) => this.carryOut(live, live.round.planMore(count)));
  }

  /** @param {number | null} number @param {number} at @param {string} rival */
  choose(number, at, rival) {
    if (number === null) return this.chooseInText(at, rival);
    return this.withShown((live) => this.fork(live, number, live.round.planChoose(number, at, rival)));
  }

  /** Go on from the manuscript's first `at` characters and another word. @param {number} at @param {string} rival */
  async chooseInText(at, rival) {
    const { desk } = this;
    this.endShown();
    desk.move(desk.story.edit(desk.head, at, desk.text.length, rival), "take");
    await this.go();
  }

  /** @param {number | null} number @param {number} at */
  async alternatives(number, at) {
    const { desk, shown } = this;
    if (number === null || !shown)
      return likelyTokens(desk.api, (await desk.prompt.prepare(desk.text.slice(0, at))).prompt);
    await this.makeReady(shown);
    return likelyTokens(desk.api, shown.round.prompt + shown.round.slots[number].text.slice(0, at));
  }

  /** Carry out a plan whose branches begin with a part of a card. @param {Live} live @param {number} number @param {Plan} plan */
  fork(live, number, plan) {
    live.write(number);
    if (plan.kind !== "request") return this.carryOut(live, plan);
    const { text } = live.round.slots[number];
    let shared = 0;
    while (shared < plan.given.length && plan.given[shared] === text[shared]) shared += 1;
    return this.carryOut(live, plan, new Map(plan.slots.map((each) => [each, live.trail(number).fork(shared)])));
  }

  sort() {
    this.arrange((round) => round.sort());
  }

  fold() {
    this.arrange((round) => round.fold());
  }

  /** Change order or folds; undo puts them back. @param {(round: Round) => unknown} change */
  arrange(change) {
    const live = this.shown;
    if (!live) return;
    const before = live.round.arrangement();
    change(live.round);
    const after = live.round.arrangement();
    const put = (/** @type {typeof before} */ arrangement) => {
      live.round.rearrange(arrangement);
      this.round(live, null);
    };
    this.desk.manuscript?.record(
      () => put(before),
      () => put(after),
    );
    this.round(live, null);
  }

  /** Change what a card shows. @param {(round: Round) => unknown} change @param {number[]} [numbers] */
  change(change, numbers) {
    if (!this.shown) return;
    change(this.shown.round);
    this.round(this.shown, numbers ? new Set(numbers) : null);
  }

  /** @param {(live: Live) => unknown} act */
  withShown(act) {
    const live = this.shown;
    if (!live) return;
    return this.guard(async () => {
      await this.makeReady(live);
      return act(live);
    });
  }

  /** Make the prompt of a round that was made again from the story. @param {Live} live */
  async makeReady({ round }) {
    if (round.prompt === null)
      round.prompt = (await this.desk.prompt.prepare(this.desk.story.text(round.base.node, round.keep))).prompt;
  }

  /** @param {Live} live @param {Plan} plan @param {import("./live.js").Live["trails"]} [trails] */
  async carryOut(live, plan, trails) {
    const done = live.carryOut(plan, this.bodyOf(live), trails);
    this.saveWhileOpen();
    await done;
  }

  /** @param {Live} live @returns {(given: string, n: number, seedOffset: number) => object} */
  bodyOf(live) {
    return (given, n, seedOffset) => this.body(live.round.prompt + given, n, seedOffset);
  }

  /** Show an error of an action as a notice. @param {() => Promise<unknown>} act */
  async guard(act) {
    try {
      await act();
    } catch (error) {
      this.desk.notice(/** @type {Error} */ (error).message, "error");
      this.desk.checkServer();
    }
  }

  // ---- What a round reports (Listener)

  /** @param {Live} live @param {Set<number>} slots */
  text(live, slots) {
    if (live !== this.shown) return;
    for (const number of slots) this.grown.add(number);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const grown = this.grown;
      this.grown = new Set();
      this.desk.tell("text", { slots: grown });
    });
  }

  /** @param {Live} live @param {Set<number> | null} slots */
  round(live, slots) {
    if (live === this.shown) this.desk.tell("round", { slots });
  }

  /** The story has new nodes. */
  nodes() {
    this.desk.changed();
    this.desk.tell("nodes", { ids: null });
  }

  /** @param {Live} live @param {Error} error */
  failed(live, error) {
    const { n_prompt_tokens: tokens } = /** @type {any} */ (error).body?.error ?? {};
    const prompt = live.round.prompt;
    if (tokens && prompt !== null) this.desk.prompt.learn(prompt, tokens); // the next prompt is cut to what fits
    this.desk.notice(error.message, "error", { label: "Try again", run: () => this.go() });
    this.desk.checkServer();
  }

  /** @param {Live} live @param {string} id @param {any} event */
  began(live, id, event) {
    const { desk } = this;
    const { round } = live;
    if (round.prompt !== null) desk.prompt.learn(round.prompt, event.prompt_tokens);
    if (desk.story.runs.has(round.id)) return;
    const { node, at } = round.base;
    const { settings } = desk;
    const request = { n: round.n, keep: round.keep, max_tokens: settings.max_tokens, stop_at: settings.stop_at };
    const { model } = desk.server;
    desk.story.addRun({
      id: round.id,
      node,
      at,
      made: Date.now(),
      model,
      request_id: id,
      seeds: event.seeds ?? [],
      request,
    });
    desk.changed();
  }

  // ---- Saving

  /** Bring the story's nodes up to date with all cards. */
  save() {
    for (const live of this.kept.values()) live.save();
  }

  /** Save once a second for as long as a stream is open. */
  saveWhileOpen() {
    this.timer ||= window.setInterval(() => {
      this.save();
      if ([...this.kept.values()].some((live) => live.isConnected)) return;
      clearInterval(this.timer);
      this.timer = 0;
    }, SAVE);
  }
}

/** @param {Place} place */
function keyOf({ node, at }) {
  return `${node}:${at}`;
}
