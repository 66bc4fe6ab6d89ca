// The branches' pane: a header with counts and buttons, the cards of the round, and what opens over them.

import { msg } from "../languages.js";
import { origin } from "../story/pen.js";
import { html, nothing } from "../vendor/lit.js";
import { halfWord } from "../visible.js";
import { Board } from "./branches/board.js";
import { Comparison } from "./branches/comparison.js";
import { cover, YOURS_FIRST } from "./branches/cover.js";
import { dragMarked } from "./branches/drag.js";
import { Filters } from "./branches/filters.js";
import { firstSteps, noteBegun } from "./branches/first_steps.js";
import { CARD_GESTURES, PANE_GESTURES } from "./branches/gestures.js";
import { Highlights } from "./branches/highlights.js";
import { actOf, isTaken } from "./branches/keys.js";
import { PinnedCards } from "./branches/pinned.js";
import { expectedLength } from "./branches/places.js";
import { isInside, Pointer } from "./branches/pointer.js";
import { Swipe } from "./branches/swipe.js";
import { treeOf } from "./branches/tree.js";
import { head, menu, phoneBar } from "./branches/views.js";
import { flip } from "./ghost.js";
import { MOTION, moves } from "./motion.js";
import { Part } from "./part.js";
import { indent } from "./styles.js";
import { WRITERS } from "./writers.js";

/** @typedef {import("../round.js").Round} Round */
/** @typedef {import("../round.js").Slot} Slot */
/** @typedef {import("./branches/keys.js").Act} Act */

const TREE_EVERY = 250; // ms between two drawings of the merged tree
const PATIENCE = MOTION; // for which cards stay, and fade: an empty round is a drawing more beside the model
const HELD = 350; // ms from which a key is held, and not tapped
const SEEN_AFTER = 1500; // ms in view after which an ended branch counts as looked at

export class Branches extends Part {
  static properties = { isTree: { state: true }, said: { state: true } };

  constructor() {
    super();
    this.isTree = false;
    this.said = ""; // for those who do not see a mark move
    /** Nodes that were in view, until they count as seen. @type {Map<string, number>} */
    this.seen = new Map();
    this.treeTimer = 0;
    this.roundTimer = 0; // until another round is shown that has no words yet
    /** @type {Set<string>} nodes of models that the text has words of, since it was last changed otherwise than by typing */
    this.inText = new Set();
    this.pressedAt = 0; // when the key was pressed that shows a card in the text; 0: it is not
    this.counts = "";
    this.shownState = "";
    this.pinned = new PinnedCards(this);
    this.filters = new Filters(this);
    this.comparison = new Comparison(this);
    this.pointer = new Pointer(this);
    this.swipe = new Swipe(this);
  }

  /** @returns {Round|null} */
  get round() {
    return this.desk.round;
  }

  /** Whether the cards wait for a sentence of the person's own. */
  get isCovered() {
    return this.desk.rounds?.isCovered ?? false;
  }

  /** Whether cards hide what they are until one is taken. */
  get isBlind() {
    return this.desk.rounds?.isBlind ?? false;
  }

  get isRunning() {
    return !!this.round?.slots.some((slot) => slot.isLive || slot.pending);
  }

  /** Whether bars of likelihood are on the cards, or could be. */
  get tellsLikelihood() {
    const { desk, round } = this;
    const isTold = !round?.wanted && !!round?.slots.some((slot) => slot.meanLogprob !== null); // else it was asked for the choice
    return !this.isBlind && (desk.settings.likelihood === true || isTold);
  }

  /** Whether cards have words in the middle of the text, which what follows can be read behind. */
  get leadsOn() {
    const { round, desk } = this;
    if (!round?.isInside || round.slots.every(({ text }) => text.trim() === "")) return false;
    return desk.story.text(round.base.node, round.base.at).slice(round.until).trim() !== "";
  }

  /** Whether the server has a model that compares the cards by what they mean. */
  get tellsMeaning() {
    return !!this.desk.server.embedding && (this.round?.slots.filter(({ text }) => text.trim()).length ?? 0) > 1;
  }

  listen() {
    const { signal } = this.listeners;
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", msg`Branches`);
    this.on("round", () => this.follow());
    this.on("text", ({ slots }) => this.grow(slots));
    this.on("nodes", ({ ids, marks = [], isGrowth }) => {
      if (isGrowth) return; // texts are told of apart
      this.board?.refreshNodes(ids ?? null);
      this.pinned.hear(ids ? [...ids, ...marks] : null);
      this.requestUpdate();
    });
    this.on("story", () => {
      this.pinned.forget();
      this.board?.repaint();
      this.requestUpdate();
    });
    this.on("compare", ({ node }) => this.comparison.open([null, node]));
    this.on("ghost", () => {
      if (this.ghost) this.board?.setCurrent(this.ghost.number, { scroll: true });
      this.requestUpdate();
    });
    this.on("head", ({ why }) => {
      if (why !== "type") this.noteText();
      this.requestUpdate(); // cards may go on from other words now
    });
    for (const name of ["keydown", "pointerdown"])
      this.addEventListener(name, () => this.roundTimer && this.showRound(), { signal, capture: true });
    this.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.addEventListener("keyup", (event) => this.onKeyUp(event), { signal });
    this.addEventListener("focusout", (event) => this.onLeave(event), { signal });
    this.addEventListener("focusin", (event) => this.onFocus(event), { signal });
    this.pointer.listen(signal);
    this.swipe.listen(signal);
    dragMarked(this, signal);
    addEventListener("resize", () => this.board?.measure(), { signal });
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.board?.close();
  }

  firstUpdated() {
    this.highlights = new Highlights();
    this.board = new Board({
      list: this.find(".cards"),
      highlights: this.highlights,
      marks: (node) => this.marksOf(node),
      logprobs: () => this.desk.settings.logprobs === true && !this.isBlind,
      isSorted: () => this.desk.settings.likelihood === true && !this.isBlind,
      isDirected: () => this.desk.settings.shows_directions === true,
      expected: () => expectedLength(this.desk.settings),
      textBefore: ({ base, keep }) => this.desk.story.text(base.node, keep),
      writer: (slot) => this.writerOf(slot),
      onseen: (slot) => this.noteSeen(slot),
    });
    this.follow();
  }

  /** What the cards show of a branch's node. @param {string | null} node */
  marksOf(node) {
    if (node === null) return {};
    return { ...this.desk.story.mark(node), isInText: this.inText.has(node), doubt: this.round?.doubts.get(node) };
  }

  /** The voice that a card is by, where the round or the story has several, and its mood; nothing of a blind one. @param {Slot} slot */
  writerOf(slot) {
    const { round } = this;
    if (!round || this.isBlind) return { writer: "", hue: 0, voice: "", mood: "" };
    const { story } = this.desk;
    const voice = round.isShared ? round.voiceOf(slot) : "";
    const writer = round.isShared ? voice : WRITERS.of(story, story.nodes.get(slot.node ?? ""));
    return { writer, hue: writer ? WRITERS.hueOf(story, writer) : 0, voice, mood: round.moods[slot.number] ?? "" };
  }

  /** The cards that the text has words of have a tick. */
  noteText() {
    const { story, head } = this.desk;
    const pieces = story.pieces(head.node, head.at);
    this.pinned.forget();
    this.filters.taste = null;
    this.inText = new Set(pieces.map(({ node }) => origin(story.nodes.get(node) ?? { id: node }).node));
    this.board?.refresh();
  }

  /** @template {HTMLElement} T @param {string} selector */
  find(selector) {
    return /** @type {T} */ (this.querySelector(selector));
  }

  // ---- What is shown

  /** Show the desk's round, or the state of its cards. */
  follow() {
    const { board, round } = this;
    if (!board) return;
    if (board.round !== round) {
      const isEmpty = round?.state === "asking" || round?.state === "reading";
      if (!isEmpty) return this.showRound();
      this.roundTimer ||= this.waitForWords();
      return;
    }
    const known = board.cards.size;
    const { hidden } = board;
    board.refresh();
    if (board.hidden !== hidden)
      this.say(msg`${round?.shown.length ?? 0} cards are shown, ${board.hidden} stand behind them.`);
    if (board.cards.size > known && this.contains(document.activeElement)) board.reveal(known); // they were asked for here
    this.requestUpdate();
  }

  /** Let the cards of the last round fade for as long as the next one may begin with words; then it is shown without. */
  waitForWords() {
    if (moves()) this.board?.fade(PATIENCE);
    return window.setTimeout(() => this.showRound(), PATIENCE);
  }

  /** Show the desk's round in the place of the one that is shown. */
  showRound() {
    const { board, round } = this;
    clearTimeout(this.roundTimer);
    this.roundTimer = 0;
    if (!board || board.round === round) return;
    const hadFocus = board.list.contains(document.activeElement);
    this.desk.showGhost(null);
    this.comparison.close();
    this.showList();
    const half = round ? halfWord(this.desk.story.text(round.base.node, round.keep)) : "";
    this.style.setProperty("--half", `"${half}"`);
    if (round) this.filters.apply();
    board.show(round);
    if (round) noteBegun();
    if (hadFocus) this.focus();
    this.requestUpdate();
  }

  /** Show the cards, or in their place the merged tree or what to do first. */
  showList() {
    this.find(".first-steps").hidden = this.round !== null || this.comparison.isOpen;
    this.find(".cards").hidden = this.round === null || this.isTree || this.isCovered || this.comparison.isOpen;
  }

  updated() {
    this.showList();
    this.comparison.updated();
    this.pinned.updated();
    indent(this, 6);
    this.find(".cards").toggleAttribute("data-stale", Boolean(this.desk.seam));
  }

  /** @param {Set<number>} slots */
  grow(slots) {
    this.showRound();
    this.filters.grown();
    this.board?.grown(slots);
    if (this.counts !== this.countWords() || this.shownState !== this.round?.state) this.requestUpdate();
    if (!(this.isTree || this.comparison.isOpen) || this.treeTimer) return;
    this.treeTimer = window.setTimeout(() => {
      this.treeTimer = 0;
      this.requestUpdate();
    }, TREE_EVERY);
  }

  /** Focus the card on which keys act, or what there is instead. */
  focus() {
    const card = this.board?.currentCard;
    if (this.comparison.isOpen) this.find(".comparison").focus();
    else if (this.isCovered) this.find(".cover button").focus();
    else if (card) this.board?.setCurrent(card.slot.number, { focus: true, scroll: true });
    else this.find(".first-steps")?.focus();
  }

  render() {
    const { round } = this;
    this.counts = this.countWords();
    this.shownState = round?.state ?? "";
    return html`
      ${head(this)}
      ${this.filters.render()}
      ${this.pinned.render()}
      ${firstSteps(this)}
      ${this.isCovered ? cover(this) : nothing}
      <ol class="cards" aria-label=${msg`Cards`}></ol>
      ${this.comparison.isOpen ? this.comparison.render() : this.isTree && round && !this.isCovered ? treeOf(round) : nothing}
      ${this.isCovered ? nothing : phoneBar(this)}
      ${menu(this)}
      <p class="hidden-words" role="status">${this.said}</p>`;
  }

  /** How many cards are still being written, and how many have failed; nothing if all is done. */
  countWords() {
    const { running = 0, waiting = 0, failed = 0 } = this.round?.counts ?? {};
    const left = running + waiting;
    const isAll = left === this.round?.slots.length;
    return [left ? leftWords(left, isAll) : "", failed ? msg`${inWords(failed)} failed` : ""]
      .filter(Boolean)
      .join(", ");
  }

  // ---- What gestures need

  /** Tell those who do not see the cards. @param {string} words */
  say(words) {
    this.said = words;
  }

  /** @param {Slot} slot */
  showMark(slot) {
    const card = this.board?.cards.get(slot.number);
    if (slot.mark !== null || slot.start > 0) card?.reveal(slot.mark ?? slot.start);
    if (this.ghost) this.show(slot.number); // of which a part is marked now
    const words = slot.text
      .slice(slot.start, slot.mark ?? undefined)
      .trim()
      .split(/\s+/u);
    const [first, last] = [words.slice(0, 4).join(" "), words.slice(-4).join(" ")];
    if (slot.start > 0) this.say(msg`Marked from: ${first}, up to: ${last}`);
    else this.say(slot.mark === null ? msg`No mark.` : msg`Marked up to: ${last}`);
  }

  /** @param {Slot} slot */
  read(slot) {
    if (this.ghost?.number === slot.number) this.desk.showGhost(null);
    else this.show(slot.number);
  }

  /** The card that a person has asked to see in the text. */
  get ghost() {
    const { moves, number } = this.desk.ghost ?? {};
    return moves && number !== undefined ? { number } : null;
  }

  /** @param {number} number */
  show(number) {
    this.desk.showGhost({ number, moves: true });
  }

  /** @param {Slot} slot */
  askNote({ node: id }) {
    const lines = this.board?.currentCard?.box.getBoundingClientRect() ?? null;
    this.desk.openDialog("note", { id, key: "note", lines });
  }

  /** @param {Slot} slot */
  sharedLength(slot) {
    return this.board?.shared.get(slot.number) ?? 0;
  }

  /** Where a part of a card's text is on the screen. @param {Slot} slot @param {number} from @param {number} to */
  boxOf(slot, from, to) {
    return this.board?.cards.get(slot.number)?.content.box(from, to) ?? null;
  }

  /** @param {{number: number, at: number, word: string, lines: DOMRect|null}} asked */
  openAlternatives(asked) {
    this.desk.openDialog("alternatives", asked);
  }

  /** Note that an ended branch is in view; after a moment it counts as looked at. @param {Slot} slot */
  noteSeen({ node }) {
    if (node === null || this.seen.has(node) || this.desk.story.mark(node).seen === true) return;
    const timer = window.setTimeout(() => {
      if (!document.hidden && this.desk.story.nodes.has(node)) this.desk.setNodeMark(node, "seen", true);
      this.seen.delete(node);
    }, SEEN_AFTER);
    this.seen.set(node, timer);
  }

  // ---- Acts

  /** @param {Act} act */
  run({ name, value = 0 }) {
    const { board, round } = this;
    const slot = board?.currentCard?.slot;
    if (name === "begin") return this.desk.go();
    if (!board || !round || !slot) return;
    if (this.isCovered && name !== "write" && name !== "stop") return this.say(YOURS_FIRST);
    switch (name) {
      case "takeDigit":
      case "takeOnlyDigit":
        return this.takeDigit(value, name === "takeDigit");
      case "left":
      case "right":
        if (this.ghost) return this.flip(name === "left" ? -1 : 1);
        return this.go(board.neighbour(name === "left" ? -1 : 1, 0));
      case "up":
      case "down":
        return this.go(board.neighbour(0, name === "up" ? -1 : 1));
      case "first":
      case "last":
        return this.go(round.shown.at(name === "first" ? 0 : -1) ?? 0);
      case "window":
        return board.moveWindow(value) && this.go(round.shown[board.window] ?? 0);
      case "write":
        return /** @type {HTMLElement|null} */ (document.querySelector("srb-manuscript"))?.focus();
      case "menu":
        this.requestUpdate();
        return this.updateComplete.then(() => /** @type {HTMLDialogElement} */ (this.find("dialog.menu")).showModal());
      case "closeMenu":
        return /** @type {HTMLDialogElement} */ (this.find("dialog.menu")).close();
      default:
        return this.gesture(name, slot);
    }
  }

  /** @param {string} name @param {Slot} slot */
  gesture(name, slot) {
    const gesture = CARD_GESTURES[name] ?? PANE_GESTURES[name];
    if (!gesture) return;
    if (gesture.can && !gesture.can(this, slot)) return this.say(msg`That is not possible here now.`);
    return gesture.run(this, slot);
  }

  /** @param {number} digit @param {boolean} go */
  takeDigit(digit, go) {
    const number = this.board?.atDigit(digit) ?? null;
    if (number === null) return this.say(msg`There is no card ${digit}.`);
    const slot = this.round?.slots[number];
    return this.desk.take(number, { at: slot?.mark ?? null, go });
  }

  /** Go to a card; while one is shown in the text, show this one there. @param {number} number */
  go(number) {
    this.board?.setCurrent(number, { focus: true, scroll: true });
    if (this.ghost) this.show(number);
    this.requestUpdate();
  }

  /** Show the next card in the text. @param {1 | -1} way */
  flip(way) {
    if (flip(this.desk, way)) this.focus();
  }

  // ---- Events of the document

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.defaultPrevented || isTaken(event) || isInside(event, "dialog")) return;
    const act = actOf(event, this.desk.settings.single_keys !== false);
    if (!act || !this.comparison.takes(act.name)) return;
    event.preventDefault();
    event.stopPropagation();
    if (act.name === "read" && event.repeat) return;
    if (act.name === "read") this.pressedAt = event.timeStamp;
    this.run(act);
  }

  /** A key that was held has shown a card for as long; one that was tapped leaves it in the text. @param {KeyboardEvent} event */
  onKeyUp({ code, timeStamp }) {
    if (code === "Space" && this.pressedAt > 0 && timeStamp - this.pressedAt > HELD) this.desk.showGhost(null);
    if (code === "Space") this.pressedAt = 0;
  }

  /** The focus goes to another pane: what was shown in the text goes, too. @param {FocusEvent} event */
  onLeave({ relatedTarget }) {
    if (relatedTarget instanceof Node && !this.contains(relatedTarget)) this.desk.showGhost(null);
  }

  /** @param {Event} event */
  onFocus(event) {
    const card = this.cardOf(event);
    if (!card || card.slot.number === this.board?.current) return;
    this.board?.setCurrent(card.slot.number);
    this.requestUpdate();
  }

  /** @param {Event} event */
  cardOf(event) {
    const place = event.target instanceof Element ? event.target.closest(".card-place") : null;
    return (place && this.board?.byPlace.get(place)) || null;
  }
}

const WORDS = [
  msg`none`,
  msg`one`,
  msg`two`,
  msg`three`,
  msg`four`,
  msg`five`,
  msg`six`,
  msg`seven`,
  msg`eight`,
  msg`nine`,
  msg`ten`,
  msg`eleven`,
  msg`twelve`,
];

/** @param {number} count */
function inWords(count) {
  return WORDS[count] ?? `${count}`;
}

/** @param {number} left @param {boolean} isAll */
function leftWords(left, isAll) {
  const count = inWords(left);
  if (left === 1) return isAll ? msg`${count} is being written` : msg`${count} is still being written`;
  return isAll ? msg`${count} are being written` : msg`${count} are still being written`;
}

customElements.define("srb-branches", Branches);
