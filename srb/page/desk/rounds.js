/** The rounds of the open story: the one that is shown, those that undo may show again, and the saving of all. With it comes
 * all that is needed from the first Ctrl+Enter on, and not before. */

import { hasSentence } from "../cuts.js";
import { msg } from "../languages.js";
import { ladderOf, noteMoods, rungFields } from "../moods.js";
import { Round } from "../round.js";
import { rungs } from "../sampling.js";
import { inPieces } from "../story/asked.js";
import { newId } from "../story.js";
import { GO_ON } from "../tasks.js";
import { isTaken, shuffled } from "./blind.js";
import { Elsewhere } from "./elsewhere.js";
import { gapAt, passageAt } from "./gap.js";
import { Gestures } from "./gestures.js";
import { growthLeft } from "./growth_record.js";
import { Live } from "./live.js";
import { move } from "./moves.js";
import { RunIndex, rebuilt } from "./past_rounds.js";
import { continuedWords, isStale, ownWords, seamOf } from "./seam.js";
import { StoryTrail } from "./story_trail.js";
import { Voices } from "./voices.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{n?: number, isAtEnd?: boolean, isFilling?: boolean, task?: import("../tasks.js").Task | null, directions?: string[]}} Going   `isAtEnd`: wherever
 *   the caret is; `isFilling`: in the place of what is selected; `task`: what is asked for; `directions`: what happens in each card */
/** @typedef {import("../story/types.js").Place} Place */

const KEPT = 30; // rounds whose cards stay in memory; older ones are made again from the story
const SAVE = 1000; // ms between two saves of texts that grow
const AT_ONCE = 3; // streams of this page: a browser opens six connections to a host
const SOON = 1000; // ms until a lost stream is taken up again; twice as long after each failure
const LATEST = 60_000;
const FRAME = 1000 / 60; // ms
const BEAT = 50; // ms between two tellings of texts that grow
const FAST_BEAT = 150; // of those that grow faster than anybody reads: each drawing takes time from the model beside it
const READ = 100; // characters a second

export class Rounds {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.gestures = new Gestures(this);
    this.voices = new Voices(desk);
    this.elsewhere = new Elsewhere(this);
    this.trail = new StoryTrail(this);
    /** @type {Live | null} */
    this.shown = null;
    /** @type {Live | null} what was shown before `go`, until the server has begun the new round */
    this.before = null;
    /** @type {Map<string, Live>} by the id of a round; the latest used last */
    this.kept = new Map();
    this.runs = new RunIndex();
    this.asked = 0; // counts `go`, so that only the last one begins a round
    this.awaited = 0; // the number of the `go` that waits for what its round needs
    /** @type {Set<number>} slots whose texts have grown since the last frame */
    this.grown = new Set();
    this.isTelling = false; // a frame or the timer for it is under way
    this.told = { at: Number.NEGATIVE_INFINITY, length: 0 }; // performance.now() and characters of the shown round
    this.beat = BEAT; // of the last texts: the next ones grow as fast
    this.beatTimer = 0;
    this.timer = 0;
    this.wait = SOON;
    /** @type {(() => void)[]} what waits for a connection */
    this.waiting = [];
    /** @type {AbortController | null} of the reading of what follows the cards, or of the text before the first round */
    this.reading = null;
    this.warmed = ""; // the story and the model for which the text was computed last, since the server is ready
    /** @type {number | null} percent of the text that is computed, while a person might wait for it */
    this.warming = null;
    /** @type {Live | null} whose requests are being taken up again */
    this.attaching = null;
    /** @type {import("./growing.js").Growth | null} what lets the story grow by itself */
    this.growth = null;
    this.growthTimer = 0; // until a growth may be taken up
    /** @type {string[]} nodes: the ends of what has grown last that differ most */
    this.ends = [];
    desk.addEventListener("server", () => {
      this.warmUp();
      this.chooseCards();
    });
  }

  /** The context of the story's own model. */
  get context() {
    return this.voices.own;
  }

  // ---- Begin and end

  /**
   * Continue the text. The first word is waited for, and the server may share the cores with this page: the request goes before
   * all that is drawn, and before the end of the round that was shown.
   * @param {Going} [options]
   */
  async go({ n = this.desk.settings.n, isAtEnd = false, isFilling = false, task = null, directions } = {}) {
    const { desk } = this;
    this.reading?.abort();
    this.asked += 1;
    this.warmed = this.ofNow;
    const ticket = this.asked;
    const endOnServer = this.endShown();
    const base = desk.settle();
    const { text } = desk;
    const isPassage = isFilling || (task !== null && task.verb !== GO_ON);
    const { at: keep, until } =
      (isPassage && desk.manuscript && passageAt(text, desk.manuscript.selection)) ||
      gapAt(text, isAtEnd ? text.length : (desk.manuscript?.caret() ?? text.length));
    const passage = text.slice(keep, until).trim();
    const going = desk.guard(async () => {
      const next = this.voices.next();
      const voices = next instanceof Promise ? await this.waitFor(next, ticket) : next;
      const texts = { before: text.slice(0, keep), behind: text.slice(until) };
      const told = directions ?? (isPassage ? [] : desk.settings.directions);
      const isDirected = told.some(Boolean);
      const prepared = this.prepare(voices, texts, {
        isNext: true,
        passage,
        task,
        isDirected,
        shared: sharedOf(told, n),
        of: base,
      });
      const { prompts, lore } = prepared instanceof Promise ? await this.waitFor(prepared, ticket) : prepared;
      while (!this.hasRoom(voices.length) && !this.makeRoom({ wanted: voices.length }) && ticket === this.asked)
        await this.waitFor(this.whenRoom(), ticket);
      if (ticket !== this.asked) return;
      const stopAt = this.context.stopAt(task);
      const written = Math.min(desk.settings.chosen_from ?? 0, desk.server.max_n);
      const count = Math.max(n, written, voices.length); // each has one at least
      const round = new Round({
        id: newId(),
        base,
        keep,
        until,
        n: count,
        prompts,
        voices,
        lore,
        stopAt,
        task,
        passage,
        directions: isDirected ? Array.from({ length: count }, (_, place) => told[place % n] ?? "") : [],
        wanted: written > n ? n : 0,
        isBlind: desk.settings.blind,
      });
      if (round.isBlind) round.order = shuffled(round.order);
      const live = this.newLive(round);
      this.remember(live);
      this.before = this.shown;
      const streams = round.isShared ? this.beginShared(live) : live.begin(this.body(round)); // on their way while the cards are laid out
      if (desk.server.status === "unloaded") desk.checkServer(); // its progress is shown
      this.show(live);
      this.saveWhileOpen();
      await streams;
    });
    endOnServer();
    await going;
  }

  /** Begin a request of each voice. All but the first to begin join the round, so each can be tried again alone. @param {Live} live */
  beginShared(live) {
    const { round } = live;
    const streams = [...round.shares()].map(([voice, slots]) =>
      live.begin(this.body(round, { n: slots.length, voice, slots }), { slots, kind: "more", voice }),
    );
    return Promise.all(streams);
  }

  /**
   * Return what each voice reads, and the entries of the lorebook in the first one's prompt; a promise of them if the server makes it.
   * @param {readonly string[]} voices @param {{before: string, behind: string}} texts
   * @param {Parameters<import("./context.js").Context["prepare"]>[2]} options
   */
  prepare(voices, { before, behind }, options) {
    const prepared = voices.map((voice) => this.voices.of(voice).context.prepare(before, behind, options));
    const together = (/** @type {import("./context.js").Prepared[]} */ all) => ({
      prompts: new Map(all.map((each, place) => [voices[place] ?? "", each])),
      lore: all[0]?.lore ?? [],
    });
    const isThere = (/** @type {unknown} */ each) => !(each instanceof Promise);
    return prepared.every(isThere)
      ? together(/** @type {import("./context.js").Prepared[]} */ (prepared))
      : Promise.all(prepared).then(together);
  }

  /**
   * Wait for what a round needs before it begins. Meanwhile the desk is running, and can be stopped.
   * @template T @param {Promise<T>} needed @param {number} ticket @returns {Promise<T>}
   */
  async waitFor(needed, ticket) {
    const { desk } = this;
    this.awaited = ticket;
    const isUnloaded = desk.server.status === "unloaded";
    if (isUnloaded) desk.checkServer(); // a prompt that the server makes has the model loaded
    if (isUnloaded) desk.tell("round", { slots: null });
    try {
      return await needed;
    } finally {
      if (this.awaited === ticket) this.awaited = 0;
      if (isUnloaded) desk.tell("round", { slots: null });
    }
  }

  /** Whether a round is being prepared, and was not called off. */
  get isPreparing() {
    return this.awaited > 0 && this.awaited === this.asked;
  }

  /** @param {Round} round @param {import("./live.js").Live["trails"]} [trails] */
  newLive(round, trails) {
    return new Live({ api: this.desk.api, story: this.desk.story, round, trails, listener: this });
  }

  /**
   * Return the body of a round's request, with the story's settings.
   * @param {Round} round @param {Partial<import("../round.js").NewRequest>} [plan] of a request that is not for all of the round
   */
  body(round, plan = {}) {
    const { given = "", n = round.n, seedOffset = 0, neverEnds = false, voice = round.voices[0], expect, slots } = plan;
    const { seed } = this.desk.settings;
    const { context, fields } = this.voices.of(voice);
    const { branches: all, ...body } = context.body(round.promptOf(voice) + given, n, round);
    const again = slots && (expect === "refill" || expect === "extend") ? this.rungsOf(round, slots) : null;
    const branches = again ? again.values.map((value) => rungFields(again.ladder, value)) : all;
    const directions = round.directionsOf(slots ?? round.slots.map(({ number }) => number));
    return {
      ...body,
      ...fields,
      ...directed({ branches, directions }),
      ...(directions.some(Boolean) ? context.placeField(round, given, voice) : {}),
      ...(round.wanted && !("logprobs" in body) ? { rank: true } : {}),
      ...(seed === null ? {} : { seed: seed + seedOffset }),
      ...(neverEnds ? { ignore_eos: true } : {}),
    };
  }

  /** Return the ladder's values for cards that get another branch, each its own rung again; null without a ladder.
   * @param {Round} round @param {number[]} slots */
  rungsOf({ n, voices }, slots) {
    const ladder = ladderOf(this.desk.settings, this.desk.server);
    if (!ladder) return null;
    const values = rungs(ladder, Math.ceil(n / voices.length)); // each voice climbs its own
    return { ladder, values: slots.map((number) => values[Math.floor(number / voices.length) % values.length]) };
  }

  /** The ladder's values that a request's branches have, for the story: desk/taken.js. @param {Round} round @param {import("../round.js").Request} [request] */
  stepsOf(round, { slots = [], kind = null } = /** @type {any} */ ({})) {
    const ladder = ladderOf(this.desk.settings, this.desk.server);
    if (!ladder) return {};
    const again = kind === "refill" || kind === "extend" ? this.rungsOf(round, slots) : null;
    const values = again?.values ?? rungs(ladder, slots.length);
    return { ladder: { name: ladder.name, values } };
  }

  /**
   * End the shown round for the next one, or let it finish if the settings say so. Return what ends it on the server: for after
   * the next round's request.
   * @returns {() => void}
   */
  endShown() {
    const { shown } = this;
    if (!shown) return () => {};
    const letsFinish = this.desk.settings.let_finish && shown.isRunning;
    const endOnServer = letsFinish ? () => {} : shown.drop();
    if (letsFinish) this.makeRoom();
    shown.save();
    return endOnServer;
  }

  /**
   * Free connections for so many more requests and one for saving: requests that only rest go first, then the oldest round that
   * still writes. Returns whether there is room.
   * @param {{live?: Live, wanted?: number}} [options] `live` has to go on
   */
  makeRoom({ live, wanted = 1 } = {}) {
    const lives = [...this.kept.values()];
    for (const each of lives) {
      let ends = true;
      while (ends && !this.hasRoom(wanted)) ends = each.endResting();
    }
    for (const each of lives) if (!this.hasRoom(wanted) && each !== live && each.isConnected) each.stop();
    return this.hasRoom(wanted);
  }

  /** Whether this page may have so many connections more for requests. */
  hasRoom(wanted = 1) {
    let streams = 0;
    for (const each of this.kept.values()) streams += each.streams.size;
    return streams + wanted <= AT_ONCE;
  }

  /** Wait for a connection: a request that was stopped before its id was known is ended when the server has told it. @returns {Promise<void>} */
  whenRoom() {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Free the connections of all requests that only rest. What is asked of them later begins requests of its own. */
  endResting() {
    for (const live of this.kept.values()) {
      let ends = true;
      while (ends) ends = live.endResting();
    }
  }

  stop() {
    const { isPreparing } = this;
    this.reading?.abort();
    this.asked += 1;
    for (const live of this.kept.values()) if (live.isConnected) live.stop();
    if (isPreparing) this.desk.tell("round", { slots: null });
    this.desk.flush();
  }

  /** Begin to read what follows the cards, in place of a reading that goes on. */
  beginReading() {
    this.reading?.abort();
    this.reading = new AbortController();
    return this.reading;
  }

  /** The open story and its model. */
  get ofNow() {
    return `${this.desk.story.id} ${this.desk.server.model}`;
  }

  /** Whether streams of the shown round ended before their branches did: they are to be taken up again first. */
  get isLost() {
    return this.shown?.round.slots.some((slot) => slot.end?.reason === "lost") ?? false;
  }

  /** Have the open story's text computed once, before its first round. A model that is not loaded is another's turn. */
  async warmUp() {
    const { desk, ofNow } = this;
    const { state, status = "loaded" } = desk.server;
    if (state !== "ready" || status !== "loaded") this.warmed = "";
    else if (this.warmed !== ofNow && !desk.isRunning && !this.isLost && desk.text.trim()) {
      this.warmed = ofNow;
      const { signal } = this.beginReading();
      await import("./warming.js").then(({ warm }) => warm(this, signal)).catch(() => {}); // nobody waits for it: the round computes what is missing
    }
  }

  /** @param {number | null} percent */
  tellWarming(percent) {
    if (this.warming === percent) return;
    this.warming = percent;
    this.desk.tell("rounds");
  }

  /** Leave the story: its rounds are read no more, and their branches go on to their ends at the server. */
  leave() {
    this.asked += 1;
    this.reading?.abort();
    this.growth?.stop();
    this.ends = [];
    for (const live of this.kept.values()) live.leave();
    this.kept.clear();
    this.shown = this.before = null;
    this.runs.forget();
    this.voices.forget();
    this.trail.forget();
  }

  /** Return the latest round that continues a place, if it is kept. @param {Place} place */
  at(place) {
    return [...this.kept.values()].reverse().find((live) => live.isAt(place));
  }

  // ---- Which round is shown

  /** What the shown cards go on from, if the text has other words there now; null if they just go on. */
  get seam() {
    const { desk, gap, shown } = this;
    if (!shown || !gap || !isStale(gap)) return null;
    return { ...gap, passage: shown.round.passage, from: continuedWords(desk.story, shown.round) };
  }

  /** Where the shown cards go in the present text. */
  get gap() {
    return this.shown && seamOf(this.desk.story, this.shown.round, this.desk.head);
  }

  /** Whether the shown cards are covered, for a person who writes first: until a sentence of hers stands where they go. */
  get isCovered() {
    const { desk, gap, shown } = this;
    if (!shown || !gap || !desk.settings.writes_first || shown.round.passage) return false;
    shown.isOpen ||= hasSentence(ownWords(desk.story, desk.head, gap));
    return !shown.isOpen;
  }

  /** Whether the shown cards hide which model wrote them, in which order, and how likely they are. */
  get isBlind() {
    const { round } = this.shown ?? {};
    return !!round?.isBlind && !isTaken(this.desk.story, round.id);
  }

  /** Show the cards that are covered. */
  uncover() {
    if (this.shown) this.shown.isOpen = true;
    this.desk.tell("round", { slots: null });
  }

  /** @param {Live | null} live */
  show(live) {
    this.shown = live;
    this.desk.choice = live?.round.passage ? "instead" : "after";
    this.grown.clear();
    this.told = { at: Number.NEGATIVE_INFINITY, length: 0 }; // its first words do not wait
    if (this.beatTimer) this.isTelling = false;
    clearTimeout(this.beatTimer);
    this.beatTimer = 0;
    this.desk.tell("round", { slots: null });
    this.chooseCards();
  }

  /** Let those cards of the shown round stand in front that differ most, once all have ended, if it has more than it is to show. */
  chooseCards() {
    const { shown, desk } = this;
    if (shown?.round.isToChoose && desk.server.state === "ready") this.gestures.chooseCards(shown);
  }

  /** @param {Live} live */
  remember(live) {
    const { id } = live.round;
    this.kept.delete(id);
    this.kept.set(id, live);
    for (const [oldest, each] of this.kept) {
      if (this.kept.size <= KEPT) break;
      each.stop();
      this.kept.delete(oldest);
    }
  }

  /**
   * Show the round of the place that the head has moved to.
   * @param {"undo" | "open" | "load" | "take"} why @param {Place} [head]
   */
  follow(why, head = this.desk.head) {
    if (why === "load") this.elsewhere.begin();
    this.asked += 1; // a round that is being prepared would continue the place that was left
    let live = this.at(head) ?? this.fromStory(head, why);
    if (!live && why === "undo") live = this.shown;
    if (this.shown && this.shown !== live && this.shown.isRunning && why === "undo") this.shown.stop();
    if (live !== this.shown || why === "load") this.show(live);
    if (live && why === "load") this.attach(live);
    if (why === "load") this.takeUpGrowth();
    if (why === "load") this.warmUp();
  }

  /**
   * Make a round again from the story: one that began at this place, or wrote it. When a story is opened, the latest one before
   * the place will do: the person had written on beside its cards.
   * @param {Place} place @param {"undo" | "open" | "load" | "take"} why
   */
  fromStory(place, why) {
    const { story } = this.desk;
    const run =
      this.runs.at(story, place) ??
      (why === "undo" ? undefined : story.runs.get(story.nodes.get(place.node)?.run ?? "")) ??
      (why === "load" ? this.runs.before(story, place) : undefined);
    if (!run) return null;
    const known = this.kept.get(run.id);
    if (known) return known;
    const { round, trails } = rebuilt(story, run, this.runs.joined(story, run));
    const live = this.newLive(round, trails);
    this.remember(live);
    return live;
  }

  /** Read a round again that the server may still be writing, after a reload or a sleep: all of its requests. @param {Live} live */
  async attach(live) {
    if (!live.lostIds.length || this.attaching === live) return;
    this.attaching = live;
    const running = await this.runningThere();
    this.attaching = null;
    if (!running) return this.takeUp(live);
    this.settle(live, running);
    if (live !== this.shown) return;
    const streams = [];
    for (const id of live.lostIds.filter((each) => running.has(each)))
      if (this.makeRoom({ live })) streams.push(live.attach(id));
    if (streams.length) this.saveWhileOpen();
    await Promise.all(streams);
  }

  /**
   * Take up again, in a while, what a round has lost. A server that is away tells when it is back (`serverChanged`); after a
   * sleep, or a moment without a network, it was never seen away, and nothing else would.
   * @param {Live} live
   */
  async takeUp(live) {
    await this.desk.checkServer();
    if (this.desk.server.state !== "ready") return;
    window.setTimeout(() => live === this.shown && this.comeBack(), this.wait);
    this.wait = Math.min(LATEST, 2 * this.wait);
  }

  /** The ids of the requests that the server still has; null if it does not say. @returns {Promise<Set<string> | null>} */
  async runningThere() {
    try {
      const { completions } = await this.desk.api.get("v1/srb/completions");
      return new Set(completions.map((/** @type {{id: string}} */ each) => each.id));
    } catch {
      return null;
    }
  }

  /** Close the nodes of branches that nobody writes any more: what was saved is what there is. @param {Live} live
   * @param {Set<string>} running ids of requests */
  settle(live, running) {
    for (const { number, request } of live.round.slots)
      if (!running.has(live.round.requests.get(request ?? "")?.id ?? "")) live.finish(number);
    this.nodes();
  }

  /** Take up streams that a sleep or a proxy has ended. */
  comeBack() {
    if (this.shown && this.isLost) this.attach(this.shown);
  }

  // ---- Other places of the story

  /** Make another place the manuscript. @param {Place} place */
  visit(place) {
    const { desk } = this;
    desk.before ??= { head: desk.head };
    this.save();
    move(desk, place, "open");
    this.follow("open");
  }

  /** Show a place again that the last move has left, with its cards. @param {Place} place @param {number} [caret] where it was */
  moveBack(place, caret) {
    move(this.desk, place, "take", caret);
    this.follow("undo");
  }

  /** Go back to where the person was. */
  endVisit() {
    const { desk } = this;
    const { before } = desk;
    desk.before = null;
    if (!before) return;
    move(desk, before.head, "open");
    this.follow("open");
  }

  // ---- What a round reports (Listener)

  /** @param {Live} live @param {Set<number>} slots */
  text(live, slots) {
    this.wait = SOON;
    if (live !== this.shown) return;
    for (const number of slots) this.grown.add(number);
    if (this.isTelling) return;
    this.isTelling = true;
    const wait = this.told.at + this.beat - FRAME / 2 - performance.now(); // the frame comes up to one later
    if (wait > 0) this.beatTimer = window.setTimeout(() => this.tellInFrame(), wait);
    else this.tellInFrame();
  }

  tellInFrame() {
    this.beatTimer = 0;
    requestAnimationFrame(() => {
      this.isTelling = false;
      this.findBeat();
      const { grown } = this;
      this.grown = new Set();
      this.desk.tell("text", { slots: grown });
    });
  }

  /** See how fast the texts have grown since they were told of last. */
  findBeat() {
    const at = performance.now();
    const length = this.shown?.round.slots.reduce((sum, { text }) => sum + text.length, 0) ?? 0;
    const each = (length - this.told.length) / Math.max(1, this.grown.size);
    const isFirst = this.told.at < 0;
    if (!isFirst) this.beat = (1000 * each) / (at - this.told.at) > READ ? FAST_BEAT : BEAT;
    this.told = { at, length };
  }

  /** @param {Live} live @param {Set<number> | null} slots */
  round(live, slots) {
    if (live.round.isShared) live.giveWay();
    if (this.waiting.length && this.hasRoom()) for (const go of this.waiting.splice(0)) go();
    if (live !== this.shown) return;
    this.desk.tell("round", { slots });
    this.chooseCards();
  }

  /** The story has new nodes, or longer texts in them. */
  nodes() {
    this.desk.changed();
    this.desk.tell("nodes", { ids: null, isGrowth: this.shown?.isRunning ?? false });
  }

  /** @param {Live} live @param {Error} error @param {string} key of the request */
  failed(live, error, key) {
    const { n_prompt_tokens: tokens } = /** @type {any} */ (error).body?.error ?? {};
    const voice = live.round.requests.get(key)?.voice ?? "";
    const prompt = live.round.promptOf(voice);
    if (tokens && prompt !== null) this.voices.of(voice).context.learn(prompt, tokens); // the next prompt is cut to what fits
    this.desk.notice(error.message, "error", this.wayOut(error, live, key), live.round.id);
    if (/** @type {any} */ (error).isTemporary) this.takeUp(live);
    else this.desk.checkServer();
    if (live === this.shown && this.before && !live.hasBegun && !live.isAsking(key)) this.takeBack(live);
  }

  /**
   * What a person can do after a failure: a request that joined a round is tried again for its own cards, not for all.
   * @param {Error} error @param {Live} live @param {string} key of the request
   */
  wayOut(error, live, key) {
    const isOfModel = /** @type {any} */ (error).body?.error?.models !== undefined;
    if (isOfModel)
      return { label: msg`Choose another model`, run: () => this.desk.openDialog("settings", { section: "model" }) };
    const { id, kind } = /** @type {import("../round.js").Request} */ (live.round.requests.get(key));
    const { isShared } = live.round;
    const isFirst = id === null ? kind === null : !isShared && id === live.story.runs.get(live.round.id)?.request_id;
    const isAll = () => isFirst || (isShared && !live.hasBegun);
    return { label: msg`Try again`, run: () => (isAll() ? this.go() : this.gestures.again(live, key)) };
  }

  /** Show the cards again that a round has replaced of which the server knows nothing. @param {Live} live */
  takeBack(live) {
    this.kept.delete(live.round.id);
    this.show(this.before);
  }

  troubled() {
    this.desk.checkServer();
  }

  /** @param {Live} live @param {string} id @param {any} event */
  began(live, id, event) {
    const { desk } = this;
    const { round } = live;
    const request = [...round.requests.values()].find((each) => each.id === id);
    const { given = "", slots = [], mended = null, voice = "" } = request ?? {};
    const prompt = round.promptOf(voice);
    const { context, asked: by } = this.voices.of(voice);
    if (prompt !== null) context.learn(prompt + given, event.prompt_tokens);
    desk.tell("withdrawn", { about: round.id }); // it is lost no more
    if (event.event !== "start") return; // its run is in the story
    const { max_tokens } = desk.settings;
    const joins = desk.story.runs.has(round.id);
    const reads = mended === null ? {} : { mended: true }; // it is not what the run's place says
    const { n, keep, until, isInside, lore, task, stopAt: stop_at, wanted } = round;
    const place = { keep, ...(isInside ? { until } : {}) };
    const share = round.isShared ? { voice, slots } : {};
    const told = round.directionsOf(slots);
    const steps = this.stepsOf(round, request);
    noteMoods(round, slots, steps.ladder);
    const more = {
      ...(told.some(Boolean) ? { directions: told } : {}),
      ...steps,
      ...(live === this.growth?.live ? { grown: true } : {}),
    };
    const own = joins
      ? { n: slots.length, given, slots, ...reads, ...share, ...more }
      : {
          n,
          ...place,
          ...more,
          ...(task ? { task } : {}),
          stop_at,
          ...(lore.length ? { lore } : {}),
          ...(wanted ? { shown: wanted } : {}),
          ...(round.isBlind ? { blind: true } : {}),
          ...share,
        };
    const asked = request?.body && inPieces(desk.story, round.base, request.body, prompt + given, by.server);
    if (request) request.body = null;
    if (desk.story.meta("head") === undefined) desk.story.head = desk.head; // else the newest card would be the text
    desk.story.addRun({
      id: joins ? newId() : round.id,
      ...round.base,
      made: Date.now(),
      model: by.server.model,
      request_id: id,
      seeds: event.seeds ?? [],
      request: { ...own, max_tokens },
      ...(joins ? { round: round.id } : {}),
      ...(asked ? { asked } : {}),
    });
    desk.changed();
  }

  // ---- Saving

  /** Bring the story's nodes up to date with all cards. */
  save() {
    for (const live of this.kept.values()) live.save();
    this.growth?.save();
  }

  /** Let the story grow by itself, as far as a budget goes. @param {import("./growing.js").Budget} budget */
  async grow(budget) {
    await this.desk.guard(async () => {
      const { Growth } = await import("./growing.js");
      if (this.growth) return; // it grows already
      this.growth = new Growth(this, budget);
      this.desk.tell("rounds");
      try {
        await this.growth.run();
      } finally {
        this.growth = null;
        this.desk.tell("rounds");
      }
    });
  }

  /** Let the story grow on whose window was closed while it grew, unless another one is at that. */
  takeUpGrowth() {
    clearTimeout(this.growthTimer);
    const { left, wait = 0 } = growthLeft(this.desk.story.id) ?? {};
    if (!left || this.growth) return;
    if (wait > 0) this.growthTimer = window.setTimeout(() => this.takeUpGrowth(), wait);
    else this.grow({ left });
  }

  /** Save once a second for as long as a stream is open. */
  saveWhileOpen() {
    this.timer ||= window.setInterval(() => {
      this.save();
      if ([...this.kept.values(), this.growth?.live].some((live) => live?.isConnected)) return;
      clearInterval(this.timer);
      this.timer = 0;
    }, SAVE);
  }
}

/** The direction that all cards have; "" if theirs differ. @param {string[]} told @param {number} n */
const sharedOf = ([first = "", ...others], n) =>
  others.length === n - 1 && others.every((each) => each === first) ? first : "";

/**
 * Return the fields that tell branches apart, of a request: a ladder's values, and what happens in each.
 * @param {{branches?: unknown, directions: string[]}} given
 */
function directed({ branches, directions }) {
  if (!directions.some(Boolean)) return branches ? { branches } : {};
  if (!Array.isArray(branches)) return { directions };
  return { branches: branches.map((each, place) => ({ ...each, direction: directions[place] })) };
}
