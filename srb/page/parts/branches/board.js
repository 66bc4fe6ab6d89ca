// The board: the cards of a round in their list. It writes them frame by frame, and only those in view. Each card is as high as
// its text: a card that has ended keeps its height, and one that grows moves only those below it, by a line at a time.

import { sentencesBefore } from "../../already.js";
import { sharedBeginnings } from "../../compare.js";
import { msg } from "../../languages.js";
import { Card } from "../card.js";
import { columnsOf, GAP, mostLines, placesOf, reserveOf } from "./places.js";
import { behindOffer, likelihoodOf, sameText } from "./siblings.js";

/** @typedef {import("../../round.js").Round} Round */
/** @typedef {import("../../round.js").Slot} Slot */
/** @typedef {import("./highlights.js").Highlights} Highlights */

const COMPARED = 400; // characters of each beginning
const MOST_ROWS = 4; // in view; further ones are scrolled to
const CLOSED = 4; // lines of a card on a phone, until it is opened
const PHONE = matchMedia("(width < 700px)");
const DIGITS = 10;
const FRAME = 1000 / 60;
const LETTER = 0.45; // of the type's size: the width of a letter
const FIRST_WORDS = 16; // characters that no sentence has ended in
const NOTHING = sentencesBefore("");

export class Board {
  /** @param {{list: HTMLElement, highlights: Highlights, marks: (node: string|null) => {star?: boolean, note?: string, isInText?: boolean, doubt?: string},
   *   logprobs: () => boolean, isSorted: () => boolean, isDirected: () => boolean, expected: () => number, textBefore: (round: Round) => string,
   *   writer: (slot: Slot) => {writer: string, hue: number, voice: string, mood: string}, onseen: (slot: Slot) => void}} given */
  constructor({ list, highlights, marks, logprobs, isSorted, isDirected, expected, textBefore, writer, onseen }) {
    this.list = list;
    this.highlights = highlights;
    this.marks = marks;
    this.logprobs = logprobs;
    this.isSorted = isSorted; // whether a person sorts by likelihood
    this.isDirected = isDirected; // whether cards show their directions
    this.expected = expected; // characters of a text, by the settings
    this.textBefore = textBefore; // the manuscript up to a round's branches
    this.writer = writer; // the voice that a card is by, where there are several, and its mood
    this.onseen = onseen;
    /** @type {Round|null} */
    this.round = null;
    /** By slot number. @type {Map<number, Card>} */
    this.cards = new Map();
    /** @type {WeakMap<Element, Card>} */
    this.byPlace = new WeakMap();
    this.window = 0; // the first of ten cards that have digits, by its place in the order
    this.current = 0; // slot number of the card on which keys act
    this.hidden = 0; // cards that are folded under others
    /** @type {Set<Card>} */
    this.dirty = new Set();
    this.isStale = false; // states have changed since the last frame
    this.comparedLength = -1;
    /** What the manuscript says before the round; read once there is text to compare with it. @type {import("../../already.js").Before|null} */
    this.before = null;
    /** @type {Map<number, number>} lengths of shared beginnings by slot number */
    this.shared = new Map();
    /** Slot numbers that have the same text. @type {number[][]} */
    this.groups = [];
    this.frame = 0;
    this.timer = 0; // until a frame is needed again
    this.fitting = 0; // cards that are in view without scrolling
    this.columns = 1;
    this.line = 24; // px
    this.most = CLOSED; // lines of a card
    this.width = 0; // px of a column
    /** Lines of the last round's cards, if a column were 1 px wide. @type {number[]} */
    this.last = [];
    this.reserve = reserveOf([]);
    this.opened = -1; // slot number of the card that a phone shows whole
    /** @type {Animation | null} */
    this.fading = null;
    this.inView = new IntersectionObserver((entries) => this._see(entries), { root: list });
    this.heights = new ResizeObserver((entries) => this._fit(entries));
  }

  close() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.inView.disconnect();
    this.heights.disconnect();
    this.highlights.close();
  }

  // ---- The round

  /** Let the cards fade until another round is shown. @param {number} duration ms */
  fade(duration) {
    this.fading = this.list.animate({ opacity: [1, 0] }, { duration, easing: "ease-out", fill: "forwards" });
  }

  /** Show another round. @param {Round|null} round */
  show(round) {
    this.fading?.cancel();
    this.list.scrollTo(0, 0);
    this.dirty.clear();
    const last = [...this.cards.values()].flatMap(({ textHeight }) =>
      textHeight ? (textHeight / this.line) * this.width : [],
    );
    if (last.length) this.last = last;
    this.round = round;
    this.opened = -1;
    this.window = 0;
    this.comparedLength = -1;
    this.shared.clear();
    this.before = null;
    this.currentCard?.setCurrent(false);
    this.current = round?.shown[0] ?? 0;
    this._direct();
    this.hidden = round ? round.slots.length - round.shown.length : 0;
    if (round) this.measure(); // while the layout is that of the last frame
    this._sync(round);
    this.currentCard?.setCurrent(true);
    this.groups = round?.duplicates() ?? [];
    for (const card of this.cards.values()) this._refresh(card);
    this._place();
    if (this.dirty.size) this._schedule();
  }

  /** States of slots have changed. */
  refresh() {
    if (!this.round) return;
    const hidden = this.round.slots.length - this.round.shown.length;
    const isOther = hidden !== this.hidden;
    this.hidden = hidden;
    if (this._direct() || isOther) this.measure();
    this._sync(this.round);
    this.isStale = true;
    this._schedule();
  }

  /** Give the cards room for their directions, if they have some; returns whether that is new. */
  _direct() {
    const { list, round } = this;
    const had = list.hasAttribute("data-directed");
    const has = this.isDirected() && (round?.directions.some(Boolean) ?? false);
    list.toggleAttribute("data-directed", has);
    return has !== had;
  }

  /** Nodes of the story have changed, or their marks. @param {Set<string>|null} ids null: any */
  refreshNodes(ids) {
    if (!ids || this.round?.slots.some(({ node }) => node !== null && ids.has(node))) this.refresh();
  }

  /** Settings have changed: show states and highlights anew. */
  repaint() {
    for (const card of this.cards.values()) card.unpaint(this.highlights);
    this.refresh();
  }

  /** Texts of slots have grown. The desk tells of it in a frame, and they are drawn in the same one. @param {Iterable<number>} slots */
  grown(slots) {
    for (const number of slots) {
      const card = this.cards.get(number);
      if (!card?.isVisible) continue;
      this.dirty.add(card);
      this.isStale ||= card.state !== card.slot.state; // its first text
    }
    cancelAnimationFrame(this.frame);
    this._draw(Number(document.timeline.currentTime));
  }

  /** Have a card for each slot, if need be one of a slot that is no longer there, and put all in the round's order.
   * @param {Round|null} round */
  _sync(round) {
    for (const [number, card] of this.cards) {
      const slot = round?.slots[number];
      if (slot === card.slot) continue;
      this._leave(card);
      if (slot) {
        card.adopt(slot, this.highlights);
        this._await(card);
      } else {
        card.place.remove();
        this.cards.delete(number);
      }
    }
    if (!round) return;
    for (const slot of round.slots) {
      if (!this.cards.has(slot.number)) this._add(slot);
    }
    const { shown } = round;
    if (!this.cards.has(this.current)) this.current = shown[0] ?? 0;
    const under = round.slots[this.current]?.foldedUnder ?? this.current;
    const front = shown.includes(under) ? under : (shown[0] ?? under);
    this.setCurrent(front, { focus: front !== this.current && this.list.contains(document.activeElement) });
    for (const [number, { place }] of this.cards) place.hidden = !shown.includes(number);
    const places = round.order.map((number) => /** @type {Card} */ (this.cards.get(number)).place);
    if (places.every((place, row) => this.list.children[row] === place)) return;
    this.isStale = true;
    const focused = document.activeElement;
    this.list.append(...places);
    if (focused instanceof HTMLElement && this.list.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** @param {Slot} slot */
  _add(slot) {
    const card = new Card(slot);
    card.setCurrent(slot.number === this.current);
    this.cards.set(slot.number, card);
    this.byPlace.set(card.place, card);
    this.list.append(card.place);
    this._await(card);
  }

  /** Take a card for visible if it should be, until the observer says more: first words do not wait. @param {Card} card */
  _await(card) {
    card.isVisible = card.slot.number < this.fitting;
    if (card.isVisible && card.slot.text) this.dirty.add(card);
    this.inView.observe(card.place);
    this.heights.observe(card.content.root);
  }

  /** @param {Card} card */
  _leave(card) {
    this.inView.unobserve(card.place);
    this.heights.unobserve(card.content.root);
    this.highlights.clear(card);
    this.dirty.delete(card);
  }

  // ---- Places

  /** Read the sizes of the pane and of a line, and give the cards their columns. */
  measure() {
    const { list } = this;
    const count = this.round?.shown.length ?? 0;
    const style = getComputedStyle(list);
    const px = (/** @type {string} */ value) => Number.parseFloat(value) || 0;
    const chrome = px(style.getPropertyValue("--chrome"));
    const height = list.clientHeight;
    this.line = px(style.lineHeight) || this.line;
    const width = list.clientWidth - px(style.paddingLeft) - px(style.paddingRight);
    this.columns = columnsOf(count, width);
    const widest = px(style.getPropertyValue("--widest")) || width;
    this.width = Math.min(widest, (width - GAP * (this.columns - 1)) / this.columns);
    const rows = Math.min(MOST_ROWS, Math.ceil(count / this.columns));
    this.most = PHONE.matches ? CLOSED : mostLines(rows, { height, line: this.line, chrome });
    const expected = Math.ceil((this.expected() * LETTER * px(style.fontSize)) / this.width);
    const inView = Math.floor((height / Math.max(1, rows) - chrome) / this.line);
    this.reserve = reserveOf(
      this.last.map((lines) => Math.ceil(lines / this.width)),
      { expected, inView },
    );
    this.fitting = this.columns * Math.ceil(height / (chrome + Math.min(this.reserve, this.most) * this.line));
    list.style.setProperty("--columns", `${this.columns}`);
    list.style.setProperty("--gap", `${GAP}px`);
    this._place();
  }

  /**
   * Place the cards by their heights. One that has ended gives back the lines that it reserved, but none above a card that is read,
   * nor one below the pointer: it would shrink away from it, and then those above it would follow.
   */
  _place() {
    const cards = (this.round?.shown ?? []).flatMap((number) => this.cards.get(number) ?? []);
    const read = cards.findIndex(({ box }) => box.matches(":hover, :focus-within"));
    const lines = cards.map((card, place) => {
      const isAbove = place < read && (read - place) % this.columns === 0;
      const keeps = isAbove || card.box.matches(":hover");
      const isWritten = !card.slot.isLive && !card.isBehind;
      const reserve = !isWritten ? Math.min(this.reserve, this.most) : keeps ? Math.max(1, card.lines) : 1;
      return card.fit({ line: this.line, reserve, most: this._mostOf(card) });
    });
    placesOf(lines, this.columns).forEach((place, index) => cards[index]?.put(place));
  }

  /** @param {Card} card */
  _mostOf(card) {
    return card.slot.number === this.opened ? Number.POSITIVE_INFINITY : this.most;
  }

  /** @param {ResizeObserverEntry[]} entries */
  _fit(entries) {
    for (const { target, contentRect } of entries) {
      const card = this.byPlace.get(/** @type {Element} */ (target.closest(".card-place")));
      if (card) card.textHeight = contentRect.height;
    }
    this._place();
  }

  /** Show a card whole, where a phone shows its beginning; returns whether it was not whole. @param {number} number a slot's */
  open(number) {
    const card = this.cards.get(number);
    if (!PHONE.matches || !card || this.opened === number) return false;
    const wasCut = card.isCut;
    this.opened = number;
    this._place();
    return wasCut;
  }

  // ---- Frames

  /** Draw in the next frame, or in the first one after so many ms. */
  _schedule(wait = 0) {
    clearTimeout(this.timer);
    if (wait === Number.POSITIVE_INFINITY || this.frame) return;
    if (wait > FRAME) this.timer = window.setTimeout(() => this._schedule(), wait - FRAME / 2);
    else this.frame = requestAnimationFrame((now) => this._draw(now));
  }

  /** @param {number} now */
  _draw(now) {
    this.frame = 0;
    const { round } = this;
    if (!round) return;
    let moves = this.isStale;
    if (moves) this._refreshAll(round);
    let wait = Number.POSITIVE_INFINITY;
    for (const card of this.dirty) {
      const left = card.step(now, this.highlights);
      if (left === Number.POSITIVE_INFINITY) this.dirty.delete(card);
      moves ||= left === Number.POSITIVE_INFINITY && !card.slot.isLive; // its last words may change no height
      wait = Math.min(wait, left);
    }
    if (moves) this._place();
    this._compare(now, round);
    this._schedule(this._restore(round) ? 0 : wait);
  }

  /** @param {Round} round */
  _refreshAll(round) {
    this.isStale = false;
    this.comparedLength = -1;
    this.groups = round.duplicates();
    const isEnded = round.state === "ended";
    for (const card of this.cards.values()) {
      if (card.isVisible || isEnded) this._refresh(card);
      if (card.isVisible) this.dirty.add(card);
    }
  }

  /** Once the round has ended, write a card out of view, so that the whole is found and read. Returns whether more are left.
   * @param {Round} round */
  _restore(round) {
    if (round.state !== "ended") return false;
    const hidden = [...this.cards.values()].filter((card) => !card.isVisible && card.isBehind);
    hidden[0]?.catchUp(this.highlights);
    return hidden.length > 1;
  }

  /** Compare the beginnings, if they may have changed, and paint the cards in view. @param {number} now @param {Round} round */
  _compare(now, round) {
    const compared = round.slots.filter(
      (slot) => slot.state !== "pruned" && slot.state !== "failed" && slot.foldedUnder === null,
    );
    const length = compared.reduce((sum, slot) => sum + Math.min(slot.text.length, COMPARED), 0);
    if (length !== this.comparedLength) {
      this.comparedLength = length;
      const copies = new Set(this.groups.flatMap((group) => group.slice(1))); // of a card that is compared
      const slots = compared.filter((slot) => !copies.has(slot.number));
      const shared = sharedBeginnings(
        slots.map((slot) => slot.text),
        COMPARED,
      );
      this.shared = new Map(slots.map((slot, place) => [slot.number, shared[place] ?? 0]));
    }
    const logprobs = this.logprobs();
    const before = this._before(round);
    for (const card of this.cards.values()) {
      if (!card.isVisible) continue;
      const shared = round.passage ? 0 : (this.shared.get(card.slot.number) ?? 0); // its difference says more
      card.paint(now, this.highlights, { shared, logprobs, before, passage: round.passage });
    }
  }

  /** What the manuscript says before the round; first words do not wait for it. @param {Round} round */
  _before(round) {
    if (!this.before && round.slots.some(({ text }) => text.length > FIRST_WORDS))
      this.before = sentencesBefore(this.textBefore(round));
    return this.before ?? NOTHING;
  }

  /** @param {IntersectionObserverEntry[]} entries */
  _see(entries) {
    let isNew = false;
    for (const { target, isIntersecting } of entries) {
      const card = this.byPlace.get(target);
      if (!card || card.isVisible === isIntersecting) continue;
      card.isVisible = isIntersecting;
      isNew ||= isIntersecting;
      if (isIntersecting) {
        this._refresh(card);
        this.dirty.add(card);
      } else {
        card.unpaint(this.highlights);
        this.dirty.delete(card);
      }
    }
    if (isNew) this._schedule();
  }

  // ---- What a card shows

  /** @param {Card} card */
  _refresh(card) {
    const { round } = this;
    if (!round) return;
    const { slot } = card;
    const place = round.shown.indexOf(slot.number);
    const { star = false, note = "", isInText = false, doubt = "" } = this.marks(slot.node);
    const inWindow = place - this.window;
    const offer = offerOf(round, slot);
    card.show({
      slot,
      label: `${place + 1}`,
      digit: inWindow >= 0 && inWindow < DIGITS ? `${(inWindow + 1) % DIGITS}` : "",
      direction: this.isDirected() ? (round.directions[slot.number] ?? "") : "",
      ...this.writer(slot),
      ...sameText(round, slot, this.groups),
      ...likelihoodOf(round, slot, this.logprobs() || this.isSorted()),
      before: this._before(round),
      isInText,
      doubt,
      star: star === true,
      note: typeof note === "string" ? note : "",
      stopAt: round.stopAt,
      canExtend: !slot.isLive && round.canExtend(slot) && offer?.name !== "extend",
      canPrune: slot.isLive || slot.state === "ended",
      offer,
    });
    if (slot.state === "ended" && slot.text && card.isVisible) this.onseen(slot);
  }

  // ---- The current card

  get currentCard() {
    return this.cards.get(this.current) ?? null;
  }

  /** @param {number} number a slot's @param {{focus?: boolean, scroll?: boolean}} [options] */
  setCurrent(number, { focus = false, scroll = false } = {}) {
    const card = this.cards.get(number);
    if (!card) return;
    if (number !== this.current) {
      this.currentCard?.setCurrent(false);
      this.current = number;
      card.setCurrent(true);
    }
    if (focus) card.box.focus({ preventScroll: true });
    if (scroll) this._scrollTo(card);
  }

  /** Scroll to a card, by its slot's number. @param {number} number */
  reveal(number) {
    const card = this.cards.get(number);
    if (card) this._scrollTo(card);
  }

  /** @param {Card} card */
  _scrollTo({ place }) {
    const { list } = this;
    const bottom = place.offsetTop + place.offsetHeight;
    if (place.offsetTop < list.scrollTop) list.scrollTop = place.offsetTop;
    else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
  }

  /** The slot number of the card that is so many columns and rows beside the current one. @param {number} columns @param {number} rows */
  neighbour(columns, rows) {
    const shown = this.round?.shown ?? [];
    const place = shown.indexOf(this.current);
    const next = place + columns + rows * this.columns;
    return shown[next] ?? this.current;
  }

  /** Move the window of ten digits. @param {number} step */
  moveWindow(step) {
    const count = this.round?.shown.length ?? 0;
    const last = DIGITS * Math.max(0, Math.ceil(count / DIGITS) - 1);
    const window = Math.max(0, Math.min(last, this.window + step * DIGITS));
    if (window === this.window) return false;
    this.window = window;
    this.refresh();
    return true;
  }

  /** The slot number that a digit takes; null without such a card. @param {number} digit */
  atDigit(digit) {
    return this.round?.shown[this.window + ((digit + DIGITS - 1) % DIGITS)] ?? null;
  }
}

/** The action that a card suggests which is empty, or at whose end the model would end the text. @param {Round} round @param {Slot} slot */
function offerOf(round, slot) {
  const behind = behindOffer(round, slot);
  if (behind) return behind;
  if (slot.state === "ended" && slot.end?.reason === "eos" && round.stopAt !== "passage" && round.canExtend(slot))
    return { name: "extend", label: msg`Go on anyway` };
  return round.canRefill(slot) ? { name: "refill", label: msg`Try another here` } : null;
}
