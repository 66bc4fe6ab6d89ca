/**
 * A round at work: the streams of its requests, the controls of its branches, and the story's nodes of what they write.
 * Cards show what arrived; nodes follow once a second (`save`), and at once when a branch ends or is taken.
 */

import { ApiError } from "../api.js";
import { commonLength } from "../compare.js";
import { msg } from "../languages.js";
import { Trail } from "./trail.js";

/** @typedef {import("../api.js").Api} Api */
/** @typedef {import("../round.js").Round} Round */
/** @typedef {import("../round.js").Plan} Plan */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/**
 * @typedef {object} Listener
 * @property {(live: Live, slots: Set<number>) => void} text texts have grown
 * @property {(live: Live, slots: Set<number> | null) => void} round states of slots have changed; null: of all
 * @property {(live: Live) => void} nodes the story has new nodes or longer texts
 * @property {(live: Live, error: Error, key: string) => void} failed a request, known by its key
 * @property {(live: Live) => void} troubled the server ended a request by an error
 * @property {(live: Live, id: string, event: any) => void} began a request has its id: `event` is its `start`
 */

/** @typedef {(plan: import("../round.js").NewRequest) => object} MakeBody */

/** Whether the server says that what was to be stopped is over already. @param {unknown} error */
const hasEnded = (error) => error instanceof ApiError && [404, 409].includes(error.status);

/** Whether a request is on several replicas of a cluster, which have no more branches for it and no second reader. @param {unknown} error */
export const isDivided = (error) => error instanceof ApiError && error.body?.error?.divided === true;

/** The fields of a branch that is added, without its direction; `from` where it is a place, and not the end as it is by then.
 * @param {any} body @param {number} place */
const fieldsOf = ({ count: _count, from, branches = [], ...shared }, place) => {
  const { direction: _direction, ...own } = branches[place] ?? {};
  return { ...shared, ...own, ...(from?.character === undefined ? {} : { from }) };
};

const ROUTE = "v1/srb/completions";
const ENDINGS = 3; // times that a busy server is asked to end a request
const AGAIN = 2000; // ms between them

export class Live {
  /** @param {{api: Api, story: Story, round: Round, listener: Listener, trails?: Map<number, Trail>}} given */
  constructor({ api, story, round, listener, trails = new Map() }) {
    this.api = api;
    this.story = story;
    this.round = round;
    this.listener = listener;
    this.trails = trails;
    /** @type {Map<string, AbortController>} streams by key of request */
    this.streams = new Map();
    /** @type {Set<number>} slots whose nodes lack text */
    this.unsaved = new Set();
    /** @type {Set<string>} keys of requests that were stopped here: what still arrives of them changes nothing */
    this.stopped = new Set();
    this.keys = 0;
    this.isOpen = false; // for a person who writes first
    /** What branches were asked for with that were added to a request, by slot. @type {Map<number, Record<string, unknown>>} */
    this.added = new Map();
    /** @type {Set<string>} heads at which cards were taken */
    this.heads = new Set();
  }

  /** Note where the head was when a card was taken: undo shows the cards again there. @param {Place} head */
  noteHead({ node, at }) {
    this.heads.add(`${node}:${at}`);
  }

  /** Whether the cards belong beside a place. @param {Place} place */
  isAt({ node, at }) {
    const { base } = this.round;
    return (base.node === node && base.at === at) || this.heads.has(`${node}:${at}`);
  }

  /** Whether a branch grows or is awaited. */
  get isRunning() {
    return this.streams.size > 0 && this.round.slots.some((slot) => slot.isLive || slot.pending);
  }

  /** Whether the server has begun a request of the round. */
  get hasBegun() {
    return [...this.round.requests.values()].some(({ id }) => id !== null);
  }

  /** Whether a request has been asked for of which the server has said nothing, beside the one of `key`. @param {string} [key] */
  isAsking(key) {
    const isWaiting = (/** @type {string} */ each) => this.round.requests.get(each)?.state === "asking";
    return [...this.streams.keys()].some((each) => each !== key && isWaiting(each));
  }

  /** Whether anything holds a connection to the server. */
  get isConnected() {
    return this.streams.size > 0;
  }

  /** The ids of requests that were lost or are of the past: the server may still have them. */
  get lostIds() {
    const lost = new Set();
    for (const { key, id, state } of this.round.requests.values())
      if (state === "lost" && !this.stopped.has(key)) lost.add(id);
      else lost.delete(id); // a later one reads it again, or it was stopped
    lost.delete(null);
    return [.../** @type {Set<string>} */ (lost)];
  }

  // ---- Requests

  /**
   * Start a request whose branches fill slots of the round; resolves when its stream has ended.
   * @param {object} body @param {{slots?: number[], given?: string, kind?: any, voice?: string, trails?: Map<number, Trail>}} [options]
   */
  begin(body, { trails, ...options } = {}) {
    const key = this.newKey();
    this.round.join(key, options);
    const request = /** @type {import("../round.js").Request} */ (this.round.requests.get(key));
    request.body = body;
    for (const number of request.slots) this.added.delete(number);
    for (const [number, trail] of trails ?? []) this.trails.set(number, trail);
    this.listener.round(this, null);
    return this.read(key, "POST", ROUTE, body);
  }

  /**
   * Read the events of a request of the round that runs already.
   * @param {string} id
   */
  attach(id) {
    const key = this.newKey();
    this.round.rejoin(key, id);
    return this.read(key, "GET", `${ROUTE}/${encodeURIComponent(id)}/events`, undefined);
  }

  newKey() {
    this.keys += 1;
    return `${this.round.id}.${this.keys}`;
  }

  /** @param {string} key @param {string} method @param {string} path @param {unknown} body */
  async read(key, method, path, body) {
    const controller = new AbortController();
    this.streams.set(key, controller);
    try {
      await this.api.stream(method, path, body, {
        signal: controller.signal,
        onevents: (events) => this.take(key, events),
      });
      const lost = this.round.lost(key, "the connection ended");
      this.changed(lost);
      if (lost.size)
        this.listener.failed(this, new ApiError(msg`The connection to the server was lost.`, 0, "lost"), key);
    } catch (error) {
      if (this.stopped.has(key)) return;
      const refused = error instanceof ApiError && error.status !== 0 && !(method === "GET" && error.isTemporary);
      const { message, code, status } = /** @type {ApiError} */ (error);
      const words = status === 0 ? code : message; // the page's own words would be kept in its language
      this.changed(this.round.lost(key, words, refused ? code || "refused" : undefined));
      this.listener.failed(this, /** @type {Error} */ (error), key);
    } finally {
      this.streams.delete(key);
      this.listener.round(this, null);
    }
  }

  /** @param {string} key @param {any[]} events that came together */
  take(key, events) {
    if (this.stopped.has(key)) return this.endLate(key, events);
    const grown = new Set();
    const changed = new Set();
    for (const event of events) {
      const slots = this.apply(key, event);
      for (const number of slots) (event.event === "stream" ? grown : changed).add(number);
    }
    if (events.some(({ event }) => event !== "stream")) this.listener.round(this, changed);
    if (events.some(({ event }) => event === "error")) this.listener.troubled(this);
    for (const number of grown) this.unsaved.add(number);
    if (grown.size) this.listener.text(this, grown);
  }

  /** @param {string} key @param {any} event @returns {Set<number>} */
  apply(key, event) {
    const before = event.event === "branch" ? this.round.slots.map((slot) => slot.text.length) : [];
    const slots = this.round.apply(key, event);
    if (event.event === "start" || event.event === "snapshot") this.listener.began(this, event.id, event);
    for (const number of slots) {
      if (event.event === "branch") this.follow(key, number, event, before[number] ?? 0);
      const slot = this.round.slots[number];
      if (slot?.end) this.finish(number);
      else if (slot?.text) this.unsaved.add(number);
    }
    return slots;
  }

  /** Begin the trail of a branch that was added, or that goes on. @param {string} key @param {number} number @param {any} event @param {number} length */
  follow(key, number, event, length) {
    const slot = this.round.slots[number];
    if (event.resumed) return this.trail(number).resume(length);
    const origin = event.from ? this.round.requests.get(key)?.slots[event.from.branch] : undefined;
    if (event.from) this.added.set(number, { from: event.from, ...this.added.get(number) });
    const shared = origin === undefined ? 0 : commonLength(slot.text, this.round.slots[origin].text);
    const base = new Trail(this.round.base, this.round.keep);
    this.trails.set(number, origin === undefined ? base : this.trail(origin).fork(shared));
  }

  /** @param {Set<number>} slots */
  changed(slots) {
    for (const number of slots) if (this.round.slots[number]?.end) this.finish(number);
    this.listener.round(this, slots);
  }

  // ---- Controls

  /**
   * Make the call of a plan. `body` turns the plan of a new request into its body, since only the desk knows the settings.
   * @param {Plan | null} plan @param {MakeBody} body
   * @param {Map<number, Trail>} [trails] of the slots of a new request
   */
  async carryOut(plan, body, trails) {
    if (!plan) return;
    if (plan.kind === "request") {
      const { slots, given, expect, voice } = plan;
      return this.begin(body(plan), {
        slots,
        given,
        voice,
        kind: expect,
        trails: trails ?? this.newTrails(slots),
      });
    }
    for (const [place, number] of plan.slots.entries())
      if (plan.expect) this.added.set(number, fieldsOf(plan.body, place));
    const ticket = plan.expect ? this.round.expectBranches(plan.request, plan.slots, plan.expect) : null;
    this.listener.round(this, new Set(plan.slots));
    try {
      const answer = await this.api.send(plan.method, plan.path, plan.body);
      if (ticket !== null) this.changed(this.round.bind(plan.request, ticket, answer?.indices ?? []));
    } catch (error) {
      if (this.stopped.has(plan.request)) return; // and nobody waits for it any more
      if (ticket !== null)
        this.changed(this.round.unexpect(plan.request, ticket, /** @type {Error} */ (error).message));
      if (isDivided(error)) this.round.noteDivided(plan.request);
      if (plan.method !== "DELETE") throw error;
      if (!hasEnded(error)) throw new Error(msg`The branch was not stopped: ${/** @type {Error} */ (error).message}`);
    } finally {
      if (ticket !== null) this.take(plan.request, this.round.released(plan.request));
    }
  }

  /** @param {number[]} slots */
  newTrails(slots) {
    return new Map(slots.map((number) => [number, new Trail(this.round.base, this.round.keep)]));
  }

  /** Stop all branches; their texts stay. */
  stop() {
    this.drop()();
  }

  /** Stop all branches; return what tells the server and the listener, so that a request which is waited for can go before. */
  drop() {
    const calls = [...this.streams.keys()].map((key) => this.end(key));
    return () => {
      for (const call of calls) call();
      this.listener.round(this, null);
    };
  }

  /** Read no more; the branches go on, for this page when it comes back and for others that read them. */
  leave() {
    this.save();
    for (const [key, controller] of this.streams) {
      this.stopped.add(key);
      controller.abort();
    }
    this.streams.clear();
  }

  /** End the oldest request that only rests, and free its connection; returns whether there was one. */
  endResting() {
    for (const key of this.streams.keys()) {
      const request = this.round.requests.get(key);
      if (request?.state !== "resting" || request.additions.count) continue;
      this.end(key)();
      return true;
    }
    return false;
  }

  /** End what only rests while another model of the round is waited for: a server may have room for one at a time. */
  giveWay() {
    while (this.isAsking() && this.endResting());
  }

  /**
   * End a request here; return what ends it on the server. One that has no id yet is ended there as soon as it has one.
   * @param {string} key @returns {() => void}
   */
  end(key) {
    const call = this.round.planStop().find(({ request }) => request === key);
    this.stopped.add(key);
    for (const number of this.round.lost(key, "stopped")) {
      const slot = this.round.slots[number];
      if (!slot) continue; // it was made for a branch that never came
      if (slot.end?.reason === "lost") slot.end = { reason: "cancelled" };
      this.finish(number);
    }
    if (!call) return () => {};
    const stream = this.streams.get(key);
    this.streams.delete(key);
    return () => this.hangUp(stream, call.path);
  }

  /** End a request that was stopped before its id was known. @param {string} key @param {any[]} events its first ones */
  endLate(key, events) {
    const id = events.find(({ event }) => event === "start" || event === "snapshot")?.id;
    if (id === undefined) return;
    const stream = this.streams.get(key);
    this.streams.delete(key);
    this.hangUp(stream, `${ROUTE}/${encodeURIComponent(id)}`);
  }

  /** @param {AbortController | undefined} stream @param {string} path of the request */
  hangUp(stream, path) {
    stream?.abort();
    this.endThere(path, ENDINGS);
  }

  /** End a request on the server, and ask again if it has no time for that. @param {string} path @param {number} left */
  async endThere(path, left) {
    try {
      await this.api.send("DELETE", path, undefined, { keepalive: true });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503 || left <= 1) return; // it has ended already, or its server has
      window.setTimeout(() => this.endThere(path, left - 1), AGAIN);
    }
  }

  // ---- Nodes of the story

  /** @param {number} number @returns {Trail} */
  trail(number) {
    const known = this.trails.get(number);
    if (known) return known;
    const trail = new Trail(this.round.base, this.round.keep);
    this.trails.set(number, trail);
    return trail;
  }

  /** Bring the nodes of all cards up to date; returns whether any has changed. */
  save() {
    const saved = this.unsaved.size > 0;
    for (const number of this.unsaved) this.write(number);
    this.unsaved.clear();
    if (saved) this.listener.nodes(this);
    return saved;
  }

  /**
   * Bring the node of a card up to date. A text that its node cannot take goes on in a new one: the node was ended when the
   * connection was lost, or another window wrote it.
   * @param {number} number
   */
  write(number) {
    const slot = this.round.slots[number];
    if (!slot) return;
    const { last } = this.trail(number);
    const text = slot.text.slice(last.from);
    if (last.node === null) return this.addNode(slot, text);
    const node = this.story.nodes.get(last.node);
    if (node?.text.startsWith(text)) return;
    if (node?.open && text.startsWith(node.text)) return this.story.grow(node.id, text);
    const trail = this.trail(number).fork(last.from + commonLength(text, node?.text ?? ""));
    this.trails.set(number, trail);
    this.addNode(slot, slot.text.slice(trail.last.from));
  }

  /** Begin a node of a card. @param {import("../round.js").Slot} slot @param {string} text */
  addNode(slot, text) {
    if (!text && slot.end?.reason !== "eos") return; // that the model would end at once is kept, too
    const trail = this.trail(slot.number);
    const request = this.round.requests.get(slot.request ?? "")?.id ?? undefined;
    const direction = this.round.directions[slot.number];
    const added = this.added.get(slot.number);
    const isOfRun = request === this.story.runs.get(this.round.id)?.request_id;
    slot.node = trail.last.node = this.story.addModelNode({
      parent: trail.parent,
      keep: trail.parentKeep,
      text,
      run: this.round.id,
      slot: slot.number,
      index: slot.index ?? undefined,
      ...(isOfRun ? {} : { request }), // of a request that joined the round: past_rounds.js
      seed: slot.seed ?? undefined,
      ...(direction ? { direction } : {}),
      ...(added ? { asked: added } : {}),
    });
  }

  /** Close the node of a card that has ended. @param {number} number */
  finish(number) {
    this.write(number);
    this.unsaved.delete(number);
    const slot = this.round.slots[number];
    const { node } = this.trail(number).last;
    if (node === null || !slot.end || !this.story.nodes.get(node)?.open) return;
    this.story.end(node, slot.end, slot.logprob ?? undefined);
    this.listener.nodes(this);
  }

  /** Return the place in the story after the first `at` characters of a card. @param {number} number @param {number} at */
  place(number, at) {
    this.write(number);
    return this.trail(number).place(at);
  }
}
