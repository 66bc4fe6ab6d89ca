/** Rounds with a task: what happens next, and what becomes of a passage that is selected. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const TEXT = "A fox. It ran fast. It slept.";
const SHORTER = { verb: "shorter", instruction: "Make it shorter." };
const last = ({ desk }) => desk.said.at(-1);

/** A round in the place of the second sentence. */
async function revised({
  task = SHORTER,
  isFilling = false,
  from = 7,
  to = 19,
  text = TEXT,
  cards = ["It ran.", "It fled."],
} = {}) {
  const it = await makeDesk();
  it.manuscript.type(text);
  it.manuscript.select(from, to);
  const go = it.desk.go.bind(it.desk);
  it.desk.go = (options) => go({ ...options, task: isFilling ? null : task, isFilling });
  it.stream = await round(it, ...cards);
  it.desk.go = go;
  return it;
}

test("a new passage takes the place of the selected one, by one step of undo, and a message names what went", async () => {
  const it = await revised();
  await it.desk.take(0);
  assert.equal(it.desk.text, "A fox. It ran. It slept.");
  assert.equal(last(it).text, "“It ran fast.” is not in this text. The outline has it.");
  assert.equal(it.api.last, it.stream, "no round follows: who revises reads on first");
  it.desk.undo();
  assert.equal(it.desk.text, TEXT);
  it.desk.redo();
  await it.desk.take(1);
  assert.equal(it.desk.text, "A fox. It fled. It slept.");
});

test("a base model goes on behind the passage and the instruction, as long as the passage asks for", async () => {
  const it = await revised();
  const { prompt, max_tokens, stop_at } = it.stream.body;
  assert.equal(prompt, "A fox.\n\n[First draft]\n\nIt ran fast.\n\n[Make it shorter.]\n\n");
  assert.equal(stop_at, "paragraph");
  assert.ok(max_tokens > 20 && max_tokens < 60, `${max_tokens}`);
});

test("a chat model is asked by its template, and its passage ends by itself", async () => {
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  it.manuscript.select(7, 19);
  it.desk.setSetting("system", "You edit.");
  it.desk.watch.server = { ...it.desk.server, chat_template: true };
  it.api.answers["apply-template"] = { prompt: "told" };
  it.desk.go({ n: 1, task: SHORTER });
  await settled();
  const { messages } = it.api.calls.find(({ path }) => path === "apply-template").body;
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["system", "user"],
  );
  assert.match(messages[1].content, /A fox\.\n\nThe passage:\n\nIt ran fast\.\n\nMake it shorter\./);
  assert.equal(it.api.last.body.prompt, "told");
  assert.equal("stop_at" in it.api.last.body, false);
});

test("the gap of a passage is filled from what stands on both sides", async () => {
  const it = await revised({ isFilling: true, cards: [" It ran.", " It fled."] });
  assert.equal(it.stream.body.prompt, "A fox.");
  await it.desk.take(1);
  assert.equal(it.desk.text, "A fox. It fled. It slept.");
});

const PASSAGES = [
  ["with blanks around it", { from: 6, to: 20 }, "A fox. It ran. It slept."],
  ["at the end", { from: 20, to: 29 }, "A fox. It ran fast. It ran."],
  ["at the beginning", { from: 0, to: 6 }, "It ran. It ran fast. It slept."],
  ["that is all of the text", { from: 0, to: 29 }, "It ran."],
];

for (const [what, options, wanted] of PASSAGES)
  test(`a passage ${what} makes room for a new one`, async () => {
    const it = await revised(options);
    await it.desk.take(0);
    assert.equal(it.desk.text, wanted);
  });

test("blanks around a model's passage are left out", async () => {
  const it = await revised({ cards: ["\n\n It ran.\n\n"] });
  await it.desk.take(0);
  assert.equal(it.desk.text, "A fox. It ran. It slept.");
});

test("what is typed elsewhere meanwhile stays, and what is typed in the passage is told of", async () => {
  const it = await revised();
  it.manuscript.type("woke", 23, 28);
  it.manuscript.type("very ", 14);
  assert.equal(it.desk.seam.typed, "It ran very fast.");
  await it.desk.take(0);
  assert.equal(it.desk.text, "A fox. It ran. It woke.");
  assert.match(last(it).text, /not in this text/);
});

test("after a reload a round has its task, and its further branches are asked for in the same way", async () => {
  const it = await revised();
  const { prompt } = it.stream.body;
  it.desk.rounds.save();
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  assert.deepEqual(it.desk.round.task, SHORTER);
  assert.equal(it.desk.round.passage, "It ran fast.");
  it.desk.more(1);
  await settled();
  assert.equal(it.api.last.body.prompt, prompt);
  await it.desk.take(1);
  assert.equal(it.desk.text, "A fox. It fled. It slept.");
});

test("a passage that the model has no room for is not begun", async () => {
  const long = "word ".repeat(5000);
  const it = await makeDesk();
  it.manuscript.type(long);
  it.manuscript.select(0, long.length);
  await it.desk.go({ task: SHORTER });
  assert.match(last(it).text, /too long .*at most \d+ characters/);
  assert.equal(it.api.streams.length, 0);
});

test("what happens next is a note before the last paragraph, and kept with its round alone", async () => {
  const it = await makeDesk();
  it.manuscript.type("A fox.\n\nIt ran.");
  const task = { verb: "continue", instruction: "It is caught." };
  it.desk.go({ n: 1, task });
  await settled();
  assert.equal(it.api.last.body.prompt, "A fox.\n\n[What happens next: It is caught.]\n\nIt ran.");
  it.api.last.send({ event: "start", id: "asked", count: 1, seeds: [1], prompt_tokens: 5 });
  it.api.last.send({ event: "stream", index: 0, text: " No." });
  assert.deepEqual([...it.desk.story.runs.values()][0].request.task, task);
  it.desk.take(0);
  await settled();
  assert.equal(it.api.last.body.prompt, "A fox.\n\nIt ran. No.");
});

test("a chat model is told what happens next behind the story's instruction", async () => {
  const it = await makeDesk();
  it.manuscript.type("A fox.");
  it.desk.setSetting("mode", "chat");
  it.api.answers["apply-template"] = { prompt: "told" };
  it.desk.go({ n: 1, task: { verb: "continue", instruction: "It is caught." } });
  await settled();
  const { messages } = it.api.calls.find(({ path }) => path === "apply-template").body;
  assert.equal(messages[0].content, "Continue the story. It is caught.");
});
