// The cards of a round: its slots, the order in which they are shown, and the marks on their texts.

import { duplicates, repeatedShares } from "../compare.js";
import { onBoundary, trimCut } from "../cuts.js";
import { passageIn } from "../tasks.js";
import { IllegalMove, Slot } from "./slots.js";

const WEIGHT = 4; // nats: what only repeats counts as if each token were e⁻⁴ times as likely; as in the server's ranking "fresh"
const BEFORE = 60_000; // characters before the branches that they are compared with

/** Order and folds, as they can be restored. @typedef {{order: number[], folds: [number, number][]}} Arrangement */

export class Cards {
  /** @param {number} n */
  constructor(n) {
    this.slots = Array.from({ length: n }, (_, number) => new Slot(number));
    /** Slot numbers in the order in which cards are shown, and digits dealt. */
    this.order = this.slots.map((slot) => slot.number);
    /** Which cards are shown of those that are not folded; null: all. @type {((slot: Slot) => boolean) | null} */
    this.passes = null;
    this.passage = ""; // in whose place the cards go
  }

  /** How many slots are in each state. */
  get counts() {
    const counts = { running: 0, waiting: 0, ended: 0, pruned: 0, failed: 0 };
    for (const slot of this.slots) counts[slot.state]++;
    return counts;
  }

  /**
   * The part of a slot's text that taking it brings: up to `at`, else up to its mark, else to its end, of a new passage without what the model says beside it.
   * @param {number} number @param {number|null} [at]
   */
  taken(number, at = null) {
    const slot = this._slot(number);
    const whole = this.passage ? passageIn(slot.text) : { from: 0, to: slot.text.length };
    const to = trimCut(slot.text, at ?? slot.mark ?? whole.to);
    const from = slot.start || whole.from;
    if (from >= to) return { from: 0, to, text: slot.text.slice(0, to) };
    return { from, to, text: slot.text.slice(from, to) };
  }

  /** Take a slot's text up to a place. @param {number} number @param {number|null} at null: to its end */
  setMark(number, at) {
    const slot = this._slot(number);
    slot.mark = at === null ? null : trimCut(slot.text, at);
    if (slot.mark !== null && slot.start >= slot.mark) slot.start = 0;
  }

  /** Take a slot's text from a place on. @param {number} number @param {number} at */
  setStart(number, at) {
    const slot = this._slot(number);
    slot.start = onBoundary(slot.text, at);
    if (slot.mark !== null && slot.start >= slot.mark) slot.mark = null;
  }

  // ---- Order

  /** Groups of ended slots that have the same text, each in the order of the cards. @returns {number[][]} */
  duplicates() {
    const ended = this.order.map((number) => this._slot(number)).filter((slot) => slot.state === "ended");
    const groups = duplicates(ended.map((slot) => slot.text));
    return groups.map((group) => ended.filter((_, place) => group.includes(place)).map((slot) => slot.number));
  }

  /** The numbers of the cards that are shown, in their order: those of slots that are not folded under another one, and pass. */
  get shown() {
    const front = this.order.filter((number) => this._slot(number).foldedUnder === null);
    return this.passes ? front.filter((number) => this.passes?.(this._slot(number))) : front;
  }

  /** The slots that are folded under a slot. @param {number} number */
  behind(number) {
    return this.slots.filter((slot) => slot.foldedUnder === number);
  }

  /** Whether a slot is folded under one that resembles it, but has another text. @param {Slot} slot */
  isBehindAnother({ foldedUnder, text }) {
    return foldedUnder !== null && this._slot(foldedUnder).text !== text;
  }

  /** Whether slots are folded under others that resemble them. */
  get isGrouped() {
    return this.slots.some((slot) => this.isBehindAnother(slot));
  }

  /** Fold ended slots under the first of their group, as `groups` has their numbers, and no others. @param {number[][]} groups */
  group(groups) {
    this.unfoldAll();
    for (const [first = 0, ...others] of groups)
      for (const slot of others.map((number) => this._slot(number)))
        if (slot.state === "ended" && this._slot(first).state !== "pruned") slot.foldedUnder = first;
  }

  /** Fold each duplicate under the first slot with its text; if all are folded, unfold them. @returns {Set<number>} slots that changed */
  fold() {
    /** @type {Set<number>} */
    const changed = new Set();
    for (const group of this.duplicates()) {
      const [first, ...others] = group.map((number) => this._slot(number));
      if (!first) continue;
      const under = first.foldedUnder ?? first.number;
      for (const slot of others) {
        if (slot.number === under || slot.foldedUnder !== null) continue;
        slot.foldedUnder = under;
        changed.add(slot.number).add(under);
      }
    }
    return changed.size ? changed : this.unfoldAll();
  }

  unfoldAll() {
    const folded = this.slots.filter((slot) => slot.foldedUnder !== null);
    return new Set(folded.flatMap((slot) => [...this.unfold(slot.number)]));
  }

  /** Unfold a slot, or all that are folded under it. @param {number} number @returns {Set<number>} */
  unfold(number) {
    const folded = this.behind(number);
    const slot = this._slot(number);
    const unfolded = slot.foldedUnder === null ? folded : [slot];
    for (const each of unfolded) each.foldedUnder = null;
    return new Set(unfolded.map((each) => each.number)).add(number);
  }

  /** Unfold a slot whose text is about to change, and what is folded under it for having the same. @param {number} number */
  _release(number) {
    for (const slot of this.behind(number)) if (!this.isBehindAnother(slot)) slot.foldedUnder = null;
    this._slot(number).foldedUnder = null;
  }

  /** Deal the cards anew: the likeliest that say something new first, then those without probabilities, folded, failed and pruned
   * ones. @param {string} before the text before the branches */
  sort(before) {
    const losses = this.slots.map((slot) => -(slot.meanLogprob ?? Number.NEGATIVE_INFINITY));
    this._deal(losses);
    const texts = this.order.map((number) => this._slot(number).text);
    repeatedShares(texts, before.slice(-BEFORE)).forEach((share, place) => {
      losses[this.order[place] ?? -1] += WEIGHT * share;
    });
    this._deal(losses);
  }

  /** Deal the cards anew by likelihoods of their numbers; those without one stand behind. @param {Map<number, number>} likelihoods */
  sortBy(likelihoods) {
    this._deal(this.slots.map(({ number }) => -(likelihoods.get(number) ?? Number.NEGATIVE_INFINITY)));
  }

  /** Deal the cards by their losses, the least first; folded, failed and pruned ones stand behind. @param {number[]} losses of the slots */
  _deal(losses) {
    const groups = this.slots.map(({ state, foldedUnder }) =>
      state === "pruned" ? 3 : state === "failed" ? 2 : foldedUnder !== null ? 1 : 0,
    );
    this.order.sort((a, b) => {
      const [x, y] = [losses[a] ?? 0, losses[b] ?? 0];
      return (groups[a] ?? 0) - (groups[b] ?? 0) || (x === y ? 0 : x - y);
    });
  }

  /** Order and folds, for an undo. @returns {Arrangement} */
  arrangement() {
    const folded = this.slots.filter((slot) => slot.foldedUnder !== null);
    return {
      order: [...this.order],
      folds: folded.map((slot) => [slot.number, /** @type {number} */ (slot.foldedUnder)]),
    };
  }

  /** Restore order and folds; slots that are newer than the arrangement stay at the end. @param {Arrangement} was */
  rearrange(was) {
    const newer = this.order.filter((number) => !was.order.includes(number));
    this.order = [...was.order.filter((number) => number < this.slots.length), ...newer];
    const folds = new Map(was.folds);
    for (const slot of this.slots) {
      const under = folds.get(slot.number);
      const isFolded = slot.state === "ended" && under !== undefined && this.slots[under]?.state !== "pruned";
      slot.foldedUnder = isFolded ? under : null;
    }
  }

  // ---- Slots

  /** @param {number} number */
  _slot(number) {
    const slot = this.slots[number];
    if (!slot) throw new IllegalMove(`the round has no card ${number + 1}`);
    return slot;
  }

  _addSlot() {
    const slot = new Slot(this.slots.length);
    this.slots.push(slot);
    this.order.push(slot.number);
    return slot;
  }

  /** Numbers that the next slots will have. @param {number} count */
  _newNumbers(count) {
    return Array.from({ length: count }, (_, place) => this.slots.length + place);
  }

  /** Remove a slot that nothing ever filled, if it is the last one. @param {Slot} slot */
  _removeUnused(slot) {
    if (slot.request !== null || slot.number !== this.slots.length - 1) return false;
    this.slots.pop();
    this.order = this.order.filter((number) => number !== slot.number);
    return true;
  }
}
