/** Rounds in the middle of the text: at the caret, between words that stay before the cards and behind them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk, round, settled } from "./fake_desk.js";

const TEXT = "A fox. It slept.";
const texts = (desk) => desk.round.slots.map(({ text }) => text);
const last = ({ desk }) => desk.said.at(-1);

/** A round of two cards behind the first sentence, or at another caret. */
async function inside(text = TEXT, caret = 6, cards = [" It ran.", " It hid."]) {
  const it = await makeDesk();
  it.manuscript.type(text);
  it.manuscript.select(caret);
  it.stream = await round(it, ...cards);
  return it;
}

test("a round at the caret reads what stands before it", async () => {
  const it = await inside();
  assert.equal(it.stream.body.prompt, "A fox.");
  assert.equal(it.desk.text, TEXT);
  assert.equal(it.desk.seam, null);
});

test("a round at the end goes there, wherever the caret is", async () => {
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  it.manuscript.select(6);
  it.desk.go({ isAtEnd: true });
  await settled();
  assert.equal(it.api.last.body.prompt, TEXT);
});

test("a card is taken at its place: what stands behind it stays, one undo has the text before, and the next round goes on there", async () => {
  const it = await inside();
  it.desk.take(0);
  await settled();
  assert.equal(it.desk.text, "A fox. It ran. It slept.");
  assert.equal(it.manuscript.caret(), "A fox. It ran.".length);
  assert.equal(it.api.last.body.prompt, "A fox. It ran.");
  assert.deepEqual(it.desk.said, []);
  it.desk.undo();
  assert.equal(it.desk.text, TEXT);
  assert.deepEqual(texts(it.desk), [" It ran.", " It hid."]);
  it.desk.redo();
  assert.equal(it.desk.text, "A fox. It ran. It slept.");
});

test("another card takes the place of the one that was taken before", async () => {
  const it = await inside();
  await it.desk.take(0, { go: false });
  await it.desk.take(1, { go: false });
  assert.equal(it.desk.text, "A fox. It hid. It slept.");
});

test("a part of a card is taken up to its mark", async () => {
  const it = await inside();
  await it.desk.take(0, { at: 3, go: false });
  assert.equal(it.desk.text, "A fox. It It slept.");
});

const AROUND = [
  ["before the place", (it) => it.manuscript.type("Yes. ", 0), "Yes. A fox. It ran. It slept."],
  ["behind it", (it) => it.manuscript.type("woke", 10, 15), "A fox. It ran. It woke."],
  ["at the end", (it) => it.manuscript.type(" Long."), "A fox. It ran. It slept. Long."],
  [
    "on both sides",
    (it) => it.manuscript.type("!", 5, 6) || it.manuscript.type("!", 15, 16),
    "A fox! It ran. It slept!",
  ],
];

for (const [what, change, wanted] of AROUND)
  test(`what is changed ${what} stays as it is when a card is taken`, async () => {
    const it = await inside();
    change(it);
    await it.desk.take(0, { go: false });
    assert.equal(it.desk.text, wanted);
  });

test("words typed at the place are told of, and stay before the card or give way to it", async () => {
  const it = await inside();
  it.manuscript.type(" Red.", 6);
  assert.deepEqual([it.desk.seam.from, it.desk.seam.typed], ["A fox.", "Red."]);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A fox. Red. It ran. It slept.");
  assert.match(last(it).text, /behind what you typed meanwhile: “Red\.”/);
  await last(it).action.run();
  assert.equal(it.desk.text, "A fox. It ran. It slept.");
  assert.equal(last(it).text, "“Red.” is not in this text. The outline has it.");
});

test("a card at a paragraph's beginning is a paragraph of its own", async () => {
  const it = await inside("A fox.\n\nIt slept.", 8, ["It ran.", "It hid."]);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A fox.\n\nIt ran.\n\nIt slept.");
  assert.equal(it.manuscript.caret(), "A fox.\n\nIt ran.".length);
});

test("where all that stood behind was taken out, a card ends the text", async () => {
  const it = await inside();
  it.manuscript.type("", 6, 16);
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A fox. It ran.");
});

test("the words on both sides keep their authors, and the card is the model's", async () => {
  const it = await inside();
  await it.desk.take(0, { go: false });
  const { node, at } = it.desk.head;
  assert.deepEqual(
    it.desk.story.pieces(node, at).map(({ by, from, to }) => [by, it.desk.text.slice(from, to)]),
    [
      ["person", "A fox."],
      ["model", " It ran."],
      ["person", " It slept."],
    ],
  );
});

test("after a reload the cards go where they went before", async () => {
  const it = await inside();
  it.desk.rounds.save();
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  assert.deepEqual(texts(it.desk), [" It ran.", " It hid."]);
  await it.desk.take(1, { go: false });
  assert.equal(it.desk.text, "A fox. It hid. It slept.");
});

test("a story that says a gap which its text has not is read as one that goes on at the end", async () => {
  const it = await inside();
  it.desk.rounds.save();
  const file = JSON.parse(JSON.stringify(it.desk.story.toJSON()));
  for (const run of Object.values(file.runs)) run.request.until = 999;
  it.desk.setStory(storyOf(JSON.stringify(file)));
  await settled();
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "A fox. It ran.");
});

test("a chat model is told what stands behind, and a model that fills gaps by its own tokens", async () => {
  const it = await makeDesk();
  it.manuscript.type(TEXT);
  it.manuscript.select(6);
  it.desk.watch.server = {
    ...it.desk.server,
    fill: { prefix: "<p>", suffix: "<s>", middle: "<m>", suffix_first: false },
  };
  it.stream = await round(it, " It ran.");
  assert.equal(it.stream.body.prompt, "<p>A fox.<s> It slept.<m>");
  it.desk.more(1);
  await settled();
  assert.equal(it.api.calls.at(-1).path.split("/").at(-1), "branches", "further branches fill the same gap");
  it.desk.setSetting("mode", "chat");
  it.api.answers["apply-template"] = { prompt: "told" };
  it.manuscript.select(6);
  it.desk.go();
  await settled();
  const { messages } = it.api.calls.find(({ path }) => path === "apply-template").body;
  assert.match(messages[0].content, /It slept\.$/);
  assert.equal(messages.at(-1).content, "A fox.");
  assert.equal(it.api.last.body.prompt, "told");
});
