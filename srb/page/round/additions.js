// Branches that a running request was asked for: slots that wait for them, and events that wait for the server's answer.

/** @typedef {import("./slots.js").Kind} Kind */
/** @typedef {import("./requests.js").ServerEvent} ServerEvent */

/** A slot that waits for a branch. Its index is null until the server has answered the call with this ticket.
 * @typedef {{number: number, kind: Kind, ticket: number, index: number|null}} Addition */

/** Several windows may add branches to one request, so the order of `branch` events does not say whose they are: the answer
 * to each call does, by indices. An event that comes before its answer is kept until then. */
export class Additions {
  constructor() {
    /** @type {Addition[]} */
    this._open = [];
    /** Events of branches that may be one of ours, by index. @type {Map<number, ServerEvent[]>} */
    this._kept = new Map();
  }

  get count() {
    return this._open.length;
  }

  /** @param {number} number of the slot @param {Kind} kind @param {number} ticket of the call */
  expect(number, kind, ticket) {
    this._open.push({ number, kind, ticket, index: null });
  }

  /** Note the branches that a call has added. @param {number} ticket @param {number[]} indices @returns {Addition[]} those without one */
  bind(ticket, indices) {
    const ours = this._open.filter((each) => each.ticket === ticket);
    ours.forEach((each, place) => {
      each.index = indices[place] ?? null;
    });
    return this._remove((each) => each.ticket === ticket && each.index === null);
  }

  /** Expect the branches of a call no more. @param {number} ticket */
  drop(ticket) {
    return this._remove((each) => each.ticket === ticket);
  }

  /** Expect nothing more: the connection has ended. */
  clear() {
    this._kept.clear();
    return this._remove(() => true);
  }

  /** Remove and return the addition that a new branch fills. @param {number} index @returns {Addition|undefined} */
  take(index) {
    return this._remove((each) => each.index === index)[0];
  }

  /** Keep an event whose branch is new, or has been kept before, while a call is not answered. Returns whether it was kept.
   * @param {ServerEvent} event @param {boolean} isNew */
  keep(event, isNew) {
    const kept = this._kept.get(event.index);
    if (kept) kept.push(event);
    else if (isNew && this._mayBeOurs(event.index)) this._kept.set(event.index, [event]);
    else return false;
    return true;
  }

  /** Remove and return the events that need not wait any more. @returns {ServerEvent[]} */
  released() {
    const free = [...this._kept.keys()].filter((index) => !this._mayBeOurs(index));
    return free.flatMap((index) => {
      const events = this._kept.get(index) ?? [];
      this._kept.delete(index);
      return events;
    });
  }

  /** Whether nobody knows yet whose branch this is. @param {number} index */
  _mayBeOurs(index) {
    return !this._open.some((each) => each.index === index) && this._open.some((each) => each.index === null);
  }

  /** @param {(each: Addition) => boolean} isGone */
  _remove(isGone) {
    const gone = this._open.filter(isGone);
    this._open = this._open.filter((each) => !gone.includes(each));
    return gone;
  }
}
