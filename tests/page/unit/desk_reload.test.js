import assert from "node:assert/strict";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const ended = (index, reason = "limit") => ({ event: "stop", index, length: 1, stop: 0, reason, stopping_word: "" });
const running = (index, text) => ({ index, seed: 7, state: "running", length: 3, max_tokens: 9, text });
const texts = (desk) => desk.round.slots.map((slot) => slot.text);

/** Forget all rounds of the page, as a reload does, and show the story again; the server still has these requests. */
async function reload({ desk, api }, ...ids) {
  api.answers["v1/srb/completions"] = { completions: ids.map((id) => ({ id })) };
  const story = storyOf(JSON.stringify(desk.story.toJSON()));
  const known = new Set(api.streams);
  desk.setStory(story);
  await settled();
  return new Map(api.streams.filter((each) => !known.has(each)).map((each) => [each.path.split("/").at(-2), each]));
}

const snapshot = (id, ...branches) => ({ event: "snapshot", id, state: "running", branches });

/** A round whose first request has ended, and which others have joined: "refill", "vary" and "extend". */
async function joined(it) {
  const { desk, api } = it;
  it.manuscript.type("A");
  const stream = await round(it, " b c", " x", " d");
  await desk.prune(1);
  stream.send(ended(1, "cancelled"), ended(0), ended(2), { event: "done" });
  stream.end();
  await settled();
  const start = (id) => api.last.send({ event: "start", id, count: 1, seeds: [3], prompt_tokens: 3 });
  desk.refill();
  await settled();
  start("refill");
  desk.vary(0, 2, 1);
  await settled();
  start("vary");
  desk.extend(2);
  await settled();
  start("extend");
}

test("after a reload every request of a round is read again, into the cards that it filled", async () => {
  const it = await makeDesk();
  await joined(it);
  for (const [place, text] of [" new", " z", " e"].entries())
    it.api.streams[1 + place].send({ event: "stream", index: 0, text });
  it.desk.rounds.save();
  assert.deepEqual(texts(it.desk), [" b c", " new", " d e", " b z"]);
  const streams = await reload(it, "refill", "vary", "extend");
  assert.deepEqual([...streams.keys()].sort(), ["extend", "refill", "vary"]);
  assert.deepEqual(texts(it.desk), [" b c", " new", " d e", " b z"]);
  streams.get("vary").send(snapshot("vary", running(0, " z!")));
  streams.get("extend").send(snapshot("extend", running(0, " e!")));
  streams.get("refill").send(snapshot("refill", running(0, " new!")), { event: "stream", index: 0, text: "?" });
  assert.deepEqual(texts(it.desk), [" b c", " new!?", " d e!", " b z!"]);
  await it.desk.take(2, { go: false });
  assert.equal(it.desk.text, "A d e!");
});

test("a request that has written nothing yet is read again into its card", async () => {
  const it = await makeDesk();
  await joined(it);
  it.desk.rounds.save();
  const streams = await reload(it, "refill", "vary", "extend");
  assert.deepEqual(texts(it.desk), [" b c", "", " d", " b"]);
  for (const [id, stream] of streams) stream.send(snapshot(id, running(0, ` ${id}`)));
  assert.deepEqual(texts(it.desk), [" b c", " refill", " d extend", " b vary"]);
  await it.desk.take(3, { go: false });
  assert.equal(it.desk.text, "A b vary");
  assert.deepEqual(
    it.desk.story.pieces(it.desk.head.node).map(({ from, to }) => [from, to]),
    [
      [0, 1],
      [1, 3],
      [3, 8],
    ],
  );
});

test("a request that has ended meanwhile closes its cards, and the others go on", async () => {
  const it = await makeDesk();
  await joined(it);
  it.api.last.send({ event: "stream", index: 0, text: " e" });
  it.desk.rounds.save();
  const streams = await reload(it, "refill");
  assert.deepEqual([...streams.keys()], ["refill"]);
  assert.equal([...it.desk.story.nodes.values()].filter(({ open, by }) => open && by === "model").length, 0);
  streams.get("refill").send(snapshot("refill", running(0, " new")));
  assert.deepEqual(texts(it.desk), [" b c", " new", " d e", " b"]);
});

test("a story with absurd numbers is opened with as many cards as a request may have", async () => {
  const it = await makeDesk();
  const node = { parent: "n1", keep: 1, by: "model", run: "r1" };
  const story = storyOf({
    format: "srb-story",
    version: 1,
    id: "s1",
    head: { node: "n1", at: 1 },
    nodes: {
      n1: { text: "A", by: "person" },
      n2: { ...node, text: " b", slot: 0, index: 0 },
      n3: { ...node, text: " c", slot: 1e9, index: 1 },
      n4: { ...node, text: " d", slot: 1, index: 1e9 },
      n5: { ...node, text: " e", slot: 0.5, index: 2 },
      n6: { ...node, text: " f", slot: -1, index: 3 },
    },
    runs: {
      r1: { node: "n1", at: 1, made: 1, request_id: "q", request: { n: 1e9, keep: 1e9, stop_at: 3 } },
      r2: {
        node: "n1",
        at: 1,
        made: 2,
        request_id: "p",
        round: "r1",
        request: { n: "x", given: 7, slots: [1e9, "a", 2] },
      },
    },
  });
  it.desk.setStory(story);
  const { round } = it.desk;
  assert.equal(round.slots.length, 4096);
  assert.equal(round.keep, 1);
  assert.deepEqual(
    round.slots.filter(({ text }) => text).map(({ number, text }) => [number, text]),
    [
      [0, " b"],
      [1, " d"],
    ],
  );
});

test("branches that join a round after a reload have seeds of their own", async () => {
  const it = await makeDesk();
  it.desk.setSetting("seed", 7);
  it.manuscript.type("A");
  await round(it, " b", " c");
  it.desk.stop();
  await reload(it);
  it.desk.more(2);
  await settled();
  assert.equal(it.api.last.body.seed, 9);
});

test("a branch that the model ended at once says so after a reload, and goes on anyway", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, "", " b");
  stream.send(ended(0, "eos"), ended(1, "eos"), { event: "done" });
  stream.end();
  await settled();
  const ends = () => it.desk.round.slots.map(({ state, text, end }) => [state, text, end.reason]);
  const expected = [
    ["ended", "", "eos"],
    ["ended", " b", "eos"],
  ];
  assert.deepEqual(ends(), expected);
  await reload(it);
  assert.deepEqual(ends(), expected);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A");
  assert.equal(it.desk.said.at(-1).action.label, "Go on anyway");
  for (const [number, text] of ["A z", "A b z"].entries()) {
    it.desk.extend(number);
    await settled();
    assert.equal(it.api.last.body.ignore_eos, true);
    it.api.last.send({ event: "start", id: `again-${number}`, count: 1, seeds: [3], prompt_tokens: 3 });
    it.api.last.send({ event: "stream", index: 0, text: " z" }, ended(0), { event: "done" });
    const { node } = it.desk.round.slots[number];
    assert.equal(it.desk.story.text(node), text);
  }
  await reload(it);
  assert.deepEqual(texts(it.desk), [" z", " b z"]);
});

test("a text that goes on and is ended by the model at once keeps its words and says so after a reload", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  stream.send(ended(0), { event: "done" });
  stream.end();
  await settled();
  it.desk.extend(0);
  await settled();
  it.api.last.send({ event: "start", id: "on", count: 1, seeds: [3], prompt_tokens: 3 }, ended(0, "eos"));
  await reload(it);
  const [{ text, end }] = it.desk.round.slots;
  assert.deepEqual([text, end.reason], [" b", "eos"]);
});

test("after a reload undo goes on by the story, through takes and typing, says so, and redo leads back", async () => {
  const it = await makeDesk();
  const { desk, manuscript } = it;
  const seen = [];
  const note = () => seen.push(desk.text);
  note();
  manuscript.type("Once");
  desk.closeTyped();
  note();
  await round(it, " upon a", " more");
  await desk.take(0, { at: 5, go: false });
  note();
  manuscript.type(" it");
  desk.closeTyped();
  note();
  manuscript.type("Twice", 0, 4);
  desk.closeTyped();
  note();
  manuscript.type("", 5, 10);
  desk.closeTyped();
  note();
  assert.deepEqual(seen, ["", "Once", "Once upon", "Once upon it", "Twice upon it", "Twice it"]);
  await reload(it);
  const said = desk.said.length;
  for (const text of seen.slice(0, -1).reverse()) {
    desk.undo();
    assert.equal(desk.text, text);
    assert.equal(manuscript.text, text);
  }
  const told = desk.said.slice(said).map(({ text }) => text);
  assert.equal(told.filter((text) => text.startsWith("Undone as the story has it")).length, 1);
  desk.undo();
  assert.equal(desk.said.at(-1).text, "This is where the text began.");
  for (const text of seen.slice(1)) {
    desk.redo();
    assert.equal(desk.text, text);
  }
  desk.redo();
  assert.equal(desk.text, seen.at(-1));
});

test("words typed after such an undo are undone first, and end the way forward", async () => {
  const it = await makeDesk();
  const { desk, manuscript } = it;
  for (const text of ["One.", " Two.", " Three."]) {
    manuscript.type(text);
    desk.closeTyped();
  }
  await reload(it);
  desk.undo();
  manuscript.type(" Four.");
  assert.equal(desk.text, "One. Two. Four.");
  desk.redo();
  assert.equal(desk.text, "One. Two. Four.");
  desk.undo();
  assert.equal(desk.text, "One. Two.");
  desk.undo();
  assert.equal(desk.text, "One.");
});

test("what was typed after an undo by the story and undone comes back by redo, not the story's older way", async () => {
  const it = await makeDesk();
  const { desk } = it;
  it.manuscript.type("A");
  desk.closeTyped();
  it.manuscript.type(" b", 1);
  await reload(it);
  await desk.undo();
  const text = desk.text;
  it.manuscript.type(" mine");
  desk.undo();
  assert.equal(desk.text, text);
  desk.redo();
  assert.equal(desk.text, `${text} mine`);
});
