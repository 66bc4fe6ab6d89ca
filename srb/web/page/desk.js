/**
 * The desk: the open story, the place in it that the manuscript shows (the head), and the round of cards beside it. Only the desk
 * changes them; parts read its fields, call its actions and listen to its events.
 */

import { Context } from "./desk/context.js";
import { settingsOf } from "./desk/defaults.js";
import { Gestures } from "./desk/gestures.js";
import { Rounds } from "./desk/rounds.js";
import { sentenceOfRound, sentenceOfSaving } from "./desk/sentences.js";
import { ServerWatch } from "./desk/server_watch.js";
import { Typing } from "./desk/typing.js";
import { endVisit, visit } from "./desk/visits.js";
import { WordCount } from "./desk/words.js";
import { titleOf } from "./keep/describe.js";
import { Story } from "./story.js";

/** @typedef {import("./story/types.js").Place} Place */
/** @typedef {import("./round.js").Round} Round */
/** @typedef {import("./keep.js").Keeper} Keeper */
/** @typedef {import("./api.js").Api} Api */
/** @typedef {{label: string, run: () => void}} Action what a notice offers */
/** @typedef {import("./desk/typing.js").Manuscript} Manuscript */

/** Topics: story, head, round, text (at most once a frame), nodes, saved, server, notice, withdrawn, dialog. */
export class Desk extends EventTarget {
  /** @param {{api: Api, keeper: Keeper}} given */
  constructor({ api, keeper }) {
    super();
    this.api = api;
    this.keeper = keeper;
    this.story = Story.create();
    /** @type {Place} */
    this.head = this.story.head;
    this.settings = settingsOf(this.story);
    this.watch = new ServerWatch(api, () => this.serverChanged());
    this.rounds = new Rounds(this);
    this.gestures = new Gestures(this.rounds);
    this.typing = new Typing(this);
    this.prompt = new Context(this);
    this.wordCount = new WordCount();
    /** @type {Manuscript | null} */
    this.manuscript = null;
    /** @type {{head: Place} | null} where the story was before a place in the outline was opened */
    this.before = null;
    keeper.addEventListener("state", () => this.tell("saved"));
    keeper.addEventListener("merged", (event) => this.merged(/** @type {CustomEvent} */ (event).detail));
    keeper.addEventListener("binned", () => this.offerRestore(this.story.id));
  }

  /** Open the story that was open last, or begin one. @param {Manuscript} manuscript */
  async start(manuscript) {
    this.manuscript = manuscript;
    this.watch.check();
    this.setStory((await this.keeper.openLast()) ?? Story.create());
  }

  // ---- What parts read

  get round() {
    return this.rounds.shown?.round ?? null;
  }

  get isRunning() {
    return this.rounds.shown?.isRunning ?? false;
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

  get title() {
    return /** @type {string | undefined} */ (this.story.meta("title")) || titleOf(this.text) || "Untitled";
  }

  /** The number of words in the manuscript. */
  get words() {
    return this.wordCount.at(this.story, this.head);
  }

  /** How much of the model's context the manuscript takes: `used` and `limit` in tokens, `cut` characters that are not sent. */
  get context() {
    return this.prompt.measure();
  }

  /** One sentence about the round, for those who do not see the cards. */
  statusLine() {
    return sentenceOfRound(this.round);
  }

  // ---- Events

  /** @param {string} topic @param {object} [detail] */
  tell(topic, detail) {
    this.dispatchEvent(new CustomEvent(topic, { detail }));
  }

  /** Show a sentence. @param {string} text @param {"info" | "error"} [kind] @param {Action} [action] @param {string} [about] a round's id */
  notice(text, kind = "info", action, about) {
    this.tell("notice", { text, kind, action, about });
  }

  /** @param {string} name of a dialog: parts/later.js @param {object} [detail] */
  openDialog(name, detail = {}) {
    this.tell("dialog", { name, ...detail });
  }

  serverChanged() {
    this.tell("server");
    if (this.server.state !== "ready") return;
    this.keeper.wake?.();
    this.rounds.comeBack();
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
    this.rounds.leave();
    this.story = story;
    this.before = null;
    this.head = story.head;
    this.settings = settingsOf(story);
    this.keeper.open(story);
    this.prompt.forget();
    this.wordCount.forget();
    this.manuscript?.load(this.text, story.pieces(this.head.node, this.head.at), this.head);
    this.tell("story");
    this.tell("head", { why: "load" });
    this.tell("nodes", { ids: null });
    this.rounds.follow("load");
  }

  newStory() {
    this.setStory(Story.create());
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

  /** Say that the open story was put into the bin elsewhere. @param {string} id */
  offerRestore(id) {
    const run = () => this.rounds.guard(() => this.restoreStory(id));
    this.notice("This story was put into the bin in another window.", "error", { label: "Take it out", run });
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

  /** @param {{text: string, depth: number}} note the author's note, `depth` paragraphs before the end */
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
    this.settings = settingsOf(this.story);
    this.changed();
    this.tell("story");
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
      this.manuscript?.record(
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

  /**
   * Show another place of the story; one step for undo.
   * @param {Place} place @param {string} why take or open
   */
  move(place, why) {
    this.closeTyped();
    this.typing.isPaused = true;
    try {
      const text = this.story.text(place.node, place.at);
      this.manuscript?.apply({ text, head: place, pieces: this.story.pieces(place.node, place.at), why });
    } finally {
      this.typing.isPaused = false;
    }
    this.head = place;
    this.story.head = place;
    this.changed();
    this.tell("head", { why });
  }

  /** Make the text up to a node the manuscript. @param {string} id @param {number} [at] */
  openNode(id, at = this.story.length(id)) {
    visit(this, { node: id, at });
  }

  /** Go back to where the story was before `openNode`. */
  goBack() {
    endVisit(this);
  }

  undo() {
    this.manuscript?.undo();
  }

  redo() {
    this.manuscript?.redo();
  }

  // ---- Saving

  /** Note that the story has changed. */
  changed() {
    this.keeper.changed();
  }

  async flush() {
    this.closeTyped();
    this.rounds.save();
    await this.keeper.flush();
  }

  /** Save at once: the page is hidden or closed. */
  leave() {
    this.rounds.save();
    this.keeper.flush({ keepalive: true });
  }

  /** Catch up: the page is shown again. */
  comeBack() {
    this.watch.check();
    this.keeper.wake?.();
    this.rounds.comeBack();
  }

  async sayWhenSaved() {
    await this.flush();
    this.notice(sentenceOfSaving(this.saved));
  }

  /** Take in what another tab or machine has written. @param {{nodes: Set<string>, marks: Set<string>, meta: Set<string>}} news */
  merged({ nodes, meta }) {
    if (meta.size) {
      this.settings = settingsOf(this.story);
      this.tell("story");
    }
    this.tell("nodes", { ids: nodes });
  }

  // ---- The round

  /** Continue the text with n branches. @param {{n?: number}} [options] */
  go(options) {
    return this.rounds.go(options);
  }

  /**
   * Take a card's text, or its beginning up to `at` or to its mark, into the manuscript, and continue from there.
   * @param {number} number @param {{at?: number | null, go?: boolean}} [options]
   */
  take(number, options) {
    return this.gestures.take(number, options);
  }

  /** @param {number} number */
  prune(number) {
    return this.gestures.prune(number);
  }

  refill() {
    return this.gestures.refill();
  }

  /** @param {number} number */
  extend(number) {
    return this.gestures.extend(number);
  }

  /** @param {number} number @param {number | null} at @param {number} [count] */
  vary(number, at, count) {
    return this.gestures.vary(number, at, count);
  }

  /** @param {number} [count] */
  more(count) {
    return this.gestures.more(count);
  }

  stop() {
    this.rounds.stop();
  }

  /** @param {number} number @param {number | null} at */
  setMark(number, at) {
    this.gestures.change((round) => round.setMark(number, at), [number]);
  }

  sort() {
    this.gestures.sort();
  }

  fold() {
    this.gestures.fold();
  }

  /** @param {number} number */
  unfold(number) {
    this.gestures.change((round) => round.unfold(number));
  }

  /** Return the likeliest tokens at a place of a card, or (null) of the manuscript. @param {number | null} number @param {number} at */
  alternatives(number, at) {
    return this.gestures.alternatives(number, at);
  }

  /** Begin a branch with a card's words up to `at` and then a rival. @param {number | null} number @param {number} at @param {string} rival */
  choose(number, at, rival) {
    return this.gestures.choose(number, at, rival);
  }
}
