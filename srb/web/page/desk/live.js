/**
 * A round at work: the streams of its requests, the controls of its branches, and the story's nodes of what they write.
 * Cards show what arrived; nodes follow once a second (`save`), and at once when a branch ends or is taken.
 */

import { ApiError } from "../api.js";
import { commonLength } from "../compare.js";
import { Trail } from "./trail.js";

/** @typedef {import("../api.js").Api} Api */
/** @typedef {import("../round.js").Round} Round */
/** @typedef {import("../round.js").Plan} Plan */
/** @typedef {import("../story.js").Story} Story */
/**
 * @typedef {object} Listener
 * @property {(live: Live, slots: Set<number>) => void} text texts have grown
 * @property {(live: Live, slots: Set<number> | null) => void} round states of slots have changed; null: of all
 * @property {(live: Live) => void} nodes the story has new nodes or longer texts
 * @property {(live: Live, error: Error) => void} failed
 * @property {(live: Live) => void} troubled the server ended a request by an error
 * @property {(live: Live, id: string, event: any) => void} began a request has its id: `event` is its `start`
 */

const ROUTE = "v1/srb/completions";

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
  }

  /** Whether a branch grows or is awaited. */
  get isRunning() {
    return this.streams.size > 0 && this.round.slots.some((slot) => slot.isLive || slot.pending);
  }

  /** Whether anything holds a connection to the server. */
  get isConnected() {
    return this.streams.size > 0;
  }

  // ---- Requests

  /**
   * Start a request whose branches fill slots of the round; resolves when its stream has ended.
   * @param {object} body @param {{slots?: number[], given?: string, kind?: any, trails?: Map<number, Trail>}} [options]
   */
  begin(body, { trails, ...options } = {}) {
    const key = this.newKey();
    this.round.join(key, options);
    for (const [number, trail] of trails ?? []) this.trails.set(number, trail);
    this.listener.round(this, null);
    return this.read(key, "POST", ROUTE, body);
  }

  /** Read the events of a request that runs already. @param {string} id @param {{slots: number[]}} options */
  attach(id, options) {
    const key = this.newKey();
    this.round.join(key, options);
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
      this.changed(this.round.lost(key, "the connection ended"));
    } catch (error) {
      if (this.stopped.has(key)) return;
      const refused = error instanceof ApiError && error.status !== 0;
      const { message, code } = /** @type {ApiError} */ (error);
      this.changed(this.round.lost(key, message, refused ? code || "refused" : undefined));
      this.listener.failed(this, /** @type {Error} */ (error));
    } finally {
      this.streams.delete(key);
      this.listener.round(this, null);
    }
  }

  /** @param {string} key @param {any[]} events that came together */
  take(key, events) {
    if (this.stopped.has(key)) return;
    const grown = new Set();
    const changed = new Set();
    for (const event of events) {
      const slots = this.apply(key, event);
      for (const number of slots) (event.event === "stream" ? grown : changed).add(number);
      if (event.event !== "stream") changed.add(-1);
    }
    changed.delete(-1);
    if (events.some(({ event }) => event !== "stream")) this.changed(changed);
    if (events.some(({ event }) => event === "error")) this.listener.troubled(this);
    for (const number of grown) this.unsaved.add(number);
    if (grown.size) this.listener.text(this, grown);
  }

  /** @param {string} key @param {any} event @returns {Set<number>} */
  apply(key, event) {
    const before = event.event === "branch" ? this.round.slots.map((slot) => slot.text.length) : [];
    if (event.event === "snapshot")
      event.branches = event.branches.filter((/** @type {any} */ each) => this.isShown(key, each.index));
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

  /** Whether a branch's slot is still its own; a refilled slot belongs to a later branch. @param {string} key @param {number} index */
  isShown(key, index) {
    const number = this.round.requests.get(key)?.slots[index];
    return number === undefined || this.round.slots[number].index === index;
  }

  /** Begin the trail of a branch that was added, or that goes on. @param {string} key @param {number} number @param {any} event @param {number} length */
  follow(key, number, event, length) {
    const slot = this.round.slots[number];
    if (event.resumed) return this.trail(number).resume(length);
    const origin = event.from ? this.round.requests.get(key)?.slots[event.from.branch] : undefined;
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
   * @param {Plan | null} plan @param {(given: string, n: number, seedOffset: number) => object} body
   * @param {Map<number, Trail>} [trails] of the slots of a new request
   */
  async carryOut(plan, body, trails) {
    if (!plan) return;
    if (plan.kind === "request") {
      const { slots, given, expect, n, seedOffset } = plan;
      return this.begin(body(given, n, seedOffset), {
        slots,
        given,
        kind: expect,
        trails: trails ?? this.newTrails(slots),
      });
    }
    const ticket = plan.expect ? this.round.expectBranches(plan.request, plan.slots, plan.expect) : null;
    this.listener.round(this, new Set(plan.slots));
    try {
      await this.api.send(plan.method, plan.path, plan.body);
    } catch (error) {
      if (ticket !== null)
        this.changed(this.round.unexpect(plan.request, ticket, /** @type {Error} */ (error).message));
      if (plan.method !== "DELETE") throw error; // what is to be stopped has ended already
    }
  }

  /** @param {number[]} slots */
  newTrails(slots) {
    return new Map(slots.map((number) => [number, new Trail(this.round.base, this.round.keep)]));
  }

  /** Stop all branches; their texts stay. */
  stop() {
    const calls = this.round.planStop();
    for (const [key, controller] of this.streams) {
      this.stopped.add(key);
      for (const number of this.round.lost(key, "stopped")) this.round.slots[number].end = { reason: "cancelled" };
      controller.abort();
    }
    this.streams.clear();
    for (const { method, path } of calls) {
      this.api.send(method, path, undefined, { keepalive: true }).catch(() => {}); // it has ended already, or its server has
    }
    for (const { number } of this.round.slots) this.finish(number);
    this.listener.round(this, null);
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

  /** Bring the node of a card up to date. @param {number} number */
  write(number) {
    const slot = this.round.slots[number];
    const trail = this.trail(number);
    const text = slot?.text.slice(trail.last.from);
    if (!text) return;
    if (trail.last.node === null) {
      const { index, seed } = slot;
      trail.last.node = this.story.addModelNode({
        parent: trail.parent,
        keep: trail.parentKeep,
        text,
        run: this.round.id,
        slot: number,
        index: index ?? undefined,
        seed: seed ?? undefined,
      });
      slot.node = trail.last.node;
    } else if (this.story.nodes.get(trail.last.node)?.open) {
      this.story.grow(trail.last.node, text);
    }
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
