/**
 * Values by key, of which the last writer wins.
 *
 * @import {Stamped} from "./types.js"
 */
import { laterStamped, own } from "./merge.js";

export class Stamps {
  /** @type {Map<string, Stamped>} */
  #values = new Map();

  /** @param {string} key */
  get(key) {
    return this.#values.get(key)?.value;
  }

  /** @param {string} key */
  stamped(key) {
    return this.#values.get(key);
  }

  /** @returns {Record<string, Stamped>} also those that were taken away */
  all() {
    return Object.assign(own(), Object.fromEntries(this.#values));
  }

  /** The time of the last change. */
  get changed() {
    let latest = 0;
    for (const { changed } of this.#values.values()) latest = Math.max(latest, changed);
    return latest;
  }

  /**
   * Write a value here: it is later than all that this copy knows, even if another machine's clock is ahead.
   * @param {string} key
   * @param {unknown} value
   * @param {number} changed
   */
  set(key, value, changed) {
    this.#values.set(key, { value, changed: Math.max(changed, (this.#values.get(key)?.changed ?? -1) + 1) });
  }

  /**
   * Take a value that was written elsewhere.
   * @param {string} key
   * @param {Stamped} stamped
   * @returns {boolean} whether the value or its time is another one now
   */
  take(key, stamped) {
    const before = this.#values.get(key);
    if (before !== undefined && laterStamped(before, stamped) === before) return false;
    this.#values.set(key, { value: stamped.value, changed: stamped.changed });
    return true;
  }

  /** @returns {Record<string, unknown>} the values that are set, by key */
  values() {
    const values = own();
    for (const [key, { value }] of this.#values) if (value !== null && value !== undefined) values[key] = value;
    return values;
  }

  /** @returns {Record<string, number>} the times of all values, also of those that were taken away */
  times() {
    const times = own();
    for (const [key, { changed }] of this.#values) times[key] = changed;
    return times;
  }
}
