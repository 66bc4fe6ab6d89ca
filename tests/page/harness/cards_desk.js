// A desk with a real round and no server: a test says which events come. Actions that need the server are written down.

import { Round } from "../page/round.js";

/** Settings that the pane reads. */
const SETTINGS = { n: 8, max_tokens: 128, logprobs: false, single_keys: true };

/** Marks of nodes; every node is there. */
class Marks {
  constructor() {
    this.said = new Map();
    this.marks = new Map();
    this.runs = new Map(); // of no model
    this.nodes = Object.assign(new Map(), { has: () => true });
  }

  /** Nothing is pinned. */
  stampsOf() {
    return { values: {}, times: {} };
  }

  pieces() {
    return []; // no card's words are in the text
  }

  /** The manuscript before a round. */
  text() {
    return this.before ?? "Once";
  }

  meta(key) {
    return this.said.get(key);
  }

  setMeta(key, value) {
    this.said.set(key, value);
  }

  mark(id) {
    return this.marks.get(id) ?? {};
  }
}

export class CardsDesk extends EventTarget {
  settings = { ...SETTINGS };
  server = {}; // without a model for embeddings
  story = new Marks();
  head = { node: "", at: 0 };
  round = null;
  rounds = { gestures: { unsort: () => this.call("unsort") } };
  calls = []; // actions with their arguments, in order
  rivals = [];
  grown = new Set();
  frame = 0;
  runs = 0;

  tell(topic, detail = {}) {
    this.dispatchEvent(new CustomEvent(topic, { detail }));
  }

  ghost = null;

  changed() {}

  showGhost(ghost) {
    if (ghost === this.ghost) return;
    this.ghost = ghost;
    this.tell("ghost");
  }

  openDialog(name, detail = {}) {
    this.tell("dialog", { name, ...detail });
  }

  /** Begin a round of n cards, whose request runs. */
  begin(n, options = {}) {
    this.runs += 1;
    this.branches = n;
    const key = `r${this.runs}`;
    this.round = new Round({
      id: key,
      base: { node: "n0", at: 4 },
      keep: 4,
      n,
      prompt: "Once",
      stopAt: "sentence",
      ...options,
    });
    this.round.join(key);
    this.tell("round", { slots: null });
    this.events([
      { event: "start", count: n, id: key, seeds: Array.from({ length: n }, (_, i) => i), prompt_tokens: 9 },
    ]);
  }

  /** Take events of the request, as the real desk does: texts are told once a frame. */
  events(events) {
    const key = [...this.round.requests.keys()].at(-1);
    const changed = new Set();
    let isState = false;
    for (const event of events) {
      for (const number of this.round.apply(key, event)) {
        (event.event === "stream" ? this.grown : changed).add(number);
        this.round.slots[number].node ??= `${this.round.id}.${number}`;
      }
      isState ||= event.event !== "stream";
    }
    if (isState) this.tell("round", { slots: changed });
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const slots = this.grown;
      this.grown = new Set();
      this.tell("text", { slots });
    });
  }

  /** Let branches write: `texts` by index. */
  write(texts) {
    this.events(texts.flatMap((text, index) => (text ? [{ event: "stream", index, text }] : [])));
  }

  stopBranch(index, reason = "limit", more = {}) {
    this.events([{ event: "stop", index, length: this.round.slots[index].length, reason, stopping_word: "", ...more }]);
  }

  /** Stream from n branches: `perSecond` events of each, until each has so many tokens. Resolves at the end. */
  stream(
    n,
    { tokens, perSecond, word = (index, token) => ` w${(index * 7 + token * 13) % 97}${token % 40 ? "" : ".\n"}` },
  ) {
    this.begin(n);
    const began = performance.now();
    let sent = 0;
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        const due = Math.min(tokens, Math.floor(((performance.now() - began) / 1000) * perSecond));
        const events = [];
        for (; sent < due; sent += 1) {
          for (let index = 0; index < n; index += 1) {
            const text = word(index, sent);
            events.push({ event: "stream", index, text, logprobs: [{ token: text, logprob: -((index + sent) % 6) }] });
          }
        }
        if (events.length) this.events(events);
        if (sent < tokens) return;
        clearInterval(timer);
        resolve(performance.now() - began);
      }, 5);
    });
  }

  call(name, ...given) {
    this.calls.push([name, ...given]);
  }

  take(number, options) {
    this.call("take", number, options, this.round.taken(number, options.at).text);
  }

  prune(number) {
    this.call("prune", number);
    this.round.planPrune(number);
    this.tell("round", { slots: new Set([number]) });
  }

  refill() {
    const plan = this.round.planRefill();
    this.call("refill", plan.slots);
    this.expect(plan);
    this.tell("round", { slots: null });
  }

  more(count) {
    const plan = this.round.planMore(count);
    this.call("more", count);
    this.expect(plan);
    this.tell("round", { slots: null });
  }

  /** Expect the branches of a plan; the server names the next ones. */
  expect({ request, slots, expect }) {
    const first = this.branches;
    this.branches += slots.length;
    const indices = slots.map((_, place) => first + place);
    this.round.bind(request, this.round.expectBranches(request, slots, expect), indices);
  }

  setMark(number, at) {
    this.round.setMark(number, at);
    this.tell("round", { slots: new Set([number]) });
  }

  setStart(number, at) {
    this.round.setStart(number, at);
    this.tell("round", { slots: new Set([number]) });
  }

  put(number) {
    this.call("put", number, this.round.taken(number).text);
  }

  sort() {
    this.round.sort("");
    this.tell("round", { slots: null });
  }

  fold() {
    this.round.fold();
    this.tell("round", { slots: null });
  }

  unfold(number) {
    this.round.unfold(number);
    this.tell("round", { slots: null });
  }

  extend(number) {
    this.call("extend", number);
  }

  vary(number, at) {
    this.call("vary", number, at);
  }

  stop() {
    this.call("stop");
  }

  notice(text) {
    this.call("notice", text);
  }

  choose(number, at, rival) {
    this.call("choose", number, at, rival);
  }

  async alternatives(number, at) {
    this.call("alternatives", number, at);
    return this.rivals;
  }

  setNodeMark(id, key, value) {
    this.story.marks.set(id, { ...this.story.mark(id), [key]: value });
    this.tell("nodes", { ids: new Set([id]) });
  }

  setSetting(name, value) {
    this.settings = { ...this.settings, [name]: value };
    this.tell("story");
  }
}
