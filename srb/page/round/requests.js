// The requests of a round, and the events of their streams: which branch fills which slot, and how far it is.

import { Additions } from "./additions.js";
import { Cards } from "./cards.js";
import { IllegalMove } from "./slots.js";

/** @typedef {import("./slots.js").Slot} Slot */
/** @typedef {import("./slots.js").Kind} Kind */
/** @typedef {"asking"|"reading"|"running"|"resting"|"over"|"lost"} RequestState */
/** @typedef {{processed: number, total: number, cached: number, ms: number}} Progress */

/** A request of the round. Desk and round know it by `key`, the server by `id`.
 * @typedef {object} Request
 * @property {string} key
 * @property {string|null} id              null before `start`
 * @property {RequestState} state
 * @property {number[]} slots              slot numbers by branch index; of one of the past there may be holes
 * @property {Additions} additions       branches that the server was asked for
 * @property {Kind|null} kind              why it was asked for; null: it is the round's first, or of the past
 * @property {string} given                text after the round's prompt that its prompt had
 * @property {string} voice                the model that writes it, of a round that several write; else ""
 * @property {string|null|undefined} mended  the text before the cards, as its prompt had it; null: the round's own, undefined: unknown
 * @property {number|null} promptTokens
 * @property {number[]} seeds
 * @property {Progress|null} progress
 * @property {Record<string, any> | null} body  as it was sent, until it has begun
 * @property {boolean} isDirected        its prompt has a place for directions, so branches that are added may have one
 * @property {boolean} isDivided         its branches are on several replicas: they can be stopped, but none added or changed */

/** An event of the srb dialect, or the description of a branch in one (docs/api.md).
 * @typedef {{event?: string, [key: string]: any}} ServerEvent */

export class Requests extends Cards {
  /** @param {number} n */
  constructor(n) {
    super(n);
    /** @type {Map<string, Request>} */
    this.requests = new Map();
    /** The text before the cards that new requests read, where a person has mended it; null: the round's own. @type {string|null} */
    this.mended = null;
    /** Of each slot by its number: what happens in its branch; "" and holes: whatever the model likes. @type {string[]} */
    this.directions = [];
    /** Of each slot by its number: the mood that its branch writes in, in words; "" and holes: none. @type {string[]} */
    this.moods = [];
    this._tickets = 0;
    this._branches = 0; // that the round has asked for in its life
  }

  // ---- Requests

  /** Announce a request whose branches 0, 1, … fill `slots`; without `slots` all of the round.
   * @param {string} key @param {{slots?: number[], given?: string, kind?: Kind, voice?: string}} [options] */
  join(key, { slots = this.slots.map((slot) => slot.number), given = "", kind, voice = "" } = {}) {
    if (this.requests.has(key)) throw new IllegalMove(`the round has a request ${key} already`);
    const places = slots.map((number) => this.slots[number] ?? this._addSlot());
    for (const slot of places) {
      if (kind && slot.state !== "waiting") slot.move("add");
    }
    const request = { ...newRequest(key, given, "asking"), voice, mended: this.mended };
    request.kind = kind ?? null;
    request.slots = places.map((slot) => slot.number);
    request.isDirected = this.directionsOf(request.slots).some(Boolean);
    this.requests.set(key, request);
    this._branches += places.length;
    places.forEach((slot, index) => {
      this._release(slot.number);
      if (kind === "extend") Object.assign(slot, { text: given, held: slot.end, end: null, logprob: null });
      else if (kind) slot.begin(given);
      slot.given = given.length;
      slot.request = key;
      slot.index = index;
      slot.pending = null;
    });
  }

  /** The directions of slots, "" where there is none. @param {number[]} slots */
  directionsOf(slots) {
    return slots.map((number) => this.directions[number] ?? "");
  }

  /** Note what the server says that a slot's branch was told. @param {Request} request @param {Slot} slot @param {unknown} direction */
  _told(request, slot, direction) {
    if (typeof direction !== "string" || direction === "") return;
    request.isDirected = true;
    this.directions[slot.number] = direction;
  }

  /** Note a request of the past, which may be read again. @param {string} key @param {string} id
   * @param {number[]} slots by branch index, as far as they are known @param {string} given
   * @param {{isMended?: boolean, voice?: string}} [options] `isMended`: whether it read another text than the round's own */
  recall(key, id, slots, given, { isMended = false, voice = "" } = {}) {
    const mended = isMended ? undefined : null;
    this.requests.set(key, { ...newRequest(key, given, "lost"), id, slots, voice, mended });
  }

  /** Announce that a request is read again, after a reload or a loss. Its branches fill the slots that they filled before;
   * slots that other requests have filled stay as they are. @param {string} key @param {string} id */
  rejoin(key, id) {
    const before = [...this.requests.values()].filter((each) => each.id === id).at(-1);
    const request = { ...newRequest(key, before?.given ?? "", "asking"), mended: before ? before.mended : null };
    request.id = id; // if it is lost before its snapshot comes, the next one finds the slots by it
    request.voice = before?.voice ?? "";
    request.slots = [...(before?.slots ?? [])];
    for (const slot of this.slots) {
      if (slot.index === null || this.requests.get(slot.request ?? "")?.id !== id) continue;
      slot.request = key;
      slot.pending = null;
      request.slots[slot.index] = slot.number;
    }
    this.requests.set(key, request);
  }

  /** Note that the branches of a request are on several replicas: what is asked of it from now on begins a request of its own.
   * @param {string} key */
  noteDivided(key) {
    this._request(key).isDivided = true;
  }

  /** Note that a request was refused, or that its connection ended without `done`; its live slots end.
   * @param {string} key @param {string} message @param {string} [code] of a refusal @returns {Set<number>} */
  lost(key, message, code) {
    const request = this._request(key);
    if (request.state === "over") return new Set();
    request.state = code ? "over" : "lost";
    const live = this._slotsOf(request).filter((slot) => slot.isLive || (slot.state === "pruned" && !slot.end));
    for (const slot of live) {
      const held = request.id === null ? slot.held : null; // a card that could not be extended is what it was
      slot.move(code && !held ? "fail" : "lose");
      slot.end = held ?? { reason: code ?? "lost", message };
    }
    const vain = this._giveUpAll(request.additions.clear(), "the connection ended");
    return new Set([...live.map((slot) => slot.number), ...vain]);
  }

  /** Say which slots the branches fill that the server is asked for. Returns a ticket for `bind` or `unexpect`.
   * @param {string} key @param {number[]} slots @param {Kind} kind */
  expectBranches(key, slots, kind) {
    const ticket = ++this._tickets;
    for (const number of slots) {
      const slot = this.slots[number] ?? this._addSlot();
      slot.pending = kind;
      this._request(key).additions.expect(slot.number, kind, ticket);
    }
    this._branches += slots.length;
    return ticket;
  }

  /** Give the expected slots the branches that the server has named in its answer.
   * @param {string} key @param {number} ticket @param {number[]} indices @returns {Set<number>} slots that get none */
  bind(key, ticket, indices) {
    return this._giveUpAll(this._request(key).additions.bind(ticket, indices), "the server has added no branch");
  }

  /** Remove and return the events that waited until a call was answered: apply them. @param {string} key */
  released(key) {
    return this._request(key).additions.released();
  }

  /** Take an expectation back, since the server refused. Slots that were made for it go, where no later ones follow.
   * @param {string} key @param {number} ticket @param {string} message @returns {Set<number>} */
  unexpect(key, ticket, message) {
    return this._giveUpAll(this._request(key).additions.drop(ticket), message);
  }

  /** @param {import("./additions.js").Addition[]} gone @param {string} message */
  _giveUpAll(gone, message) {
    return new Set(gone.reverse().map(({ number }) => this._giveUp(this._slot(number), message)));
  }

  /** @param {Slot} slot @param {string} message */
  _giveUp(slot, message) {
    slot.pending = null;
    if (slot.request === null && !this._removeUnused(slot)) {
      slot.move("fail");
      slot.end = { reason: "refused", message };
    }
    return slot.number;
  }

  /** The newest request of a voice whose branches can be controlled and whose prompt is the round's; null if there is none.
   * @param {string} voice */
  liveRequest(voice) {
    const live = [...this.requests.values()].filter(
      (request) => request.voice === voice && this._canBranch(request) && !request.given,
    );
    return live.at(-1) ?? null;
  }

  /** The voice that writes a slot's branch. @param {Slot} slot */
  voiceOf({ request }) {
    return this.requests.get(request ?? "")?.voice ?? "";
  }

  /** "asking" until the server has the request, "reading" while it reads the prompt, "running", or "ended". */
  get state() {
    const live = this.slots.filter((slot) => slot.isLive);
    if (!live.length) return "ended";
    if (live.some((slot) => slot.state === "running")) return "running";
    const states = live.map((slot) => this.requests.get(slot.request ?? "")?.state);
    return states.every((state) => state === "asking" || state === undefined) ? "asking" : "reading";
  }

  /** How far the prompt is read, until the first text comes. @returns {Progress|null} */
  get progress() {
    for (const request of this.requests.values())
      if (request.state === "reading" && request.progress) return request.progress;
    return null;
  }

  // ---- Events

  /** Take an event of a request's stream. @param {string} key @param {ServerEvent} event @returns {Set<number>} slots that changed */
  apply(key, event) {
    const request = this._request(key);
    const isNew = event.event === "branch" && request.slots[event.index] === undefined;
    if (request.additions.keep(event, isNew)) return new Set();
    switch (event.event) {
      case "start":
        return this._start(request, event);
      case "stream":
        return this._stream(request, event);
      case "stop":
        return this._stop(request, event);
      case "branch":
        return this._branch(request, event);
      case "snapshot":
        return this._snapshot(request, event);
      case "prompt":
        request.progress = { total: event.total, processed: event.processed, cached: event.cache, ms: event.time_ms };
        return new Set();
      case "rest":
        request.state = "resting";
        return new Set();
      case "done":
        return this._done(request);
      case "error":
        return this._error(request, event);
      default: // events of a newer server
        return new Set();
    }
  }

  /** @param {Request} request @param {ServerEvent} event */
  _start(request, event) {
    request.id = event.id;
    request.state = "reading";
    request.promptTokens = event.prompt_tokens ?? null;
    request.seeds = event.seeds ?? [];
    request.slots.forEach((number, index) => {
      this._slot(number).seed = request.seeds[index] ?? null;
    });
    return new Set(request.slots);
  }

  /** @param {Request} request @param {ServerEvent} event */
  _stream(request, event) {
    const slot = this._slotAt(request, event.index);
    if (!slot?.can("text") || slot.end) return new Set();
    request.state = "running";
    slot.move("text");
    slot.grow(event.text, event.logprobs, event.tokens?.length);
    return new Set([slot.number]);
  }

  /** @param {Request} request @param {ServerEvent} event */
  _stop(request, event) {
    const slot = this._slotAt(request, event.index);
    if (!slot?.can("stop") || (slot.end && slot.state !== "failed")) return new Set();
    this._end(slot, event);
    return new Set([slot.number]);
  }

  /** End a slot's branch as a `stop` event says. @param {Slot} slot @param {ServerEvent} said */
  _end(slot, said) {
    slot.move("stop");
    slot.length = said.length ?? slot.length;
    slot.logprob = said.logprob ?? null;
    if (slot.state === "failed") return;
    slot.end = { reason: said.truncated ? "truncated" : said.reason };
    if (said.stopping_word) {
      slot.end.word = said.stopping_word; // the server leaves stop strings out of a text; for a writer they belong to it
      slot.text += said.stopping_word;
    }
  }

  /** @param {Request} request @param {ServerEvent} event */
  _branch(request, event) {
    request.state = "running";
    const known = this._slotAt(request, event.index);
    if (event.resumed) {
      if (!known?.can("resume")) return new Set();
      known.move("resume");
      this._release(known.number);
      known.end = known.pending = known.logprob = null;
      return new Set([known.number]);
    }
    if (known) return new Set(); // a snapshot had it already
    const expected = request.additions.take(event.index);
    const slot = expected ? this._slot(expected.number) : this._addSlot();
    const origin = event.from ? this._slotAt(request, event.from.branch) : null;
    this._fill(request, slot, event, expected?.kind ?? "more", origin);
    return new Set([slot.number]);
  }

  /** Put a new branch into a slot. @param {Request} request @param {Slot} slot @param {ServerEvent} branch @param {Kind} kind
   * @param {Slot|null} origin */
  _fill(request, slot, branch, kind, origin) {
    const text = request.given + (branch.text ?? "");
    if (slot.state !== "waiting") slot.move("add");
    this._release(slot.number);
    if (kind === "extend") {
      Object.assign(slot, { text, end: null, pending: null, logprob: null });
    } else {
      slot.begin(text);
      if (origin) slot.share(origin, text.length);
    }
    request.slots[branch.index] = slot.number;
    this._told(request, slot, branch.direction);
    Object.assign(slot, { request: request.key, index: branch.index, seed: branch.seed, given: request.given.length });
    slot.length = branch.from?.token ?? 0;
    if (slot.text) slot.move("text");
  }

  /** @param {Request} request @param {ServerEvent} event */
  _snapshot(request, event) {
    request.id = event.id;
    request.state = event.state === "queued" ? "reading" : event.state === "ended" ? "over" : event.state;
    request.promptTokens = event.prompt_tokens ?? null;
    /** @type {Set<number>} */
    const changed = new Set();
    for (const branch of event.branches) {
      const known = this._slotAt(request, branch.index);
      if (!known && request.slots[branch.index] !== undefined) continue; // another branch fills its slot now
      const slot = known ?? this._addSlot();
      changed.add(slot.number);
      request.slots[branch.index] = slot.number;
      this._describe(request, slot, branch);
    }
    return changed;
  }

  /** Bring a slot to the state of its branch. @param {Request} request @param {Slot} slot @param {ServerEvent} branch */
  _describe(request, slot, branch) {
    slot.move("attach");
    const pruned = slot.state === "pruned";
    this._told(request, slot, branch.direction);
    Object.assign(slot, { request: request.key, index: branch.index, seed: branch.seed, given: request.given.length });
    Object.assign(slot, { length: branch.length, end: null, pending: null });
    slot.text = request.given + (branch.text ?? "");
    slot.state = pruned ? "pruned" : branch.state === "ended" || branch.state === "running" ? "running" : "waiting";
    if (branch.state === "ended") this._end(slot, branch);
    if (branch.error && !pruned) {
      slot.state = "failed";
      slot.end = { reason: branch.error.code, message: branch.error.message };
    }
  }

  /** @param {Request} request */
  _done(request) {
    const changed = this.lost(request.key, "the request has ended");
    request.state = "over";
    return changed;
  }

  /** @param {Request} request @param {ServerEvent} event */
  _error(request, event) {
    if (event.index === undefined) return this.lost(request.key, event.message, event.code);
    const slot = this._slotAt(request, event.index);
    if (!slot?.can("fail") || slot.end) return new Set();
    slot.move("fail");
    slot.end = { reason: event.code, message: event.message };
    return new Set([slot.number]);
  }

  // ---- Look-up

  /** Whether a request can have more branches: it is live and whole, and has read what stands before the cards now.
   * @param {Request} request */
  _canBranch(request) {
    return isLive(request) && !request.isDivided && request.mended === this.mended;
  }

  /** @param {string} key */
  _request(key) {
    const request = this.requests.get(key);
    if (!request) throw new IllegalMove(`the round has no request ${key}`);
    return request;
  }

  /** The slot that a branch of a request fills, or null if another branch fills it now. @param {Request} request @param {number} index */
  _slotAt(request, index) {
    const slot = this.slots[request.slots[index] ?? -1];
    return slot?.request === request.key && slot.index === index ? slot : null;
  }

  /** @param {Request} request */
  _slotsOf(request) {
    return this.slots.filter((slot) => slot.request === request.key);
  }
}

/** @param {string} key @param {string} given @param {RequestState} state @returns {Request} */
function newRequest(key, given, state) {
  return {
    key,
    id: null,
    state,
    slots: [],
    additions: new Additions(),
    kind: null,
    given,
    voice: "",
    mended: null,
    promptTokens: null,
    seeds: [],
    progress: null,
    body: null,
    isDirected: false,
    isDivided: false,
  };
}

/** Whether the branches of a request can be controlled. @param {Request} request */
export function isLive(request) {
  return request.id !== null && ["reading", "running", "resting"].includes(request.state);
}
