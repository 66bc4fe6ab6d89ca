import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ended = (index, reason = "limit") => ({ event: "stop", index, length: 1, stop: 0, reason, stopping_word: "" });
const REST = { event: "rest", seconds: 600 };
const texts = (desk) => desk.round.slots.map((slot) => slot.text);
const deleted = (api) => api.calls.filter(({ method }) => method === "DELETE").map(({ path }) => path);
const written = (desk) =>
  [...desk.story.nodes.values()]
    .filter(({ by }) => by === "model")
    .map(({ text }) => text)
    .sort();

/** Let the server say that the shown round's request is still there. */
function keepRunning({ desk, api }) {
  const { request_id: id } = desk.story.runs.get(desk.round.id);
  api.answers["v1/srb/completions"] = { completions: [{ id }] };
  return id;
}

const running = (index, text) => ({ index, seed: 7, state: "running", length: 3, max_tokens: 9, text });

/** Send the snapshot of a request that was read again. */
const snapshot = (api, id, ...branches) => api.last.send({ event: "snapshot", id, state: "running", branches });

/** Forget all rounds of the page, as a reload does, and show the story again. */
async function reload({ desk }) {
  const { story } = desk;
  desk.rounds.leave();
  desk.setStory(story);
  await settled();
}

test("a branch that went on while the connection was lost is in the story as a whole", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  stream.lose();
  await settled();
  const id = keepRunning(it);
  it.desk.comeBack();
  await settled();
  assert.equal(it.api.last.path, `v1/srb/completions/${id}/events`);
  snapshot(it.api, id, running(0, " b c"));
  it.api.last.send({ event: "stream", index: 0, text: " d" });
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A b c d");
  assert.equal(it.desk.story.text(it.desk.head.node), "A b c d");
  assert.deepEqual(written(it.desk), [" b", " c d"]);
});

test("a round is read again as soon as the server is back", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  it.api.refusal = new ApiError("The server cannot be reached.", 0, "unreachable");
  stream.lose();
  await settled();
  it.api.refusal = null;
  const id = keepRunning(it);
  await it.desk.watch.check();
  it.desk.watch.stop();
  await settled();
  assert.equal(it.api.last.path, `v1/srb/completions/${id}/events`);
});

test("a round of which the server knows nothing leaves the cards in their places that it would replace", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b", " c");
  await it.desk.take(1, { go: false });
  it.api.refusal = new ApiError("The server cannot be reached.", 0, "unreachable");
  await it.desk.go({ n: 3 });
  await settled();
  assert.deepEqual(texts(it.desk), [" b", " c"]);
  assert.match(it.desk.said.at(-1).text, /cannot be reached/);
  it.api.refusal = null;
  it.desk.said.at(-1).action.run();
  await settled();
  assert.equal(it.api.last.body.prompt, "A c");
  assert.equal(it.desk.round.slots.length, it.desk.settings.n);
});

test("what was said of a lost round is taken away as soon as it is read again", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  const withdrawn = [];
  it.desk.addEventListener("withdrawn", ({ detail }) => withdrawn.push(detail.about));
  stream.lose();
  await settled();
  assert.deepEqual([it.desk.said.at(-1).about, withdrawn], [it.desk.round.id, []]);
  const id = keepRunning(it);
  it.desk.comeBack();
  await settled();
  snapshot(it.api, id, running(0, " b c"));
  assert.deepEqual(withdrawn, [it.desk.round.id]);
});

test("a branch that could not be stopped is told of, unless it has ended already", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b", " c");
  it.api.refusal = new ApiError("the request has no branch 0", 404, "not_found");
  await it.desk.prune(0);
  assert.deepEqual(it.desk.said, []);
  it.api.refusal = new ApiError("The server cannot be reached.", 0, "unreachable");
  await it.desk.prune(1);
  assert.deepEqual(it.desk.said.at(-1).text, "The branch was not stopped: The server cannot be reached.");
  assert.equal(it.desk.round.slots[1].state, "pruned");
});

test("another window that is ahead with a branch, or has ended it, takes no text away", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b", " x");
  const { desk } = it;
  desk.rounds.save();
  const [one, two] = desk.round.slots.map((slot) => desk.story.nodes.get(slot.node));
  const { open, ...closed } = two;
  assert.equal(open, true);
  desk.story.merge({
    nodes: { [one.id]: { ...one, text: " b c d" }, [two.id]: { ...closed, end: { reason: "lost" } } },
  });
  stream.send({ event: "stream", index: 0, text: " c" }, { event: "stream", index: 1, text: " y" });
  desk.rounds.save();
  stream.send({ event: "stream", index: 0, text: " d e" }, ended(0), ended(1));
  assert.deepEqual(written(desk), [" b c d e", " x", " y"]);
  assert.deepEqual(desk.said, []);
  await desk.take(1, { go: false });
  assert.equal(desk.text, "A x y");
});

test("after a reload each branch is shown in the card that it filled, whichever request it is of", async () => {
  const it = await makeDesk();
  const { desk, api } = it;
  it.manuscript.type("A");
  const stream = await round(it, " b", " c");
  await desk.prune(1);
  stream.send(ended(1, "cancelled"));
  await desk.refill();
  stream.send({ event: "branch", index: 2, seed: 9 }, { event: "stream", index: 2, text: " new" });
  await desk.prune(1);
  stream.send(ended(2, "cancelled"));
  await desk.refill();
  stream.send({ event: "branch", index: 3, seed: 9 }, { event: "stream", index: 3, text: " newer" });
  stream.lose();
  await settled();
  desk.vary(0, 2, 1);
  await settled();
  api.last.send({ event: "start", id: "varied", count: 1, seeds: [3], prompt_tokens: 3 });
  api.last.send({ event: "stream", index: 0, text: " z" });
  assert.deepEqual(texts(desk), [" b", " newer", " b z"]);
  desk.rounds.save();
  const id = keepRunning(it);
  await reload(it);
  snapshot(api, id, running(0, " b!"), running(1, " c"), running(2, " new"), running(3, " newer!"));
  assert.deepEqual(texts(desk), [" b!", " newer!", " b z"]);
  await desk.take(2, { go: false });
  assert.equal(desk.text, "A b z");
});

test("stopping a round while branches are asked for keeps all texts", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b", " c");
  await it.desk.more(2);
  await it.desk.vary(0, 2, 1);
  it.desk.stop();
  assert.equal(stream.isOpen, false);
  assert.deepEqual(texts(it.desk), [" b", " c"]);
  assert.deepEqual(written(it.desk), [" b", " c"]);
  assert.ok(it.desk.round.slots.every((slot) => slot.end.reason === "cancelled" && !slot.pending));
});

test("a round that is stopped before the server has named it is ended as soon as it is named", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  it.desk.go({ n: 1 });
  await settled();
  const first = it.api.last;
  const next = await round(it, " b");
  assert.deepEqual(deleted(it.api), []);
  first.send({ event: "start", id: "late", count: 1, seeds: [1], prompt_tokens: 1 });
  assert.deepEqual(deleted(it.api), ["v1/srb/completions/late"]);
  assert.equal(first.isOpen, false);
  assert.equal(next.isOpen, true);
  assert.deepEqual(texts(it.desk), [" b"]);
});

test("a busy server is asked again to end a request", async (t) => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b");
  const timers = [];
  t.mock.method(window, "setTimeout", (/** @type {() => void} */ run) => timers.push(run));
  const busy = new ApiError("The engine is busy.", 503, "busy");
  it.api.refusal = busy;
  it.desk.stop();
  await settled();
  assert.equal(deleted(it.api).length, 1);
  for (const again of timers.splice(0)) again();
  await settled();
  it.api.refusal = null;
  for (const again of timers.splice(0)) again();
  await settled();
  assert.equal(new Set(deleted(it.api)).size, 1);
  assert.equal(deleted(it.api).length, 3);
  assert.equal(timers.length, 0, "it has ended");
});

test("two rounds of one place that may finish are both saved and both stopped", async () => {
  const it = await makeDesk();
  it.desk.setSetting("let_finish", true);
  it.manuscript.type("A");
  const first = await round(it, " b");
  const second = await round(it, " c");
  first.send({ event: "stream", index: 0, text: " d" });
  it.desk.rounds.save();
  assert.deepEqual(written(it.desk), [" b d", " c"]);
  it.desk.stop();
  assert.deepEqual([first.isOpen, second.isOpen], [false, false]);
});

test("taking a card without going on calls off a round that is being prepared", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b");
  it.desk.setSetting("mode", "chat"); // the server makes the prompt
  it.api.answers["apply-template"] = { prompt: "<user>A" };
  it.desk.go({ n: 1 });
  await it.desk.take(0, { go: false });
  await settled();
  assert.equal(it.api.streams.length, 1);
  assert.equal(it.desk.text, "A b");
});

test("a round that waits for its prompt is running, asks how the model is being loaded, and can be stopped", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  it.desk.setSetting("mode", "chat");
  it.desk.watch.server = { ...it.desk.server, models: ["fake", "other"], status: "unloaded" };
  let answer = (/** @type {object} */ _said) => {};
  const promise = () =>
    new Promise((tell) => {
      answer = tell;
    });
  const { send } = it.api;
  it.api.send = function (/** @type {any[]} */ ...asked) {
    const said = send.apply(this, asked);
    return asked[1] === "apply-template" ? promise() : said;
  };
  const questions = () => it.api.calls.filter(({ path }) => path === "v1/srb/server").length;
  const before = questions();
  it.desk.go({ n: 1 });
  assert.deepEqual([it.desk.isRunning, questions()], [true, before + 1]);
  it.desk.stop();
  assert.equal(it.desk.isRunning, false);
  it.desk.go({ n: 2 });
  answer({ prompt: "<user>A" });
  await settled();
  assert.deepEqual(
    it.api.streams.map(({ body }) => body.n),
    [2],
  );
});

test("a round that goes on by many requests holds no more connections than the browser can spare", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b c");
  it.desk.stop();
  for (const id of ["one", "two", "three", "four", "five"]) {
    it.desk.vary(0, 2, 1);
    await settled();
    it.api.last.send({ event: "start", id, count: 1, seeds: [3], prompt_tokens: 3 });
    it.api.last.send({ event: "stream", index: 0, text: ` ${id}` }, ended(0), REST);
  }
  assert.equal(it.api.streams.filter(({ isOpen }) => isOpen).length, 3);
  assert.deepEqual(deleted(it.api).slice(-2), ["v1/srb/completions/one", "v1/srb/completions/two"]);
  assert.deepEqual(texts(it.desk).slice(1), [" b one", " b two", " b three", " b four", " b five"]);
});

test("rounds that are asked for faster than the server answers hold no more connections than the browser can spare", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const ask = async (/** @type {number} */ n) => {
    it.desk.go({ n });
    await settled();
  };
  const tell = async (/** @type {string} */ id) => {
    it.api.streams.find(({ isOpen }) => isOpen).send({ event: "start", id, count: 1, seeds: [1], prompt_tokens: 1 });
    await settled();
  };
  for (const n of [1, 2, 3, 4, 5, 6]) await ask(n);
  assert.deepEqual(
    it.api.streams.map(({ body }) => body.n),
    [1, 2, 3],
  );
  await tell("one");
  assert.deepEqual(deleted(it.api), ["v1/srb/completions/one"]);
  assert.deepEqual(
    it.api.streams.map(({ body }) => body.n),
    [1, 2, 3, 6],
    "only the last one is begun",
  );
  assert.equal(it.api.streams.filter(({ isOpen }) => isOpen).length, 3);
  await ask(7);
  it.desk.stop();
  await tell("two");
  assert.equal(it.api.streams.length, 4, "stopped while it waited");
});

test("requests that all write are not stopped for another one of the same round", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b c");
  it.desk.stop();
  for (const id of ["one", "two", "three"]) {
    it.desk.vary(0, 2, 1);
    await settled();
    it.api.last.send({ event: "start", id, count: 1, seeds: [3], prompt_tokens: 3 });
  }
  await it.desk.vary(0, 2, 1);
  assert.match(it.desk.said.at(-1).text, /as many requests/);
  assert.equal(it.api.streams.filter(({ isOpen }) => isOpen).length, 3);
  assert.equal(it.desk.round.slots.length, 4);
});

test("the length of a card that goes on by a new request does not spoil the estimate of tokens", async () => {
  const it = await makeDesk();
  it.manuscript.type("A".repeat(400));
  const stream = await round(it, " long".repeat(400));
  stream.send(ended(0), { event: "done", count: 1 });
  stream.end();
  await settled();
  const { rate } = it.desk.rounds.context;
  it.desk.extend(0);
  await settled();
  const tokens = Math.round(it.api.last.body.prompt.length / rate);
  it.api.last.send({ event: "start", id: "on", count: 1, seeds: [3], prompt_tokens: tokens });
  assert.ok(Math.abs(it.desk.rounds.context.rate - rate) < 1, `${it.desk.rounds.context.rate} after ${rate}`);
});

test("branches that are asked for at once come into their own cards, whichever call the server takes first", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b c");
  const answers = [];
  it.api.send = () => new Promise((answer) => answers.push(answer));
  const more = it.desk.more(1);
  const vary = it.desk.vary(0, 2, 1);
  await settled();
  stream.send({ event: "branch", index: 1, seed: 8, from: { branch: 0, token: 1 }, text: " b" });
  stream.send({ event: "stream", index: 1, text: " z" });
  stream.send({ event: "branch", index: 2, seed: 9 }, { event: "stream", index: 2, text: " new" });
  answers[0]({ indices: [2] });
  answers[1]({ indices: [1] });
  await Promise.all([more, vary]);
  assert.deepEqual(texts(it.desk), [" b c", " new", " b z"]);
  await it.desk.take(2, { go: false });
  assert.equal(it.desk.text, "A b z");
});

test("a refusal of more branches leaves no card that waits for ever", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b");
  it.api.refusal = new ApiError("the request has ended", 409, "conflict");
  await it.desk.more(2);
  assert.match(it.desk.said.at(-1).text, /has ended/);
  assert.deepEqual(texts(it.desk), [" b"]);
  it.api.refusal = null;
  await it.desk.more(1);
  assert.equal(it.desk.round.slots[1].pending, "more");
});

test("pruning an ended card is saved, and undoing it reaches the branch that was pruned", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b", " c");
  stream.send(ended(1));
  const [pruned] = [...it.desk.story.nodes.values()].filter(({ text }) => text === " c");
  const { changes } = it.desk.keeper;
  await it.desk.prune(1);
  assert.ok(it.desk.keeper.changes > changes);
  await it.desk.refill();
  stream.send({ event: "branch", index: 2, seed: 9 }, { event: "stream", index: 2, text: " new" });
  assert.equal(it.desk.story.mark(pruned.id).pruned, true);
  it.desk.undo();
  assert.equal(it.desk.story.mark(pruned.id).pruned ?? null, null);
});

test("a gesture that waited for its prompt does nothing in the story that was opened meanwhile", async () => {
  const it = await makeDesk();
  const { desk, api } = it;
  it.manuscript.type("A");
  await round(it, " b");
  await reload(it);
  desk.more(1);
  desk.newStory();
  await settled();
  assert.equal(api.streams.filter(({ isOpen }) => isOpen).length, 0);
  assert.equal(desk.round, null);
});

test("a refilled card stands on its own rung of the ladder", async () => {
  const it = await makeDesk();
  it.desk.setSetting("ladder", { name: "temperature", from: 0.5, to: 1.5 });
  it.manuscript.type("A");
  await round(it, " b", " c", " d");
  await it.desk.prune(2);
  await it.desk.refill();
  assert.deepEqual(it.api.calls.at(-1).body, { branches: [{ temperature: 1.5 }] });
  it.desk.stop();
  await it.desk.prune(1);
  it.desk.refill();
  await settled();
  assert.deepEqual(it.api.last.body.branches, [{ temperature: 1 }, { temperature: 1.5 }]);
});

test("undoing a prune reaches a round that was made again from the story", async () => {
  const it = await makeDesk();
  const { desk } = it;
  it.manuscript.type("A");
  const stream = await round(it, " b", " c");
  stream.send(ended(0), ended(1));
  await desk.prune(1);
  desk.rounds.kept.clear();
  desk.rounds.follow("open");
  assert.deepEqual(
    desk.round.slots.map(({ state }) => state),
    ["ended", "pruned"],
  );
  desk.undo();
  assert.deepEqual(
    desk.round.slots.map(({ state }) => state),
    ["ended", "ended"],
  );
  desk.redo();
  assert.equal(desk.round.slots[1].state, "pruned");
});

test("a card of a past round can be pruned while no server makes its prompt", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b", " c");
  it.desk.stop();
  it.desk.setSetting("mode", "chat");
  await reload(it);
  it.api.refusal = new ApiError("The server cannot be reached.", 0, "unreachable");
  await it.desk.prune(1);
  assert.equal(it.desk.round.slots[1].state, "pruned");
});

/** Write a round of one branch, after which the server refuses. */
async function refusedAfterARound(it) {
  const stream = await round(it, " b");
  stream.send(ended(0), { event: "done", count: 1 });
  stream.end();
  await settled();
  it.api.refusal = new ApiError("Too many requests", 429, "rate_limit_error");
}

test("a card whose extension is refused keeps its text and its end", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await refusedAfterARound(it);
  await it.desk.extend(0);
  const [slot] = it.desk.round.slots;
  assert.deepEqual([slot.state, slot.text, slot.end.reason], ["ended", " b", "limit"]);
  assert.match(it.desk.said.at(-1).text, /Too many/);
  assert.equal(it.desk.round.canExtend(slot), true);
});

const GESTURES = {
  extend: (desk) => desk.extend(0),
  refill: (desk) => desk.refill(),
  vary: (desk) => desk.vary(0, 2, 2),
  more: (desk) => desk.more(2),
  choose: (desk) => desk.choose(0, 2, " rival"),
};

for (const error of [
  new ApiError("Too many requests", 429, "rate_limit_error"),
  new ApiError("The server cannot be reached.", 0, "unreachable"),
])
  for (const [name, act] of Object.entries(GESTURES))
    test(`${name} that failed (${error.code}) is tried again for its own cards, and the others stay`, async () => {
      const it = await makeDesk();
      it.manuscript.type("A");
      const stream = await round(it, " b c", " d");
      stream.send(ended(0), ended(1), { event: "done", count: 2 });
      stream.end();
      await settled();
      if (name === "refill") it.desk.prune(1);
      const { id } = it.desk.round;
      it.api.refusal = error;
      await act(it.desk);
      const cards = it.desk.round.slots.length;
      const { action } = it.desk.said.at(-1);
      assert.equal(action.label, "Try again");
      it.api.refusal = null;
      action.run();
      await settled();
      assert.equal(it.desk.round.id, id);
      assert.equal(it.desk.round.slots.length, cards);
      assert.equal(it.api.streams.length, 2);
      const { prompt, n } = it.api.last.body;
      const wanted = {
        extend: ["A b c", 1],
        refill: ["A", 1],
        vary: ["A b", 2],
        more: ["A", 2],
        choose: ["A b rival", 1],
      };
      assert.deepEqual([prompt, n], wanted[name]);
      it.api.last.send(
        { event: "start", id: `again-${name}-${error.code}`, count: n, seeds: [3], prompt_tokens: 3 },
        { event: "stream", index: 0, text: " z" },
      );
      const shown = { extend: " b c z", refill: " z", vary: " b z", more: " z", choose: " b rival z" };
      const number = { extend: 0, refill: 1 }[name] ?? 2;
      assert.equal(texts(it.desk)[number], shown[name]);
      if (name !== "extend") assert.equal(texts(it.desk)[0], " b c");
      await it.desk.take(number, { go: false });
      assert.equal(it.desk.text, `A${shown[name]}`);
    });

test("trying again after the cards were replaced or filled by others changes nothing", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await refusedAfterARound(it);
  await it.desk.more(1);
  const { action } = it.desk.said.at(-1);
  it.api.refusal = null;
  it.desk.refill(); // the card that failed
  await settled();
  await action.run();
  assert.match(it.desk.said.at(-1).text, /other texts now/);
  assert.equal(it.api.streams.length, 2);
  await round(it, " c");
  await action.run();
  assert.match(it.desk.said.at(-1).text, /not shown any more/);
  assert.equal(it.api.streams.length, 3);
});

test("a story that cannot be taken out of the bin says why", async () => {
  const it = await makeDesk();
  it.desk.keeper.restore = () => Promise.reject(new Error("The server cannot be reached."));
  it.desk.keeper.dispatchEvent(new CustomEvent("binned"));
  await it.desk.said.at(-1).action.run();
  assert.match(it.desk.said.at(-1).text, /cannot be reached/);
});

test("a stream that is lost while the server is well is taken up again by itself", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  const id = keepRunning(it);
  stream.lose();
  await until(() => it.api.last !== stream);
  assert.equal(it.api.last.path, `v1/srb/completions/${id}/events`);
  snapshot(it.api, id, running(0, " b c"));
  assert.deepEqual(texts(it.desk), [" b c"]);
  const again = it.api.last;
  it.api.answers["v1/srb/completions"] = { completions: [] };
  again.lose();
  const asked = () =>
    it.api.calls.filter(({ method, path }) => method === "GET" && path === "v1/srb/completions").length;
  const before = asked();
  await until(() => asked() > before);
  await settled();
  assert.equal(it.api.last, again, "a request that the server has ended is not asked for");
});

test("a lost stream is asked for until the server answers, however often that fails", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  const id = keepRunning(it);
  const { api, desk } = it;
  let refusals = 2; // the server is well each time that its state is asked for
  const { send, stream: open } = api;
  api.send = async function (method, path, body) {
    if (path === "v1/srb/completions" && refusals-- > 0)
      throw new ApiError("The server cannot be reached.", 0, "unreachable");
    return send.call(this, method, path, body);
  };
  let gateways = 1;
  api.stream = function (...asked) {
    if (gateways-- > 0) return Promise.reject(new ApiError("The server answered 502.", 502, ""));
    return open.apply(this, asked);
  };
  stream.lose();
  for (let turn = 0; turn < 3; turn++) {
    desk.rounds.wait = 1; // ms
    await until(() => desk.rounds.wait !== 1);
  }
  await until(() => api.last !== stream);
  assert.deepEqual([refusals, gateways], [-2, -1]);
  snapshot(api, id, running(0, " b c"));
  assert.deepEqual(texts(desk), [" b c"]);
});

test("a stream that ends before its branches do is taken up again", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  const id = keepRunning(it);
  it.desk.rounds.wait = 1; // ms
  stream.end();
  await until(() => it.api.last !== stream);
  assert.equal(it.api.last.path, `v1/srb/completions/${id}/events`);
});

test("a hidden page keeps no connection on which nothing is written", async (context) => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const writes = await round(it, " b");
  context.mock.timers.enable({ apis: ["setInterval"] });
  it.desk.leave();
  context.mock.timers.tick(10_000);
  assert.equal(writes.isOpen, true);
  writes.send(ended(0), REST);
  context.mock.timers.tick(10_000);
  assert.equal(writes.isOpen, false);
  assert.equal(it.desk.round.slots[0].end.reason, "limit");
  it.desk.comeBack();
  it.desk.extend(0);
  await settled();
  const { path, body } = it.api.last;
  assert.deepEqual([path, body.prompt], ["v1/srb/completions", "A b"]);
});

test("a page that is shown again keeps its requests for what is asked of them", async (context) => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const rests = await round(it, " b");
  rests.send(ended(0), REST);
  context.mock.timers.enable({ apis: ["setInterval"] });
  it.desk.leave();
  it.desk.comeBack();
  context.mock.timers.tick(60_000);
  assert.equal(rests.isOpen, true);
});

/** Wait for a condition. */
async function until(isSo) {
  const deadline = Date.now() + 20_000;
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`not within 20 s: ${isSo}`);
    await settled();
  }
}
