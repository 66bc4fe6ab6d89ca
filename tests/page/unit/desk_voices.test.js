/** Rounds that several models write, or several adapters of one. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isBlind } from "../../../srb/page/desk/blind.js";
import { RunIndex, rebuilt } from "../../../srb/page/desk/past_rounds.js";
import { makeDesk, settled } from "./fake_desk.js";

const MODELS = ["red", "blue", "green"];
let ids = 0;

/** A desk beside a server with three models; red is the story's own, and the others are asked for too. */
async function shared(n = 4, voices = ["blue"]) {
  const it = await makeDesk();
  const own = { ...it.api.answers["v1/srb/server"], model: "red", models: MODELS, status: "loaded" };
  it.api.answers["v1/srb/server"] = own;
  for (const model of MODELS)
    it.api.answers[`v1/srb/server?model=${model}`] = { ...own, model, chat_template: model === "blue" };
  await it.desk.watch.check();
  it.desk.watch.stop();
  it.desk.setSetting("voices", voices);
  it.manuscript.type("A fox.");
  it.desk.go({ n });
  await settled();
  await settled();
  return it;
}

/** Let a stream's request begin and its branches write. */
function begin(stream, ...texts) {
  ids += 1;
  stream.send({ event: "start", id: `r${ids}`, count: texts.length, seeds: texts.map(() => 1), prompt_tokens: 3 });
  for (const [index, text] of texts.entries()) stream.send({ event: "stream", index, text });
}

function end(stream, count) {
  for (let index = 0; index < count; index += 1)
    stream.send({ event: "stop", index, length: 1, reason: "limit", stopping_word: "" });
  stream.send({ event: "rest" });
}

const by = ({ round }) => round.slots.map((slot) => round.voiceOf(slot));
const texts = ({ round }) => round.slots.map(({ text }) => text);

test("branches are shared in turn, and each model is asked once", async () => {
  const { desk, api } = await shared(5);
  assert.deepEqual(
    api.streams.map(({ body }) => [body.model, body.n]),
    [
      ["red", 3],
      ["blue", 2],
    ],
  );
  begin(api.streams[1], " b1", " b2");
  begin(api.streams[0], " r1", " r2", " r3");
  assert.deepEqual(texts(desk), [" r1", " b1", " r2", " b2", " r3"]);
  assert.deepEqual(by(desk), ["red", "blue", "red", "blue", "red"]);
});

test("each model writes one branch at least, and no more than three write", async () => {
  const { desk, api } = await shared(1, ["blue", "green", "grey"]);
  assert.deepEqual(
    api.streams.map(({ body }) => [body.model, body.n]),
    [
      ["red", 1],
      ["blue", 1],
      ["green", 1],
    ],
  );
  assert.equal(desk.round.slots.length, 3);
});

test("a story with its own model alone asks nothing more", async () => {
  const { api } = await shared(4, ["red"]);
  assert.deepEqual(
    api.streams.map(({ body }) => [body.model, body.n]),
    [[undefined, 4]],
  );
});

test("a model that the server has no more is told of, and the others write", async () => {
  const { desk, api } = await shared(4, ["grey", "blue"]);
  assert.deepEqual(
    api.streams.map(({ body }) => body.model),
    ["red", "blue"],
  );
  assert.match(desk.said[0].text, /no model “grey”/);
});

test("a chat is put to each model as that takes it", async () => {
  const it = await makeDesk();
  const own = { ...it.api.answers["v1/srb/server"], model: "red", models: MODELS };
  it.api.answers["v1/srb/server"] = { ...own, chat_template: true };
  it.api.answers["v1/srb/server?model=red"] = { ...own, chat_template: true };
  it.api.answers["v1/srb/server?model=blue"] = { ...own, model: "blue" };
  it.api.answers["apply-template"] = ({ model }) => ({ prompt: `told by ${model}` });
  await it.desk.watch.check();
  it.desk.watch.stop();
  it.desk.setSetting("mode", "chat");
  it.desk.setSetting("voices", ["blue"]);
  it.manuscript.type("A fox.");
  it.desk.go({ n: 2 });
  await settled();
  await settled();
  assert.deepEqual(
    it.api.streams.map(({ body }) => [body.model, body.prompt]),
    [
      ["red", "told by red"],
      ["blue", "A fox."],
    ],
  );
});

test("more, try others, vary and go on are each model's own", async () => {
  const { desk, api } = await shared(4);
  begin(api.streams[0], " r1", " r2");
  begin(api.streams[1], " b1", " b2");
  const [red, blue] = [`v1/srb/completions/r${ids - 1}`, `v1/srb/completions/r${ids}`];
  const called = () => api.calls.splice(0).filter(({ path }) => path.includes("/branches"));
  called();
  await desk.more(3);
  assert.deepEqual(
    called().map(({ path, body }) => [path, body]),
    [
      [`${red}/branches`, { count: 2 }],
      [`${blue}/branches`, { count: 1 }],
    ],
  );
  desk.prune(1);
  await settled();
  called();
  await desk.refill();
  assert.deepEqual(
    called().map(({ path, body }) => [path, body]),
    [[`${blue}/branches`, { count: 1 }]],
  );
  await desk.vary(3, null, 2);
  assert.deepEqual(
    called().map(({ path }) => path),
    [`${blue}/branches`],
  );
  await desk.extend(2);
  assert.deepEqual(
    called().map(({ path }) => path),
    [`${red}/branches/1`],
  );
});

test("what joins the round after its requests are over is asked of the model that wrote it", async () => {
  const { desk, api } = await shared(2);
  begin(api.streams[0], " r1");
  begin(api.streams[1], " b1");
  desk.stop();
  await settled();
  desk.vary(1, null, 1);
  await settled();
  assert.deepEqual([api.last.body.model, api.last.body.prompt], ["blue", "A fox. b1"]);
  desk.extend(0);
  await settled();
  assert.deepEqual([api.last.body.model, api.last.body.prompt], ["red", "A fox. r1"]);
});

test("stop ends the requests of all models", async () => {
  const { desk, api } = await shared(2);
  begin(api.streams[0], " r1");
  begin(api.streams[1], " b1");
  await desk.stop();
  await settled();
  const ended = api.calls.filter(({ method }) => method === "DELETE").map(({ path }) => path);
  assert.deepEqual(ended, [`v1/srb/completions/r${ids - 1}`, `v1/srb/completions/r${ids}`]);
  assert.equal(desk.isRunning, false);
});

test("a request that only rests gives way to a model that is waited for", async () => {
  const { desk, api } = await shared(2);
  begin(api.streams[0], " r1");
  end(api.streams[0], 1);
  await settled();
  assert.deepEqual(
    api.calls.filter(({ method }) => method === "DELETE").map(({ path }) => path),
    [`v1/srb/completions/r${ids}`],
  );
  begin(api.streams[1], " b1");
  assert.deepEqual(texts(desk), [" r1", " b1"]);
  assert.equal(desk.round.slots[0].end.reason, "limit");
});

test("a model that fails leaves the others alone, and is tried again for its own cards", async () => {
  const it = await shared(4);
  const { desk, api } = it;
  api.streams[0].lose();
  await settled();
  begin(api.streams[1], " b1", " b2");
  assert.deepEqual(
    desk.round.slots.map(({ state }) => state),
    ["ended", "running", "ended", "running"],
  );
  const { action } = desk.said.find(({ action }) => action?.label === "Try again");
  action.run();
  await settled();
  assert.deepEqual([api.last.body.model, api.last.body.n], ["red", 2]);
  begin(api.last, " r1", " r2");
  assert.deepEqual(texts(desk), [" r1", " b1", " r2", " b2"]);
});

test("the story keeps which model wrote which branch, and its round is made again with both", async () => {
  const { desk, api } = await shared(4);
  begin(api.streams[1], " b1", " b2"); // the second is the first to begin
  begin(api.streams[0], " r1", " r2");
  await desk.flush();
  const { story } = desk;
  const runs = [...story.runs.values()];
  assert.deepEqual(
    runs.map(({ model, round }) => [model, round === undefined]),
    [
      ["blue", true],
      ["red", false],
    ],
  );
  const { round } = rebuilt(story, runs[0], new RunIndex().joined(story, runs[0]));
  assert.deepEqual(texts({ round }), [" r1", " b1", " r2", " b2"]);
  assert.deepEqual(by({ round }), ["red", "blue", "red", "blue"]);
  assert.deepEqual([...round.voices].sort(), ["blue", "red"]);
});

test("adapters of one model are voices: their scales go with the request", async () => {
  const it = await makeDesk();
  it.api.answers["lora-adapters"] = [{ id: 0, path: "/m/noir.gguf", scale: 0 }];
  it.desk.setSetting("voices", ["noir"]);
  it.manuscript.type("A fox.");
  it.desk.go({ n: 2 });
  await settled();
  await settled();
  assert.deepEqual(
    it.api.streams.map(({ body }) => [body.model, body.lora]),
    [
      [undefined, undefined],
      [undefined, [{ id: 0, scale: 1 }]],
    ],
  );
  begin(it.api.streams[0], " r1");
  begin(it.api.streams[1], " n1");
  assert.deepEqual(by(it.desk), ["fake", "noir"]);
});

test("a blind round hides who wrote what, and in which order, until a card is taken, also when it is made again", async () => {
  const it = await makeDesk();
  const { desk } = it;
  desk.setSetting("blind", true);
  const shown = [];
  for (let count = 0; count < 8; count += 1) {
    const { api } = await again(it);
    begin(api.last, " a", " b", " c", " d", " e", " f");
    end(api.last, 6);
    shown.push(desk.round.order.join());
    assert.equal(desk.rounds.isBlind, true);
    assert.equal(desk.story.runs.get(desk.round.id).request.blind, true);
  }
  assert.deepEqual([...desk.round.order].sort(), [0, 1, 2, 3, 4, 5]);
  assert.ok(new Set(shown).size > 4, "an order that tells nothing");
  const { round: blind, story } = desk;
  const remade = () => rebuilt(story, story.runs.get(blind.id)).round;
  assert.equal(remade().isBlind, true);
  desk.rounds.save();
  await desk.take(2, { go: false });
  assert.equal(desk.rounds.isBlind, false);
  assert.equal(isBlind(story, blind.id), false);
  desk.undo();
  desk.setSetting("blind", false);
  await again(it);
  assert.equal(desk.round.isBlind, false);
});

async function again(it) {
  it.desk.go({ n: 6 });
  await settled();
  return it;
}
