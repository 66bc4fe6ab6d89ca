// A round: one request and its cards. Pure: events go in, states and the calls to make come out.

import { codePoints, trimCut } from "./cuts.js";
import { isLive, Requests } from "./round/requests.js";
import { endWord, IllegalMove, Slot } from "./round/slots.js";

export { endWord, IllegalMove, Slot };

/** @typedef {import("./round/slots.js").Kind} Kind */
/** @typedef {import("./round/requests.js").Request} Request */
/** @typedef {{node: string, at: number}} Place */
/** @typedef {import("./tasks.js").Task} Task */
/** What each voice reads; `blocks`: of which its prompt is made. @typedef {Map<string, {prompt: string, place?: Directing | null, blocks: import("./reading.js").Block[]}>} Prompts */
/** Where directions stand in a prompt: before its last `tail` units, between `before` and `rest`, which a branch then reads instead of those.
 * @typedef {{tail: number, before: string, rest: string}} Directing */

/** A call to make, or a request to start. A control's next `branch` events belong to `slots`: tell `expectBranches` before
 * the call. A new request of `n` branches has the round's prompt and `given` after it: tell `join` before it.
 * @typedef {{kind: "control", request: string, method: string, path: string, body?: object, slots: number[], expect?: Kind}} Control
 * @typedef {{kind: "request", n: number, given: string, slots: number[], expect: Kind, seedOffset: number, voice: string,
 *   neverEnds?: boolean}} NewRequest
 * @typedef {Control|NewRequest} Plan */

const BASE = "v1/srb/completions/";

export class Round extends Requests {
  /** @param {{id: string, base: Place, keep: number, until?: number, n: number, prompts: Prompts | null, voices?: readonly string[],
   *   lore?: string[], stopAt?: string, asked?: number, task?: Task | null, passage?: string, directions?: string[],
   *   wanted?: number, isBlind?: boolean}} given
   *   `lore`: ids of the lorebook's entries in the prompt; `asked`: branches that the round has asked for before; `keep` is where the
   *   model's text begins, in the place of what stands there up to `until`, the `passage`; `prompts`: null: not made yet; the first
   *   request of each voice is joined by `join`; `wanted`: cards to show, of more that are written; 0: all */
  constructor({
    id,
    base,
    keep,
    until = base.at,
    n,
    prompts,
    voices = [""],
    lore = [],
    stopAt = "",
    asked = 0,
    task = null,
    passage = "",
    directions = [],
    wanted = 0,
    isBlind = false,
  }) {
    super(n);
    this._branches = asked;
    this.id = id;
    this.base = base;
    this.keep = keep;
    this.until = until;
    this.task = task;
    this.passage = passage;
    this.n = n;
    this.prompts = prompts;
    this.isRemade = prompts === null; // from the story: its prompts, too
    this.voices = voices;
    this.lore = lore;
    this.stopAt = stopAt;
    /** How much the cards differ in what they mean, once it was asked. @type {import("./desk/meaning.js").Meaning | null} */
    this.meaning = null;
    /** Lines that cards seem to contradict, by the cards' nodes, once readers were asked. @type {Map<string, string>} */
    this.doubts = new Map();
    this.wanted = wanted;
    this.isBlind = isBlind; // until a card is taken: desk/blind.js
    this.isChosen = false; // those that differ most, by the server's word
    this.directions = directions;
    this.isDirectable = directions.some(Boolean); // whether its prompts tell where directions stand
  }

  /** Let further requests read these prompts. @param {Prompts} prompts @param {string|null} mended the text that they end with, if a
   *   person has mended what stands before the cards @param {boolean} [isDirectable] */
  read(prompts, mended, isDirectable = false) {
    this.isDirectable = isDirectable;
    this.prompts = prompts;
    this.mended = mended;
  }

  /** What a voice reads; null if it is not made yet. @param {string} [voice] */
  promptOf(voice = this.voices[0]) {
    return this.prompts?.get(voice)?.prompt ?? null;
  }

  /** Where directions stand in what a voice reads; null: where the server puts them. @param {string} [voice] */
  placeOf(voice = this.voices[0]) {
    return this.prompts?.get(voice)?.place ?? null;
  }

  /** The voice that a slot is for: one that no request was ever begun for is the first one's. @param {Slot} slot */
  writerOf(slot) {
    const voice = this.voiceOf(slot);
    return this.voices.includes(voice) ? voice : this.voices[0];
  }

  /** Whether the branches are shared among several models. */
  get isShared() {
    return this.voices.length > 1;
  }

  /** The first slots of each voice: they take turns, so that cards beside each other are by different ones. @returns {Map<string, number[]>} */
  shares() {
    const { slots, voices } = this;
    const numbers = slots.map(({ number }) => number);
    return new Map(voices.map((voice, turn) => [voice, numbers.filter((number) => number % voices.length === turn)]));
  }

  /** Whether text stands behind the cards. */
  get isInside() {
    return this.until < this.base.at;
  }

  /** Whether it is time to choose the cards that are shown: more have texts than are wanted, and all are as they will be. */
  get isToChoose() {
    if (!this.wanted || this.isChosen) return false;
    const written = this.slots.filter(({ text, state }) => text.trim() && state !== "pruned");
    return (
      written.length > this.wanted &&
      this.slots.every((slot) => !slot.isLive && !slot.pending && slot.end?.reason !== "lost")
    );
  }

  // ---- Legal moves

  /** @param {Slot} slot */
  canPrune(slot) {
    return slot.can("prune") && !slot.pending && (!slot.isLive || this._isControlled(slot));
  }

  /** Whether the slot is empty: pruned, failed, or folded under another one with the same text. @param {Slot} slot */
  canRefill(slot) {
    const isCopy = slot.state === "ended" && slot.foldedUnder !== null && !this.isBehindAnother(slot);
    const isEmpty = slot.state === "pruned" || slot.state === "failed" || isCopy;
    return isEmpty && !slot.pending;
  }

  /** @param {Slot} slot */
  canExtend(slot) {
    if (slot.pending) return false;
    if (slot.state === "running") return slot.index !== null && !this.requests.get(slot.request ?? "")?.isDivided;
    if (slot.state !== "ended" || slot.end?.reason === "truncated") return false;
    return slot.text !== "" || slot.end?.reason === "eos";
  }

  /** @param {Slot} slot */
  canTake(slot) {
    return trimCut(slot.text, slot.mark ?? slot.text.length) > 0;
  }

  /** @param {Slot} slot */
  canVary(slot) {
    return slot.text !== "" && !slot.pending;
  }

  /** Whether the slot's branch can be controlled. @param {Slot} slot */
  _isControlled(slot) {
    const request = this.requests.get(slot.request ?? "");
    return !!request && isLive(request);
  }

  // ---- Plans

  /** Mark a slot as pruned; the call ends its branch. Null if no branch has to be ended. @param {number} number @returns {Control|null} */
  planPrune(number) {
    const slot = this._slot(number);
    const wasLive = slot.isLive;
    if (!this.canPrune(slot)) throw new IllegalMove(`card ${number + 1} cannot be pruned`);
    slot.move("prune");
    this.unfold(number);
    const request = this.requests.get(slot.request ?? "");
    if (!wasLive || !request) return null;
    return {
      kind: "control",
      request: request.key,
      method: "DELETE",
      path: branchPath(request, slot),
      slots: [number],
    };
  }

  /** Take a prune back: the text is shown again. It goes on only if the server has not ended the branch. @param {number} number */
  unprune(number) {
    const slot = this._slot(number);
    slot.move(!slot.end && this._isControlled(slot) ? "revive" : "restore");
    if (slot.state === "ended") slot.end ??= { reason: "cancelled" };
  }

  /** Fill the empty slots of a voice. @param {string} [voice] @returns {Plan|null} */
  planRefill(voice = this.voices[0]) {
    const empty = this.slots.filter((slot) => this.canRefill(slot) && this.writerOf(slot) === voice);
    return empty.length
      ? this._planNew(
          empty.map((slot) => slot.number),
          "refill",
          voice,
        )
      : null;
  }

  /** Add branches of a voice in new slots, with the directions of the first ones in turn. @param {number} count @param {string} [voice]
   * @returns {Plan} */
  planMore(count, voice = this.voices[0]) {
    const numbers = this._newNumbers(count);
    for (const number of numbers) this._direct(number, this.directions[number % this.n]);
    return this._planNew(numbers, "more", voice);
  }

  /** Say what happens in a slot's next branch. @param {number} number @param {string} [direction] */
  _direct(number, direction = "") {
    if (direction || this.directions[number]) this.directions[number] = direction;
  }

  /** @param {number[]} slots @param {Kind} kind @param {string} voice @returns {Plan} */
  _planNew(slots, kind, voice) {
    const request = this.liveRequest(voice);
    const directions = this.directionsOf(slots);
    if (!request || (directions.some(Boolean) && !request.isDirected)) return this._newRequest("", slots, kind, voice);
    const branches = directions.map((direction) => ({ direction }));
    return this._control(request, request.isDirected ? { branches } : { count: slots.length }, slots, kind);
  }

  /** Let a branch go on for so many tokens. A running one gets a higher limit, one that has ended by its limit goes on, any
   * other goes on as a fork of itself in the same slot; where the model would end, it may not. @param {number} number @param {number} tokens @returns {Plan} */
  planExtend(number, tokens) {
    const slot = this._slot(number);
    const request = this.requests.get(slot.request ?? "");
    if (slot.state === "running" && request?.isDivided)
      throw new IllegalMove(`Card ${number + 1} can go on when it has ended.`);
    if (!this.canExtend(slot)) throw new IllegalMove(`card ${number + 1} cannot be extended`);
    const neverEnds = slot.end?.reason === "eos";
    const isRunning = slot.state === "running";
    if (!request || !isLive(request) || !(isRunning || this._canBranch(request))) {
      const given = slot.text.slice(0, trimCut(slot.text, slot.text.length));
      return { ...this._newRequest(given, [number], "extend", this.voiceOf(slot)), neverEnds };
    }
    if (isRunning || slot.end?.reason === "limit") {
      const path = branchPath(request, slot);
      return {
        kind: "control",
        request: request.key,
        method: "PATCH",
        path,
        body: { max_tokens: tokens },
        slots: [number],
      };
    }
    const append = slot.end?.word
      ? { branches: [{ append: slot.end.word, max_tokens: tokens }] }
      : { max_tokens: tokens, ...(neverEnds ? { ignore_eos: true } : {}) };
    return this._control(request, { ...append, from: { branch: slot.index } }, [number], "extend");
  }

  /** Ask once more for what a request that never began was to bring: null if other branches fill its slots now, or they were
   * pruned. @param {string} key @returns {NewRequest|null} */
  planAgain(key) {
    const { kind, given, slots, voice } = this._request(key);
    const left = slots.filter((number) => {
      const slot = this.slots[number];
      return slot?.request === key && slot.state !== "pruned" && slot.can("add") && !slot.pending;
    });
    if (kind === null || !left.length) return null;
    return this._newRequest(given, left, kind, voice);
  }

  /** Begin `count` branches with the first `at` units of a slot's text (null: all of it), and `more` text, in new slots.
   * @param {number} number @param {number|null} at @param {number} count @param {{more?: string, kind?: Kind}} [options] @returns {Plan} */
  planVary(number, at, count, { more = "", kind = "vary" } = {}) {
    const slot = this._slot(number);
    if (!this.canVary(slot)) throw new IllegalMove(`card ${number + 1} has no text to vary`);
    const cut = trimCut(slot.text, at ?? slot.text.length);
    const slots = this._newNumbers(count);
    for (const each of slots) this._direct(each, this.directions[number]);
    for (const each of slots) this.moods[each] = this.moods[number] ?? "";
    const request = this.requests.get(slot.request ?? "");
    const own = slot.text.length - (slot.end?.word?.length ?? 0); // the server's text has no stop string
    if (!request || !this._canBranch(request) || cut < slot.given || cut > own) {
      const given = slot.text.slice(0, cut) + more;
      return this._newRequest(given, slots, kind, this.voiceOf(slot));
    }
    const from = { branch: slot.index, character: codePoints(slot.text, cut) - codePoints(slot.text, slot.given) };
    const body = more ? { branches: Array.from({ length: count }, () => ({ append: more })), from } : { count, from };
    return this._control(request, body, slots, kind);
  }

  /** Begin a branch with the same words and then another one, a rival with its own space. @param {number} number @param {number} at
   * @param {string} rival @returns {Plan} */
  planChoose(number, at, rival) {
    return this.planVary(number, at, 1, { more: rival, kind: "choose" });
  }

  /** End every request. @returns {Control[]} */
  planStop() {
    const live = [...this.requests.values()].filter(isLive);
    return live.map(({ key, id }) => ({
      kind: "control",
      request: key,
      method: "DELETE",
      path: BASE + encodeURIComponent(id ?? ""),
      slots: [],
    }));
  }

  /** @param {string} given @param {number[]} slots @param {Kind} expect @param {string} voice @returns {NewRequest} */
  _newRequest(given, slots, expect, voice) {
    return { kind: "request", n: slots.length, given, slots, expect, seedOffset: this._branches, voice };
  }

  /** @param {Request} request @param {object} body @param {number[]} slots @param {Kind} expect @returns {Control} */
  _control(request, body, slots, expect) {
    const path = `${BASE}${encodeURIComponent(request.id ?? "")}/branches`;
    return { kind: "control", request: request.key, method: "POST", path, body, slots, expect };
  }
}

/** The address of a slot's branch. @param {Request} request @param {Slot} slot */
function branchPath(request, slot) {
  return `${BASE}${encodeURIComponent(request.id ?? "")}/branches/${slot.index}`;
}
