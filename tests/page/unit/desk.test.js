import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const texts = (desk) => desk.round.slots.map((slot) => slot.text);
const deleted = (api) => api.calls.filter(({ method }) => method === "DELETE").map(({ path }) => path);

test("a round asks for n branches of the manuscript, without the spaces at its end", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once upon a time, ");
  const stream = await round(it, " there", " a");
  assert.equal(stream.path, "v1/srb/completions");
  assert.equal(stream.body.prompt, "Once upon a time,");
  assert.equal(stream.body.n, 2);
  assert.equal(stream.body.linger, 600);
  assert.deepEqual(texts(it.desk), [" there", " a"]);
});

test("a story that is nearly full offers another, which begins with the text and has its settings", async () => {
  const it = await makeDesk();
  const { desk } = it;
  it.manuscript.type("Once upon a time");
  desk.setTitle("The boat");
  desk.setMemory("Anna is old.");
  desk.setSetting("n", 3);
  const full = desk.story;
  const notices = [];
  desk.addEventListener("notice", ({ detail }) => notices.push(detail));
  for (const used of [90, 92, 94, 99, 99, 100, 100]) {
    const room = { used, nodes: 1000 * (100 - used), bytes: 5 * 2 ** 20 };
    desk.keeper.dispatchEvent(new CustomEvent("crowded", { detail: room }));
    do await settled();
    while (notices.length === 0); // the first one comes with its module
  }
  assert.match(notices[0].text, /room for 10,000 more branches and edits, at most 5\.0 MB\. Go on in a new story/);
  assert.match(notices[1].text, /room for 1,000 more/);
  assert.match(notices[2].text, /This story is full: what is new is kept in this browser only\./);
  assert.equal(notices.length, 3);
  notices[0].action.run();
  await settled();
  assert.notEqual(desk.story.id, full.id);
  assert.equal(desk.text, "Once upon a time");
  assert.equal(it.manuscript.text, "Once upon a time");
  assert.equal(desk.title, "The boat, continued");
  assert.deepEqual([desk.story.meta("memory"), desk.story.meta("settings.n")], ["Anna is old.", 3]);
  assert.equal(full.text(full.head.node, full.head.at), "Once upon a time");
});

test("a new story looks as the one before, and has its other settings to itself", async () => {
  const { desk } = await makeDesk();
  const looks = { theme: "dark", font: "mono", size: 22, measure: 80, single_keys: false };
  for (const [name, value] of Object.entries({ ...looks, n: 3, temperature: 1.5 })) desk.setSetting(name, value);
  const first = desk.story;
  desk.newStory();
  const of = ({ theme, font, size, measure, single_keys }) => ({ theme, font, size, measure, single_keys });
  assert.deepEqual(of(desk.settings), looks);
  assert.deepEqual([desk.settings.n, desk.settings.temperature], [8, null]);
  desk.setSetting("theme", "light");
  desk.setStory(first);
  assert.equal(desk.settings.theme, "dark");
  for (const [name, value] of Object.entries({ theme: "auto", single_keys: true })) desk.setSetting(name, value);
  desk.newStory();
  assert.deepEqual(of(desk.settings), { ...looks, theme: "auto", single_keys: true });
});

test("taking a card ends its round, and the next one continues from its text of that moment", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once");
  const first = await round(it, " upon", " more");
  await it.desk.take(1, { go: false });
  assert.equal(it.desk.text, "Once more");
  assert.equal(it.manuscript.text, "Once more");
  assert.equal(first.isOpen, false);
  assert.deepEqual(deleted(it.api), [`v1/srb/completions/${it.desk.story.runs.values().next().value.request_id}`]);
  first.send({ event: "stream", index: 1, text: " late" });
  assert.equal(it.desk.text, "Once more");
  const next = await round(it, ",");
  assert.equal(next.body.prompt, "Once more");
});

test("the next round is asked for before the server is told to end the last one", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once");
  await round(it, " upon");
  const { api } = it;
  const { send } = api;
  const asked = [];
  api.send = (method, ...given) => {
    if (method === "DELETE") asked.push(api.streams.length);
    return send.call(api, method, ...given);
  };
  it.desk.take(0);
  assert.deepEqual([asked, api.last.body.prompt], [[2], "Once upon"]);
  it.desk.go();
  assert.equal(api.streams.length, 3);
});

test("first words are told in the next frame, and texts that nobody reads as fast less often", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once");
  const told = () => new Promise((tell) => it.desk.addEventListener("text", tell, { once: true }));
  const stream = await round(it, " upon");
  await told();
  const alive = setInterval(() => {}, 1000); // the desk's own clocks keep no process
  for (const [text, beat] of [
    [" a".repeat(500), 150],
    [" b", 50],
  ]) {
    stream.send({ event: "stream", index: 0, text });
    await told();
    assert.equal(it.desk.rounds.beat, beat);
  }
  clearInterval(alive);
});

test("a part of a card that still grows can be taken, and all of it stays in the story", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once");
  const stream = await round(it, " upon a time", " more");
  stream.send({ event: "stream", index: 0, text: " there" });
  await it.desk.take(0, { at: 5, go: false });
  assert.equal(it.desk.text, "Once upon");
  const written = [...it.desk.story.nodes.values()].filter(({ by }) => by === "model").map(({ text }) => text);
  assert.deepEqual(written.sort(), [" more", " upon a time there"]);
});

test("undo goes back through typing and taking, and shows the earlier round again", async () => {
  const it = await makeDesk();
  const { desk, manuscript } = it;
  manuscript.type("A");
  await round(it, " b", " c");
  const firstRound = desk.round;
  await desk.take(0, { go: false });
  manuscript.type(" d");
  await round(it, " e", " f");
  const secondRound = desk.round;
  await desk.take(1, { go: false });
  assert.equal(desk.text, "A b d f");
  desk.undo();
  assert.equal(desk.text, "A b d");
  assert.equal(desk.round, secondRound);
  desk.undo();
  desk.undo();
  assert.equal(desk.text, "A");
  assert.equal(desk.round, firstRound);
  assert.deepEqual(texts(desk), [" b", " c"]);
  for (const expected of ["A b", "A b d", "A b d f"]) {
    desk.redo();
    assert.equal(desk.text, expected);
  }
});

test("undoing a take stops the round that it began", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " b");
  await it.desk.take(0, { go: false });
  const second = await round(it, " c");
  it.desk.undo();
  assert.equal(second.isOpen, false);
  assert.deepEqual(texts(it.desk), [" b"]);
});

test("a pruned branch is stopped alone, and a refill fills its slot", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b", " c", " d");
  await it.desk.prune(1);
  assert.match(deleted(it.api)[0], /\/branches\/1$/);
  assert.equal(it.desk.round.slots[1].state, "pruned");
  stream.send({ event: "stop", index: 1, length: 1, stop: 0, reason: "cancelled", stopping_word: "" });
  await it.desk.refill();
  const { path, body } = it.api.calls.at(-1);
  assert.match(path, /\/branches$/);
  assert.deepEqual(body, { count: 1 });
  stream.send({ event: "branch", index: 3, seed: 10 }, { event: "stream", index: 3, text: " new" });
  assert.deepEqual(texts(it.desk), [" b", " new", " d"]);
  it.desk.rounds.save();
  const written = [...it.desk.story.nodes.values()].filter(({ by }) => by === "model").map(({ text }) => text);
  assert.deepEqual(written.sort(), [" b", " c", " d", " new"]);
});

test("a card that ended at its limit goes on in place, and its text is one again in the story", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  stream.send(
    { event: "stop", index: 0, length: 1, stop: 0, reason: "limit", stopping_word: "" },
    { event: "rest", seconds: 600 },
  );
  await it.desk.extend(0);
  assert.equal(it.api.calls.at(-1).method, "PATCH");
  stream.send({ event: "branch", index: 0, seed: 7, resumed: true }, { event: "stream", index: 0, text: " c" });
  assert.deepEqual(texts(it.desk), [" b c"]);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A b c");
  assert.equal(it.desk.story.text(it.desk.head.node), "A b c");
});

test("variations share the beginning of their card", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b c");
  await it.desk.vary(0, 2, 2);
  assert.deepEqual(it.api.calls.at(-1).body, { count: 2, from: { branch: 0, character: 2 } });
  for (const index of [1, 2]) {
    stream.send({ event: "branch", index, seed: 8, from: { branch: 0, token: 1 }, text: " b" });
    stream.send({ event: "stream", index, text: ` ${index}` });
  }
  assert.deepEqual(texts(it.desk), [" b c", " b 1", " b 2"]);
  await it.desk.take(2, { go: false });
  assert.equal(it.desk.text, "A b 2");
  assert.deepEqual(
    it.desk.story.pieces(it.desk.head.node).map(({ from, to }) => [from, to]),
    [
      [0, 1],
      [1, 3],
      [3, 5],
    ],
  );
});

test("variations of a round whose request is gone are a new request that joins it", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b c");
  it.desk.stop();
  assert.equal(stream.isOpen, false);
  it.desk.vary(0, 2, 1);
  await settled();
  assert.equal(it.api.last.body.prompt, "A b");
  it.api.last.send(
    { event: "start", id: "again", count: 1, seeds: [3], prompt_tokens: 3 },
    { event: "stream", index: 0, text: " z" },
  );
  assert.deepEqual(texts(it.desk), [" b c", " b z"]);
  await it.desk.take(1, { go: false });
  assert.equal(it.desk.text, "A b z");
});

test("an open page makes the rounds of the past again from the story", async () => {
  const it = await makeDesk();
  const { desk } = it;
  it.manuscript.type("A");
  await round(it, " b", " c");
  await desk.take(0, { go: false });
  await round(it, " d", " e");
  desk.stop();
  const { story } = desk;
  const place = desk.head;
  desk.rounds.leave();
  desk.setStory(story);
  assert.deepEqual(texts(desk), [" d", " e"]);
  assert.deepEqual(desk.head, place);
  const [loser] = [...story.nodes.values()].filter(({ text }) => text === " c");
  desk.openNode(loser.id);
  assert.equal(desk.text, "A c");
  assert.deepEqual(texts(desk), [" b", " c"]);
  desk.goBack();
  assert.equal(desk.text, "A b");
  assert.deepEqual(texts(desk), [" d", " e"]);
});

test("a lost connection keeps all texts, says so and offers to try again", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const stream = await round(it, " b");
  stream.lose();
  await settled();
  assert.equal(it.desk.round.slots[0].end.reason, "lost");
  assert.deepEqual(texts(it.desk), [" b"]);
  assert.match(it.desk.said.at(-1).text, /connection/);
  it.desk.said.at(-1).action.run();
  await settled();
  assert.equal(it.api.streams.length, 2);
});

test("a refused round says why, and the text is untouched", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  it.api.refusal = new ApiError("Field 'n': is 900; at most 64 are allowed", 400, "invalid_request_error");
  await it.desk.go({ n: 2 });
  assert.match(it.desk.said.at(-1).text, /at most 64/);
  assert.equal(it.desk.text, "A");
});

test("a round begins on a text that no other window rewrites", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  const { node } = it.desk.head;
  const other = { ...it.desk.story.nodes.get(node), open: true };
  const story = new it.desk.story.constructor(it.desk.story.id);
  story.merge({ nodes: { [node]: other } });
  it.desk.setStory(story);
  it.desk.head = { node, at: 1 };
  const stream = await round(it, " b");
  assert.equal(stream.body.prompt, "A");
  assert.notEqual(it.desk.head.node, node);
  assert.equal(it.desk.text, "A");
  assert.deepEqual(it.manuscript.head, it.desk.head);
});

test("a word changed in the middle is a version of its own, and branches keep their texts", async () => {
  const it = await makeDesk();
  it.manuscript.type("Once upon a time");
  await round(it, " there", " far");
  await it.desk.take(0, { go: false });
  const before = it.desk.head;
  it.manuscript.type("twice", 0, 4);
  assert.equal(it.desk.text, "twice upon a time there");
  assert.equal(it.desk.story.text(before.node, before.at), "Once upon a time there");
  const authors = it.desk.story.pieces(it.desk.head.node, it.desk.head.at).map(({ by }) => by);
  assert.deepEqual(authors, ["person", "person", "model"]);
});
