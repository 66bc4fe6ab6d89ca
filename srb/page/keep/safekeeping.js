/**
 * The safekeeping of one story's unsaved parts in the outbox. A server that answers at once makes it unnecessary: the outbox gets
 * what was not confirmed soon, what could not be sent, and everything when the page may be closing.
 *
 * @import {Wire} from "../story/types.js"
 * @import {Outbox} from "./outbox.js"
 */
import { msg } from "../languages.js";
import { absorb, emptyWire, unionOf } from "../story/merge.js";
import { isEmpty } from "./posts.js";

const SOON = 300;

export class Safekeeping {
  /** Why this browser cannot keep anything, or "". */
  fault = "";
  /** Whether a part is on its way into the outbox. */
  isPutting = false;
  /** @type {Required<Wire>} parts that are neither in the outbox nor on their way */
  #added = emptyWire();
  /** @type {Required<Wire>} parts that are on their way, and not in the outbox */
  #sent = emptyWire();
  /** Whether the outbox may hold parts of the story, from before or from now. */
  #mayHold = true;
  #puts = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {string} id  of the story
   * @param {Outbox} outbox
   * @param {{now: () => number, told: () => void}} options
   */
  constructor(id, outbox, { now, told }) {
    this.id = id;
    this.outbox = outbox;
    this.now = now;
    this.told = told;
    /** Resolves when the outbox has all that was put into it, or has failed. */
    this.done = Promise.resolve();
  }

  /** @param {Wire} wire */
  add(wire) {
    absorb(this.#added, wire);
  }

  /** All that was added is sent now; the outbox gets it if the server does not answer soon. */
  begin() {
    this.#sent = this.#added;
    this.#added = emptyWire();
    this.#timer ??= setTimeout(() => this.put(), SOON);
  }

  /**
   * All that was sent was answered.
   * @param {Wire} saved  what the server has now
   */
  end(saved) {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sent = emptyWire();
    this.forget(saved);
  }

  /**
   * What the server has need not be kept.
   * @param {Wire} saved
   */
  forget(saved) {
    if (!this.#mayHold || isEmpty(saved)) return;
    this.#next(async () => {
      const puts = this.#puts;
      const isGone = await this.outbox.forget(this.id, saved);
      if (isGone && puts === this.#puts) this.#mayHold = false;
    });
  }

  /**
   * Put everything that is not saved into the outbox.
   * @param {Wire} [more]
   */
  put(more = {}) {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const wire = unionOf(unionOf(this.#sent, this.#added), more);
    this.#sent = emptyWire();
    this.#added = emptyWire();
    if (isEmpty(wire)) return;
    this.#mayHold = true;
    this.#puts += 1;
    this.isPutting = true;
    const puts = this.#puts;
    this.#next(() =>
      this.outbox.put(this.id, wire, this.now()).finally(() => {
        this.isPutting = puts !== this.#puts;
      }),
    );
  }

  /** @param {() => Promise<unknown>} change  of the outbox, after all others */
  #next(change) {
    this.done = this.done.then(change).then(
      () => this.#note(""),
      (error) => this.#note(/** @type {Error} */ (error).message || msg`it is full`),
    );
  }

  /** @param {string} fault */
  #note(fault) {
    if (fault === this.fault) return;
    this.fault = fault;
    this.told();
  }
}
