// Slots of a round: one place for a card each, with the branch that fills it, its state, and the moves that are legal.

import { msg } from "../languages.js";

/** @typedef {"waiting"|"running"|"ended"|"pruned"|"failed"} SlotState */
/** @typedef {"text"|"stop"|"fail"|"lose"|"prune"|"restore"|"revive"|"add"|"resume"|"attach"} Move */
/** @typedef {"refill"|"extend"|"vary"|"more"|"choose"} Kind   the reason for which a branch is expected in a slot */
/** @typedef {{reason: string, word?: string, message?: string}} End   `reason` as in the `stop` event; "truncated": the
 *   context is full; "lost": the connection ended; of a failure the error's code */

/** States to which a move leads; a move that is not listed is illegal in that state. @type {Record<SlotState, Partial<Record<Move, SlotState>>>} */
export const MOVES = {
  waiting: { text: "running", stop: "ended", fail: "failed", lose: "ended", prune: "pruned", attach: "waiting" },
  running: { text: "running", stop: "ended", fail: "failed", lose: "ended", prune: "pruned", attach: "running" },
  ended: { prune: "pruned", add: "waiting", resume: "running", attach: "ended" },
  pruned: {
    text: "pruned",
    stop: "pruned",
    fail: "pruned",
    lose: "pruned", // its branch writes until the server has ended it
    restore: "ended",
    revive: "running",
    add: "waiting",
    attach: "pruned",
  },
  failed: { stop: "failed", add: "waiting", attach: "failed" },
};

/** An illegal move of a slot. Nothing has changed. */
export class IllegalMove extends Error {}

/** Numbers in a typed array that grows. @template {Float32Array|Uint32Array} T */
export class Numbers {
  /** @param {new (length: number) => T} Type */
  constructor(Type) {
    this._type = Type;
    this._values = new Type(0);
    this.length = 0;
  }

  /** @param {number} value */
  push(value) {
    if (this.length === this._values.length) {
      const grown = new this._type(Math.max(64, this.length * 2));
      grown.set(this._values);
      this._values = grown;
    }
    this._values[this.length++] = value;
  }

  /** The number at a place; NaN beyond the end. @param {number} place */
  at(place) {
    return place < this.length ? this._values[place] : Number.NaN;
  }

  /** Keep the first `length` numbers. @param {number} length */
  truncate(length) {
    this.length = Math.min(this.length, length);
  }

  /** Replace all numbers by another list's. @param {Numbers<T>} other */
  copy(other) {
    this._values = /** @type {T} */ (other._values.slice(0, other.length));
    this.length = other.length;
  }

  /** All numbers; valid until the next change. @returns {T} */
  view() {
    return /** @type {T} */ (this._values.subarray(0, this.length));
  }
}

/** A place for a card, and the branch that fills it. `node` belongs to the desk: the story's node of this branch. */
export class Slot {
  /** @param {number} number */
  constructor(number) {
    this.number = number;
    /** Key of the request whose branch fills the slot. @type {string|null} */
    this.request = null;
    /** The branch's index at the server. @type {number|null} */
    this.index = null;
    /** @type {string|null} */
    this.node = null;
    this.text = "";
    /** Length of the beginning of `text` that this request's prompt had already: the server's branch begins after it. */
    this.given = 0;
    this.length = 0; // tokens
    /** @type {number|null} */
    this.seed = null;
    /** @type {SlotState} */
    this.state = "waiting";
    /** @type {End|null} */
    this.end = null;
    /** The end that the text had before a request that extends it; it counts again if that is refused. @type {End|null} */
    this.held = null;
    /** Offset up to which the text is taken; null: all of it. @type {number|null} */
    this.mark = null;
    /** Offset from which the text is taken. */
    this.start = 0;
    /** Number of the slot under which this one is folded, having the same text or one that resembles it. @type {number|null} */
    this.foldedUnder = null;
    /** A branch that the server was asked for and that has not come yet. @type {Kind|null} */
    this.pending = null;
    /** Mean log-probability of the ended branch's tokens. @type {number|null} */
    this.logprob = null;
    this.tokenEnds = new Numbers(Uint32Array); // offsets in `text` at which tokens end, beside their log-probabilities:
    this.tokenLogprobs = new Numbers(Float32Array);
  }

  /** Change the state; an illegal move changes nothing. @param {Move} move */
  move(move) {
    const next = MOVES[this.state][move];
    if (next === undefined) throw new IllegalMove(`a slot that is ${this.state} cannot ${move}`);
    this.state = next;
  }

  /** @param {Move} move */
  can(move) {
    return MOVES[this.state][move] !== undefined;
  }

  get isLive() {
    return this.state === "waiting" || this.state === "running";
  }

  /** Mean log-probability of the tokens so far, or null if there are none. */
  get meanLogprob() {
    if (this.logprob !== null) return this.logprob;
    const values = this.tokenLogprobs.view();
    let sum = 0;
    for (const value of values) sum += value;
    return values.length ? sum / values.length : null;
  }

  /** Append text that arrived, with its tokens' log-probabilities.
   * @param {string} text @param {{token: string, logprob?: number|null, prob?: number}[]} [logprobs] @param {number} [tokens] */
  grow(text, logprobs, tokens) {
    let end = this.text.length;
    this.text += text;
    this.length += tokens ?? logprobs?.length ?? 1;
    if (!logprobs) return;
    logprobs.forEach((each, place) => {
      end = place === logprobs.length - 1 ? this.text.length : Math.min(end + each.token.length, this.text.length);
      this.tokenEnds.push(end);
      this.tokenLogprobs.push(each.logprob ?? Math.log(each.prob ?? Number.NaN));
    });
  }

  /** Drop the branch that filled the slot, to begin another one with `text`. @param {string} text */
  begin(text) {
    this.text = text;
    this.length = 0;
    this.given = 0;
    this.end = this.held = this.logprob = null;
    this.node = this.mark = this.foldedUnder = this.pending = null;
    this.start = 0;
    this.tokenEnds.truncate(0);
    this.tokenLogprobs.truncate(0);
  }

  /** Take the log-probabilities of the first `length` characters of another slot's text. @param {Slot} origin @param {number} length */
  share(origin, length) {
    const ends = origin.tokenEnds.view();
    let count = 0;
    while (count < ends.length && (ends[count] ?? 0) <= length) count++;
    this.tokenEnds.copy(origin.tokenEnds);
    this.tokenEnds.truncate(count);
    this.tokenLogprobs.copy(origin.tokenLogprobs);
    this.tokenLogprobs.truncate(count);
  }
}

/** @typedef {{words: string, description: string}} EndWord   `words` are short, and none for an end as it was asked for;
 *   `description` is a sentence for those who do not see the card */

/** What the page itself says of an end: stories keep it as it stands on the left, whatever language the page speaks. */
const OWN_WORDS = new Map([
  ["lost", msg`The connection to the server was lost.`],
  ["unreachable", msg`The server cannot be reached.`],
  ["nothing was written", msg`nothing was written`],
  ["the connection ended", msg`the connection ended`],
  ["the request has ended", msg`the request has ended`],
  ["the server has added no branch", msg`the server has added no branch`],
]);

/** @param {string} [message] of an end: the server's, or one of the page's own */
const wordsOf = (message = "") => OWN_WORDS.get(message) ?? message;

/** By what a request asked for as its end. */
const BOUNDARIES = new Map([
  ["word", msg`Ended: the word is complete.`],
  ["line", msg`Ended: the line is complete.`],
  ["sentence", msg`Ended: the sentence is complete.`],
  ["paragraph", msg`Ended: the paragraph is complete.`],
]);

/** Say how far a branch is, or how it ended. @param {Slot} slot @param {string} [stopAt] the boundary that the request asked for
 * @returns {EndWord} */
export function endWord(slot, stopAt = "") {
  if (slot.state === "pruned") return { words: msg`set aside`, description: msg`Set aside.` };
  if (slot.state === "waiting") return { words: "", description: msg`Waiting for its first words.` };
  if (slot.state === "running") return { words: "", description: msg`Being written.` };
  const { reason = "", word, message } = slot.end ?? {};
  if (slot.state === "failed") {
    const said = wordsOf(message) || reason || msg`no reason was given`;
    return { words: msg`failed: ${said}`, description: sentence(msg`Failed: ${said}`) };
  }
  switch (reason) {
    case "eos":
      if (stopAt === "passage") return { words: "", description: msg`Ended: the passage is complete.` };
      return { words: msg`The model would end here.`, description: msg`The model would end the text here.` };
    case "word":
      return { words: "", description: msg`Ended at the stop word ${quoted(word)}.` };
    case "boundary":
      return { words: "", description: BOUNDARIES.get(stopAt) ?? msg`Ended: the boundary is complete.` };
    case "limit":
      return { words: stopAt ? msg`cut off here` : "", description: msg`Ended at its full length; it can go on.` };
    case "truncated":
      return { words: msg`the context is full`, description: msg`Ended: the model's context is full.` };
    case "engine_restarted":
      return { words: msg`the engine was restarted`, description: msg`Ended: the engine was restarted.` };
    case "cancelled":
      return { words: msg`stopped`, description: msg`Stopped.` };
    case "lost":
      return {
        words: msg`the connection was lost`,
        description: message
          ? sentence(msg`The connection was lost: ${wordsOf(message)}`)
          : msg`The connection was lost.`,
      };
    default:
      return { words: msg`ended: ${reason}`, description: sentence(msg`Ended: ${message || reason}`) };
  }
}

/** @param {string} words the server's may end as a sentence already */
function sentence(words) {
  return /[.!?…]$/u.test(words) ? words : `${words}.`;
}

/** @param {string} [word] */
function quoted(word = "") {
  return msg`“${word.replaceAll("\n", "↵")}”`;
}
