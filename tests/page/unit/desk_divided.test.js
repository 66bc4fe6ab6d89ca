/** A round of a cluster whose branches are on several replicas: the server refuses what needs them all on one. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ended = (index) => ({ event: "stop", index, length: 1, stop: 0, reason: "limit", stopping_word: "" });
const texts = (desk) => desk.round.slots.map((slot) => slot.text);
const errors = (desk) => desk.said.filter(({ kind }) => kind === "error");

const DIVIDED = new ApiError("this request is divided among replicas", 409, "conflict", {
  error: { code: 409, state: "running", divided: true },
});

/** A desk whose round " b", " c" is divided; its controls are refused, and streams begin. */
async function dividedDesk() {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b", " c");
  const send = it.api.send.bind(it.api);
  it.api.send = async (method, path, body) => {
    const answer = await send(method, path, body);
    if (method === "PATCH" || path.endsWith("/branches")) throw DIVIDED;
    return answer;
  };
  return { ...it, stream };
}

test("a card of a divided request goes on by a new request with its text", async () => {
  const { desk, api, stream } = await dividedDesk();
  stream.send(ended(0));
  desk.extend(0);
  await settled();
  assert.equal(api.last.body.prompt, "A b");
  api.last.send({ event: "start", id: "new", seeds: [9], count: 1 }, { event: "stream", index: 0, text: " d" });
  stream.send({ event: "stream", index: 1, text: " e" });
  assert.deepEqual(texts(desk), [" b d", " c e"]);
  assert.deepEqual(errors(desk), []);
});

test("branches that a divided request is to have more, or forks of it, are a new request's", async () => {
  const { desk, api, stream } = await dividedDesk();
  desk.more(2);
  await settled();
  assert.deepEqual([api.last.body.prompt, api.last.body.n], ["A", 2]);
  api.last.send({ event: "start", id: "new", seeds: [9, 10], count: 2 }, { event: "stream", index: 1, text: " z" });
  assert.deepEqual(texts(desk), [" b", " c", "", " z"]);
  const { length } = api.calls;
  desk.vary(1, 2, 1);
  await settled();
  assert.deepEqual([api.last.body.prompt, api.last.body.n], ["A c", 1]);
  assert.equal(api.calls.length, length, "which is known now: nothing is refused again");
  stream.send({ event: "stream", index: 1, text: " e" });
  assert.deepEqual(texts(desk).slice(0, 4), [" b", " c e", "", " z"]);
  assert.deepEqual(errors(desk), []);
});

test("a running card of a divided request says when it can go on, and can be pruned", async () => {
  const { desk, api } = await dividedDesk();
  const { length } = api.streams;
  await desk.extend(0);
  assert.match(errors(desk).at(-1).text, /Card 1 can go on when it has ended/);
  assert.equal(api.streams.length, length);
  await desk.prune(0);
  assert.ok(api.calls.at(-1).path.endsWith("/branches/0"));
  assert.equal(desk.round.slots[0].state, "pruned");
});

test("a divided request that this page has left keeps the texts of its cards, which go on by requests of their own", async () => {
  const { desk, api } = await dividedDesk();
  const { story } = desk;
  const { request_id: id } = story.runs.get(desk.round.id);
  api.answers["v1/srb/completions"] = { completions: [{ id }] };
  const stream = api.stream.bind(api);
  api.stream = (method, ...rest) => (method === "GET" ? Promise.reject(DIVIDED) : stream(method, ...rest));
  desk.rounds.leave();
  desk.setStory(story);
  await settled();
  assert.deepEqual(texts(desk), [" b", " c"]);
  assert.deepEqual(
    desk.round.slots.map(({ state }) => state),
    ["ended", "ended"],
  );
  desk.extend(1);
  await settled();
  assert.equal(api.last.body.prompt, "A c");
});
