/** The text of a story that is opened is computed before its first round. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { makeDesk, settled } from "./fake_desk.js";

const MARKER = `![a fox](srb:${"0123456789abcdef".repeat(2)})`;

/** A story with a text. @param {string} text */
async function storyOf(text) {
  const { desk, manuscript } = await makeDesk();
  if (text) manuscript.type(text);
  desk.settle();
  return desk.story;
}

const isWarm = ({ body }) => body?.max_tokens === 0;

/** Let the server say something else of its model, also where that is named. */
function answer(api, change) {
  const said = { ...api.answers["v1/srb/server"], ...change };
  Object.assign(api.answers, { "v1/srb/server": said, "v1/srb/server?model=red": said });
}

/** A desk with what it has asked for, and a story that it has opened. */
async function opened(text, { server = {}, settings = {} } = {}) {
  const it = await makeDesk();
  answer(it.api, server);
  await it.desk.watch.check();
  it.desk.watch.stop();
  const story = await storyOf(text);
  for (const [name, value] of Object.entries(settings)) story.setMeta(`settings.${name}`, value);
  it.desk.setStory(story);
  await loaded();
  return { ...it, warm: () => it.api.streams.filter(isWarm) };
}

/** Wait until the module that asks is there, too. */
async function loaded() {
  await import("../../../srb/page/desk/warming.js");
  await settled();
  await settled();
}

/** Let the server be in a state. */
async function becomes({ desk, api }, change, refusal = null) {
  answer(api, change);
  api.refusal = refusal;
  await desk.watch.check();
  desk.watch.stop();
  await loaded();
}

test("the text of a story that is opened is asked for once, behind all others, and is no round", async () => {
  const it = await opened("The fox slept.  ");
  assert.equal(it.warm().length, 1);
  const [{ path, body }] = it.warm();
  assert.equal(path, "v1/srb/completions");
  assert.deepEqual(body, {
    prompt: "The fox slept.",
    session: it.desk.story.id,
    return_progress: true,
    n: 1,
    max_tokens: 0,
    priority: 1,
  });
  assert.equal(it.desk.story.runs.size, 0);
  assert.equal(it.desk.round, null);
  assert.equal(it.desk.isRunning, false);
  for (const letter of " It woke.") it.manuscript.type(letter);
  await loaded();
  assert.equal(it.warm().length, 1);
});

for (const [what, text] of [
  ["an empty story", ""],
  ["blanks", " \n "],
  ["a picture alone", MARKER],
])
  test(`${what} is not asked for`, async () => {
    const it = await opened(text, { server: { modalities: { vision: true, audio: false } } });
    assert.equal(it.api.streams.length, 0);
  });

/** Stories whose prompts are made in different ways: each has a prompt that begins as the first round's does. */
const KINDS = {
  "a plain text": {},
  "memory and note": { meta: { memory: "A fox is red.", note: { text: "Be brief.", depth: 1 } } },
  "a text that is cut": { text: "The fox slept. ".repeat(3000) },
  "a chat": { server: { chat_template: true }, settings: { mode: "chat" }, template: true },
  "characters that the model lacks": { text: "“Yes”, she said.", server: { lacks: "“”" } },
};

for (const [kind, { text = "One.\n\nTwo.\n\nThree.", meta = {}, server, settings, template }] of Object.entries(KINDS))
  test(`${kind}: what is asked for is what the first round sends`, async () => {
    const it = await makeDesk();
    if (template)
      for (const path of ["apply-template", "apply-template?autoload=false"])
        it.api.answers[path] = ({ messages }) => ({ prompt: `<user>${messages.at(-1).content}` });
    it.api.answers["v1/srb/server"] = { ...it.api.answers["v1/srb/server"], ...server };
    await it.desk.watch.check();
    it.desk.watch.stop();
    const story = await storyOf(text);
    for (const [name, value] of Object.entries(meta)) story.setMeta(name, value);
    for (const [name, value] of Object.entries(settings ?? {})) story.setMeta(`settings.${name}`, value);
    it.desk.setStory(story);
    await loaded();
    const warm = () => it.api.streams.filter(isWarm);
    assert.equal(warm().length, 1);
    if (kind === "a text that is cut") {
      const [first] = warm();
      assert.ok(first.body.prompt.length <= it.desk.server.n_ctx / 2, "it fits, whatever the language");
      first.send({ event: "start", prompt_tokens: first.body.prompt.length });
      first.end();
      await loaded();
      assert.equal(warm().length, 2);
      assert.ok(warm().at(-1).body.prompt.length < it.desk.server.n_ctx, "a token for each character");
    }
    it.desk.go({ n: 2 });
    await settled();
    assert.equal(isWarm(it.api.last), false);
    assert.equal(warm().at(-1).body.prompt, it.api.last.body.prompt);
    assert.notEqual(it.api.last.body.prompt, "");
  });

test("before a picture the text is asked for, and no picture is sent or read", async () => {
  const it = await opened(`The fox slept. ${MARKER} It woke.`, {
    server: { modalities: { vision: true, audio: false } },
  });
  assert.equal(it.warm()[0].body.prompt, "The fox slept. ");
  assert.deepEqual(
    it.api.calls.filter(({ path }) => path.includes("media")),
    [],
  );
});

test("a round ends what is made ready, and nothing is asked for after it", async () => {
  const it = await opened("The fox slept.");
  it.desk.go({ n: 2 });
  await settled();
  assert.equal(it.warm()[0].isOpen, false);
  assert.equal(it.api.streams.length, 2);
  it.desk.stop();
  await becomes(it, { n_ctx: 2048 });
  assert.equal(it.warm().length, 1);
});

test("another story that is opened ends it, and is asked for", async () => {
  const it = await opened("The fox slept.");
  it.desk.setStory(await storyOf("A lamp."));
  await loaded();
  assert.deepEqual(
    it.warm().map(({ body, isOpen }) => [body.prompt, isOpen]),
    [
      ["The fox slept.", false],
      ["A lamp.", true],
    ],
  );
});

test("a server that was away is asked again when it is back, and not before", async () => {
  const it = await opened("The fox slept.");
  it.warm()[0].lose();
  const away = new ApiError("The server cannot be reached.", 0, "unreachable");
  await becomes(it, {}, away);
  assert.equal(it.warm().length, 1);
  await becomes(it, {});
  await becomes(it, { n_ctx: 2048 });
  assert.equal(it.warm().length, 2);
});

test("a model that is not loaded is left alone until somebody has it loaded", async () => {
  const server = { model: "red", models: ["red", "blue"], status: "unloaded" };
  const it = await opened("The fox slept.", { server, settings: { model: "red" } });
  assert.equal(it.warm().length, 0);
  await becomes(it, { status: "loaded" });
  assert.deepEqual(
    it.warm().map(({ body }) => body.model),
    ["red"],
  );
  await becomes(it, { status: "unloaded" });
  await becomes(it, { status: "loaded" });
  assert.equal(it.warm().length, 2);
});

test("a refusal is not told of: nobody has asked", async () => {
  const it = await opened("");
  const { stream } = it.api;
  it.api.stream = () => Promise.reject(new ApiError("the queue is full", 503, "queue_full"));
  it.desk.setStory(await storyOf("The fox slept."));
  await loaded();
  it.api.stream = stream;
  assert.deepEqual(it.desk.said, []);
  assert.equal(it.desk.rounds.warming, null);
});

test("the header tells of it after two seconds, until it is done", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const timers = globalThis.window;
  context.after(() => {
    globalThis.window = timers;
  });
  globalThis.window = { ...timers, setTimeout: (run, wait) => setTimeout(run, wait) };
  const turns = async () => {
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
  };
  const making = makeDesk();
  await turns();
  const it = await making;
  const { warm } = await import("../../../srb/page/desk/warming.js");
  const told = [];
  it.desk.addEventListener("rounds", () => told.push(it.desk.rounds.warming));
  it.manuscript.type("The fox slept.");
  const reading = it.desk.rounds.beginReading();
  const done = warm(it.desk.rounds, reading.signal);
  await turns();
  const [stream] = it.api.streams.filter(isWarm);
  const at = (processed) => stream.send({ event: "prompt", processed, total: 200, cache: 0, time_ms: 1 });
  at(50);
  context.mock.timers.tick(1999);
  assert.deepEqual(told, []);
  context.mock.timers.tick(1);
  at(50);
  at(150);
  assert.deepEqual(told, [25, 75]);
  stream.end();
  await done;
  assert.deepEqual(told, [25, 75, null]);
});
