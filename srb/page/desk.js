/**
 * The desk: the open story, the place in it that the manuscript shows (the head), and the round of cards beside it. Only the desk
 * changes them; parts read its fields, call its actions and listen to its events. A person can write before the rounds are
 * loaded; what needs them waits for them.
 */

import { settingsOf, withLooks } from "./desk/defaults.js";
import { ServerWatch } from "./desk/server_watch.js";
import { Typing } from "./desk/typing.js";
import { WordCount } from "./desk/words.js";
import { titleOf } from "./keep/describe.js";
import { sentenceOf } from "./keep/standing.js";
import { msg } from "./languages.js";
import { Story } from "./story.js";

/** @typedef {import("./story/types.js").Place} Place */
/** @typedef {import("./round.js").Round} Round */
/** @typedef {import("./keep.js").Keeper} Keeper */
/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./desk/rounds.js").Rounds} Rounds */
/** @typedef {{label: string, run: () => void}} Action what a notice offers */
/** @typedef {import("./desk/typing.js").Manuscript} Manuscript */
/** @typedef {{number?: number, place?: Place, ways?: import("./desk/past_ways.js").Ways, isThere?: boolean, moves: boolean}} Ghost   a card, another text
 *   of the story, or what a past round offered (`isThere`: the text has it); `moves`: the manuscript shows the place
 *   where it would stand */

const REST = 10_000; // ms that a hidden page keeps connections on which nothing is written
/** @type {import("./desk/context.js").Share} */
const NO_CONTEXT = { used: 0, limit: 0, cut: 0, parts: [] };

/** Topics: story, head, caret, round, text (in a frame, at most twenty times a second), nodes, ghost, saved, server, notice, withdrawn, dialog, side (its panel opens or closes). */
export class Desk extends EventTarget {
  /** @param {{api: Api, keeper: Keeper}} given */
  constructor({ api, keeper }) {
    super();
    this.api = api;
    this.keeper = keeper;
    this.story = Story.create();
    /** @type {Place} */
    this.head = this.story.head;
    /** @type {Place} where the head was when the story was opened */
    this.opened = this.head;
    this.settings = settingsOf(this.story);
    this.watch = new ServerWatch(api, () => this.serverChanged());
    this.watch.isAwaited = () => this.isRunning;
    /** @type {Rounds | null} null until they are loaded */
    this.rounds = null;
    /** @type {Promise<Rounds> | null} */
    this.loading = null;
    this.waiting = 0; // acts that wait for them
    this.stops = 0; // so often a person has stopped the branches
    this.hidden = 0; // timer of a page that is hidden
    this.typing = new Typing(this);
    this.wordCount = new WordCount();
    /** @type {import("./desk/seam.js").Choice} where a card goes if a person has typed where it goes on */
    this.choice = "after";
    /** @type {Manuscript | null} */
    this.manuscript = null;
    /** @type {Ghost | null} the card that is shown in the text */
    this.ghost = null;
    /** @type {{head: Place} | null} where the story was before a place in the outline was opened */
    this.before = null;
    keeper.addEventListener("state", () => this.tell("saved"));
    keeper.addEventListener("merged", (event) => this.merged(/** @type {CustomEvent} */ (event).detail));
    keeper.addEventListener("apart", (event) => this.sayApart(/** @type {CustomEvent} */ (event).detail));
    keeper.addEventListener("binned", () => this.offerRestore(this.story.id));
    keeper.addEventListener("crowded", (event) => this.crowded(/** @type {CustomEvent} */ (event).detail));
  }

  /** Open the story that was open last, or begin one. @param {Manuscript} manuscript */
  async start(manuscript) {
    this.manuscript = manuscript;
    this.watch.check();
    this.setStory((await this.keeper.openLast()) ?? Story.create());
  }

  // ---- What parts read

  get round() {
    return this.rounds?.shown?.round ?? null;
  }

  /** What the cards go on from and what a person has typed behind it, if that is not the present text; else null. */
  get seam() {
    return this.rounds?.seam ?? null;
  }

  get isRunning() {
    return this.rounds?.isPreparing || (this.rounds?.shown?.isRunning ?? this.waiting > 0);
  }

  get server() {
    return this.watch.server;
  }

  get saved() {
    const { state, at, message } = this.keeper;
    return { state, at, message };
  }

  /** The manuscript's text. */
  get text() {
    return this.story.text(this.head.node, this.head.at);
  }

  /** The words that are selected; "" if there are none. */
  get selected() {
    const { from, to } = this.manuscript?.selection ?? { from: 0, to: 0 };
    return from === to ? "" : this.text.slice(from, to).trim();
  }

  /** Whether words stand behind the caret. */
  get isInside() {
    return this.manuscript?.isInside ?? false;
  }

  get title() {
    return /** @type {string | undefined} */ (this.story.meta("title")) || titleOf(this.text) || msg`Untitled`;
  }

  /** The number of words in the manuscript. */
  get words() {
    return this.wordCount.at(this.story, this.head);
  }

  /** How much of the model's context the manuscript takes: `used` and `limit` in tokens, `cut` characters that are not sent,
   * `parts` the prompt's. The limit is 0 while it is not known. */
  get context() {
    return this.rounds?.context.measure() ?? NO_CONTEXT;
  }

  // ---- Events

  /** @param {string} topic @param {object} [detail] */
  tell(topic, detail) {
    this.dispatchEvent(new CustomEvent(topic, { detail }));
  }

  /** Show a sentence. @param {string} text @param {"info" | "error"} [kind] @param {Action} [action] @param {string} [about] by which it is withdrawn */
  notice(text, kind = "info", action, about) {
    this.tell("notice", { text, kind, action, about });
  }

  /** @param {string} name of a dialog: parts/dialogs.js @param {object} [detail] */
  openDialog(name, detail = {}) {
    this.tell("dialog", { name, ...detail });
  }

  serverChanged() {
    this.tell("server");
    if (this.server.state !== "ready") return;
    this.keeper.wake?.();
    this.rounds?.comeBack();
  }

  checkServer() {
    return this.watch.check();
  }

  async askKey() {
    await this.api.newKey(this.api.key, { isWanted: true });
    await this.checkServer();
  }

  // ---- Stories

  /** @param {Story} story */
  setStory(story) {
    this.rounds?.leave();
    this.story = story;
    story.person = this.keeper.person;
    this.before = null;
    this.head = this.opened = story.head;
    this.readSettings();
    this.keeper.open(story);
    this.wordCount.forget();
    this.manuscript?.load(this.text, story.pieces(this.head.node, this.head.at), this.head);
    this.tell("story");
    this.tell("head", { why: "load" });
    this.tell("nodes", { ids: null });
    this.rounds?.follow("load");
  }

  newStory() {
    this.setStory(withLooks(Story.create(), this.settings));
    this.manuscript?.focus();
  }

  /** @param {string} id */
  async openStory(id) {
    await this.flush();
    this.setStory(await this.keeper.load(id));
  }

  /** Put a story into the bin. @param {string} id */
  async removeStory(id) {
    await this.keeper.remove(id);
    if (id === this.story.id) this.newStory();
  }

  /** Say that the open story is one of its own now, and keep the pictures that it shows. @param {{owner: string}} whose it was */
  sayApart({ owner }) {
    const name = owner || msg`Its owner`;
    this.notice(
      msg`${name} does not share this story with you any more. You go on in a copy of your own, with all of it.`,
      "error",
    );
    return this.guard(async () => this.rounds?.context.media.keepAgain());
  }

  /** Say that the open story was put into the bin elsewhere. @param {string} id */
  offerRestore(id) {
    const run = () => this.guard(() => this.restoreStory(id));
    this.notice(msg`This story was put into the bin in another window.`, "error", { label: msg`Take it out`, run });
  }

  /** The story is nearly full; a later answer says it again. @param {import("./keep/server.js").Room} room */
  crowded(room) {
    return import("./desk/successor.js").then(
      ({ offerSuccessor }) => offerSuccessor(this, room),
      () => this.checkServer(),
    );
  }

  /** @param {string} id */
  async restoreStory(id) {
    await this.keeper.restore(id);
  }

  /** Take in a story from a file; all of it is saved. @param {Story} story */
  async importStory(story) {
    await this.flush();
    this.setStory(story);
    this.changed();
    await this.flush();
  }

  /** @param {string} title */
  setTitle(title) {
    this.setMeta("title", title.trim());
  }

  /** @param {string} text */
  setMemory(text) {
    this.setMeta("memory", text);
  }

  /** @param {import("./prompt.js").Note} note the author's note, `depth` paragraphs before the end */
  setNote(note) {
    this.setMeta("note", note);
  }

  /** @param {string} name @param {unknown} value */
  setSetting(name, value) {
    this.setMeta(`settings.${name}`, value);
  }

  /** @param {string} key @param {unknown} value */
  setMeta(key, value) {
    this.story.setMeta(key, value);
    this.readSettings();
    this.changed();
    this.tell("story");
  }

  /** Make a change of a value, which is done already, a step of undo. @param {string} key @param {unknown} before */
  recordMeta(key, before) {
    const now = this.story.meta(key);
    const set = (/** @type {unknown} */ value) => this.setMeta(key, value ?? null);
    this.record(
      () => set(before),
      () => set(now),
    );
  }

  readSettings() {
    this.settings = settingsOf(this.story);
    this.watch.follow(this.settings.model);
  }

  /** Mark a node: star, name, note, folded, pruned, seen. @param {string} id @param {string} key @param {unknown} value */
  setNodeMark(id, key, value) {
    const before = /** @type {any} */ (this.story.mark(id))[key] ?? null;
    const set = (/** @type {unknown} */ now) => {
      this.story.setMark(id, key, now);
      this.changed();
      this.tell("nodes", { ids: new Set([id]) });
    };
    set(value);
    if (key !== "seen")
      this.record(
        () => set(before),
        () => set(value),
      );
  }

  // ---- The manuscript

  /**
   * Follow a change of the manuscript: typing, pasting, undo, or a place that the desk itself has set. Return the new head.
   * @param {import("./desk/typing.js").Edit} edit
   * @returns {Place}
   */
  edited(edit) {
    return this.typing.edited(edit);
  }

  /** Let the head be a place whose text nobody changes any more, so that a round can begin there; return it. */
  settle() {
    return this.typing.settle();
  }

  closeTyped() {
    this.typing.close();
  }

  /** Make the text up to a node the manuscript. @param {string} id @param {number} [at] */
  openNode(id, at = this.story.length(id)) {
    return this.withRounds((rounds) => rounds.visit({ node: id, at }));
  }

  /** Go back to where the story was before `openNode`. */
  goBack() {
    return this.withRounds((rounds) => rounds.endVisit());
  }

  /** Take the last step back: of the editor's history, or where that has none, as after a reload, of the story's own trail. */
  undo() {
    if (this.manuscript?.undo() === false) return this.withRounds(({ trail }) => trail.back());
  }

  /** Make an act that changes no text a step of undo. @param {() => void} undo @param {() => void} redo */
  record(undo, redo) {
    this.rounds?.trail.forget();
    this.manuscript?.record(undo, redo);
  }

  /** Do again what was taken back last: steps of the trail lie before those of the editor, on whose text they depend. */
  redo() {
    if (this.rounds?.trail.isAhead) return this.rounds.trail.forward();
    if (this.manuscript?.redo() === false) return this.withRounds(({ trail }) => trail.forward());
  }

  // ---- Saving

  /** Note that the story has changed. */
  changed() {
    this.keeper.changed();
  }

  async flush() {
    this.closeTyped();
    this.rounds?.save();
    await this.keeper.flush();
  }

  /** Save at once: the page is hidden or closed. Six connections to a host serve all tabs of a browser, so a hidden one keeps only
   * those on which branches are written. */
  leave() {
    clearInterval(this.hidden);
    this.rounds?.elsewhere.leave();
    this.hidden = window.setInterval(() => this.rounds?.endResting(), REST);
    this.rounds?.save();
    this.keeper.flush({ keepalive: true });
  }

  /** Catch up: the page is shown again. */
  comeBack() {
    clearInterval(this.hidden);
    this.watch.check();
    this.keeper.wake?.();
    this.rounds?.comeBack();
  }

  async sayWhenSaved() {
    await this.flush();
    this.notice(sentenceOf(this.saved));
  }

  /** Take in what another tab or machine has written. @param {{nodes: Set<string>, marks: Set<string>, meta: Set<string>}} news */
  merged(news) {
    const { nodes, marks, meta } = news;
    if (nodes.has(this.head.node)) this.typing.hold();
    this.rounds?.elsewhere.hear(news);
    if (meta.size) {
      this.readSettings();
      this.tell("story");
    }
    this.tell("nodes", { ids: nodes, marks });
  }

  // ---- The round

  /** Load the rounds; resolves when they are there. @returns {Promise<Rounds>} */
  loadRounds() {
    this.loading ??= import("./desk/rounds.js").then(({ Rounds }) => {
      const rounds = new Rounds(this);
      this.rounds = rounds;
      rounds.follow("load", this.opened);
      this.tell("rounds");
      return rounds;
    });
    this.loading.catch(() => {
      this.loading = null; // it is asked for again: the server was away
    });
    return this.loading;
  }

  /**
   * Do something with the rounds: now or, if they are not loaded yet, in the order of asking as soon as they are. What was
   * asked in another story than the open one is not done.
   * @template T @param {(rounds: Rounds) => T} act @returns {T | Promise<T | null>}
   */
  withRounds(act) {
    return this.rounds ? act(this.rounds) : this.whenLoaded(act);
  }

  /** @template T @param {(rounds: Rounds) => T} act @returns {Promise<T | null>} */
  async whenLoaded(act) {
    const { story } = this;
    this.waiting += 1;
    try {
      const rounds = await this.loadRounds();
      return story === this.story ? await act(rounds) : null;
    } catch (error) {
      if (this.rounds) throw error;
      this.sayNotLoaded();
      return null;
    } finally {
      this.waiting -= 1;
    }
  }

  /** Say that files of the page could not be read. */
  sayNotLoaded() {
    this.notice(msg`This part of the page could not be loaded. Try again when the server is back.`, "error");
    this.checkServer();
  }

  /** Show an error of an action as a notice. @param {() => Promise<unknown>} act */
  async guard(act) {
    try {
      await act();
    } catch (error) {
      const { message, action } = /** @type {Error & {action?: Action}} */ (error);
      this.notice(message, "error", action);
      this.checkServer();
    }
  }

  /** Continue the text, or ask what becomes of the words that are selected. */
  next() {
    return this.selected ? this.openDialog("task") : this.go();
  }

  /** Continue the text where the caret is, unless that is stopped before the rounds are there. @param {import("./desk/rounds.js").Going} [options] */
  go(options) {
    const { stops } = this;
    return this.withRounds((rounds) => (stops === this.stops ? rounds.go(options) : null));
  }

  /** Let the story grow by itself. @param {import("./desk/growing.js").Budget} budget */
  grow(budget) {
    return this.withRounds((rounds) => rounds.grow(budget));
  }

  /** Write a text as if the person had, and continue it. @param {string} text */
  begin(text) {
    this.manuscript?.insert(text);
    return this.go();
  }

  /**
   * Take a card's text, or its beginning up to `at` or to its mark, into the manuscript, and continue from there.
   * @param {number} number @param {{at?: number | null, go?: boolean, typed?: import("./desk/seam.js").Choice}} [options]
   */
  take(number, options) {
    return this.withRounds(({ gestures }) => gestures.take(number, options));
  }

  /** Choose where cards go if a person has typed where they go on. @param {import("./desk/seam.js").Choice} choice */
  setChoice(choice) {
    this.choice = choice;
    this.tell("round", { slots: null });
  }

  /** Show a card in the text, at its place, as if it were taken; null: none. @param {Ghost | null} ghost */
  showGhost(ghost) {
    if (ghost === this.ghost) return;
    this.ghost = ghost;
    this.tell("ghost");
  }

  /** @param {number} number */
  prune(number) {
    return this.withRounds(({ gestures }) => gestures.prune(number));
  }

  refill() {
    return this.withRounds(({ gestures }) => gestures.refill());
  }

  /** Keep a card, and have others in the place of all others, with new directions. @param {number} number */
  roll(number) {
    return this.withRounds(({ gestures }) => gestures.roll(number));
  }

  /** @param {number} number */
  extend(number) {
    return this.withRounds(({ gestures }) => gestures.extend(number));
  }

  /** @param {number} number @param {number | null} at @param {number} [count] */
  vary(number, at, count) {
    return this.withRounds(({ gestures }) => gestures.vary(number, at, count));
  }

  /** @param {number} [count] */
  more(count) {
    return this.withRounds(({ gestures }) => gestures.more(count));
  }

  stop() {
    this.stops += 1;
    return this.withRounds((rounds) => rounds.stop());
  }

  /** @param {number} number @param {number | null} at */
  setMark(number, at) {
    return this.withRounds(({ gestures }) => gestures.change((round) => round.setMark(number, at), [number]));
  }

  /** Take a card's text from a place on. @param {number} number @param {number} at */
  setStart(number, at) {
    return this.withRounds(({ gestures }) => gestures.change((round) => round.setStart(number, at), [number]));
  }

  /** Put what a take of a card would bring where the caret is. @param {number} number */
  put(number) {
    return this.withRounds(({ gestures }) => gestures.put(number));
  }

  sort() {
    return this.withRounds(({ gestures }) => gestures.sort());
  }

  fold() {
    return this.withRounds(({ gestures }) => gestures.fold());
  }

  /** @param {number} number */
  unfold(number) {
    return this.withRounds(({ gestures }) => gestures.change((round) => round.unfold(number)));
  }

  /** Show what could stand in place of the word at the manuscript's caret. */
  askWords() {
    return this.withRounds(({ gestures }) => gestures.askWords());
  }

  /** Tint the words of the manuscript that the model did not expect, or tint them no more. */
  switchSurprise() {
    return this.guard(async () => (await import("./parts/surprise.js")).switchSurprise(this));
  }

  /** Return the likeliest tokens at a place of a card, or (null) of the manuscript. @param {number | null} number @param {number} at */
  alternatives(number, at) {
    return this.withRounds(({ gestures }) => gestures.alternatives(number, at));
  }

  /** Begin a branch with a card's words up to `at` and then a rival. @param {number | null} number @param {number} at @param {string} rival */
  choose(number, at, rival) {
    return this.withRounds(({ gestures }) => gestures.choose(number, at, rival));
  }
}
