/** A desk without a browser: a manuscript that is a string, a keeper that counts, and a server whose streams a test writes. */

import { ApiError } from "../../../srb/page/api.js";
import { Desk } from "../../../srb/page/desk.js";

globalThis.window ??= {
  setTimeout: (run, wait) => setTimeout(run, wait).unref(), // a test does not wait for the desk's clocks
  setInterval: (run, wait) => setInterval(run, wait).unref(),
};
globalThis.requestAnimationFrame ??= (run) => setTimeout(run, 0);

const SERVER = {
  model: "fake",
  n_ctx: 4096,
  chat_template: false,
  max_n: 64,
  max_linger: 600,
  n: 8,
  max_tokens: 128,
  sampling: {},
};

/** A server whose streams stay open until the test ends them. */
export class FakeApi {
  constructor() {
    this.key = "";
    this.calls = [];
    this.streams = [];
    this.answers = { "v1/srb/server": SERVER, "v1/srb/completions": { completions: [] } };
    this.refusal = null;
    this.branches = new Map(); // how many each request has, by id
  }

  async newKey() {
    return false;
  }

  get(path) {
    return this.send("GET", path);
  }

  post(path, body) {
    return this.send("POST", path, body);
  }

  async send(method, path, body) {
    this.calls.push({ method, path, body });
    if (this.refusal) throw this.refusal;
    if (method === "POST" && path.endsWith("/branches")) return { indices: this.add(path.split("/").at(-2), body) };
    const answer = this.answers[path] ?? null;
    return typeof answer === "function" ? answer(body) : answer;
  }

  /** Add branches to a request; return their indices. */
  add(id, { count = 1, branches }) {
    const first = this.branches.get(id);
    const added = branches?.length ?? count;
    this.branches.set(id, first + added);
    return Array.from({ length: added }, (_, place) => first + place);
  }

  stream(method, path, body, { signal, onevents }) {
    if (this.refusal) return Promise.reject(this.refusal);
    return new Promise((end, fail) => {
      const send = (...events) => {
        for (const { event, id, count } of events) if (event === "start") this.branches.set(id, count);
        onevents(events);
      };
      const stream = { method, path, body, send, end, isOpen: true };
      stream.lose = () => fail(new ApiError("The connection to the server was lost.", 0, "lost"));
      signal.addEventListener("abort", () => {
        stream.isOpen = false;
        fail(signal.reason);
      });
      this.streams.push(stream);
    });
  }

  get last() {
    return this.streams.at(-1);
  }
}

class FakeKeeper extends EventTarget {
  state = "saved";
  at = 0;
  message = "";
  changes = 0;

  async openLast() {
    return null;
  }

  open(story) {
    this.story = story;
  }

  changed() {
    this.changes += 1;
  }

  async flush() {}
}

/** A manuscript with an undo history of whole transactions, as the real one has. */
class FakeManuscript {
  text = "";
  done = [];
  undone = [];

  at = null; // where the caret is; null: at the end

  load(text, _pieces, head) {
    [this.text, this.head, this.done, this.undone, this.at] = [text, head, [], [], null];
  }

  focus() {}

  caret() {
    return this.at ?? this.text.length;
  }

  select(at, to = at) {
    this.at = to;
    this.begin = at;
  }

  get selection() {
    return { from: this.at === null ? this.text.length : this.begin, to: this.caret() };
  }

  /** Type at the end, or replace a stretch. */
  type(insert, from = this.text.length, to = from) {
    this.change([{ from, to, insert }], null, true);
  }

  apply({ text, head, why, caret = null }) {
    this.change([{ from: 0, to: this.text.length, insert: text }], head, why !== "undo");
    this.at = this.begin = caret;
  }

  record(undo, redo) {
    this.done.push({ act: [undo, redo] });
    this.undone = [];
  }

  change(changes, target, recorded) {
    if (recorded) {
      this.done.push({ text: this.text, head: this.head, at: this.at });
      this.undone = [];
    }
    this.at = null;
    for (const { from, to, insert } of [...changes].reverse())
      this.text = this.text.slice(0, from) + insert + this.text.slice(to);
    this.head = this.desk.edited({ changes, target, doc: () => this.text });
  }

  undo() {
    return this.travel(this.done, this.undone, 0);
  }

  redo() {
    return this.travel(this.undone, this.done, 1);
  }

  travel(from, to, which) {
    const step = from.pop();
    if (!step) return false;
    if (step.act) {
      step.act[which]();
      to.push(step);
      return true;
    }
    to.push({ text: this.text, head: this.head, at: this.at });
    this.change([difference(this.text, step.text)], step.head, false);
    this.at = this.begin = step.at;
    return true;
  }
}

/** What turns a text into another one. */
function difference(before, after) {
  let from = 0;
  while (from < before.length && before[from] === after[from]) from += 1;
  let same = 0;
  while (same < Math.min(before.length, after.length) - from && before.at(-1 - same) === after.at(-1 - same)) same += 1;
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) };
}

/** Return a desk that has started, with its fake server and manuscript. */
export async function makeDesk() {
  const api = new FakeApi();
  const desk = new Desk({ api, keeper: new FakeKeeper() });
  const manuscript = new FakeManuscript();
  manuscript.desk = desk;
  desk.said = [];
  desk.addEventListener("notice", ({ detail }) => desk.said.push(detail));
  await desk.start(manuscript);
  await desk.loadRounds();
  await desk.watch.check();
  desk.watch.stop();
  return { desk, api, manuscript };
}

let requests = 0;

/** Begin a round and let each of its branches write. Returns its stream. */
export async function round({ desk, api }, ...texts) {
  desk.go({ n: texts.length });
  await settled();
  requests += 1;
  const seeds = texts.map((_, index) => 7 + index);
  api.last.send({ event: "start", id: `request-${requests}`, count: texts.length, seeds, prompt_tokens: 6 });
  for (const [index, text] of texts.entries()) if (text) api.last.send({ event: "stream", index, text });
  return api.last;
}

/** Wait until everything that was begun and needs no one has been done. */
export function settled() {
  return new Promise((done) => setTimeout(done, 0));
}
