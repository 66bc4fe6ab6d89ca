import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDesk, round } from "./fake_desk.js";

/** A desk whose round goes on from a text, with a card for each of the texts. */
async function roundOn(text, ...cards) {
  const it = await makeDesk();
  it.manuscript.type(text);
  await round(it, ...cards);
  return it;
}

const take = ({ desk }, number, options) => desk.take(number, { go: false, ...options });
const lastNotice = ({ desk }) => desk.said.at(-1);

const KEPT = [
  ["a typo that is mended", "Onxe upon a time,", (it) => it.manuscript.type("c", 2, 3), "Once upon a time, b"],
  ["a word that is put before", "upon a time,", (it) => it.manuscript.type("Once ", 0), "Once upon a time, b"],
  ["a word taken out", "Once upon upon a time,", (it) => it.manuscript.type("", 4, 9), "Once upon a time, b"],
  ["several places", "xa xb xc", (it) => [6, 3, 0].map((at) => it.manuscript.type("", at, at + 1)), "a b c b"],
  ["the last word taken out", "One two three", (it) => it.manuscript.type("", 7, 13), "One two b"],
];

for (const [what, text, change, after] of KEPT) {
  test(`a take keeps what was changed before the place that the cards go on from: ${what}`, async () => {
    const it = await roundOn(text, " b", " c");
    change(it);
    await take(it, 0);
    assert.equal(it.desk.text, after);
    assert.equal(it.manuscript.text, after);
    const { node, at } = it.desk.head;
    assert.equal(it.desk.story.pieces(node, at).at(-1).by, "model");
    assert.deepEqual(it.desk.said, []);
  });
}

test("words typed where the cards go on are told of before a take, and stay before the card that is taken", async () => {
  const it = await roundOn("It was a fox.", " It ran.", " It slept.");
  assert.equal(it.desk.seam, null);
  it.manuscript.type(" It was red.");
  assert.deepEqual([it.desk.seam.from, it.desk.seam.typed], ["It was a fox.", "It was red."]);
  await take(it, 1);
  assert.equal(it.desk.text, "It was a fox. It was red. It slept.");
  assert.match(lastNotice(it).text, /behind what you typed meanwhile: “It was red.”/);
  it.desk.undo();
  assert.equal(it.desk.text, "It was a fox. It was red.");
});

test("words typed where the cards go on make room on request, which is told of, and one undo has them again", async () => {
  const it = await roundOn("It was a fox.", " It ran.", " It slept.");
  it.manuscript.type(" It was red.");
  it.desk.setChoice("instead");
  await take(it, 1);
  assert.equal(it.desk.text, "It was a fox. It slept.");
  assert.equal(lastNotice(it).text, "“It was red.” is not in this text. The outline has it.");
  it.desk.undo();
  assert.equal(it.desk.text, "It was a fox. It was red.");
  assert.deepEqual(
    it.desk.round.slots.map(({ text }) => text),
    [" It ran.", " It slept."],
  );
});

test("a card that stands behind typed words is put in their place by one act, and its round is shown again", async () => {
  const it = await roundOn("It was a fox.", " It ran.", " It slept.");
  it.manuscript.type(" It was red.");
  await it.desk.take(1, { go: false });
  const { action } = lastNotice(it);
  assert.equal(action.label, "In place of it");
  await action.run();
  assert.equal(it.desk.text, "It was a fox. It slept.");
  it.desk.undo();
  assert.equal(it.desk.text, "It was a fox. It was red. It slept.", "one undo has the other");
  it.desk.undo();
  assert.equal(it.desk.text, "It was a fox. It was red.");
});

test("undo of a take that went on shows the cards again from which it was taken", async () => {
  const it = await roundOn("A fox.", " It ran.", " It slept.");
  it.manuscript.type(" Red.");
  it.desk.take(0);
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(it.desk.text, "A fox. Red. It ran.");
  assert.equal(it.api.last.body.prompt, "A fox. Red. It ran.");
  it.desk.undo();
  assert.deepEqual(
    it.desk.round.slots.map(({ text }) => text),
    [" It ran.", " It slept."],
  );
});

test("a paragraph that was begun while cards are shown stays, and dims no card", async () => {
  const it = await roundOn("A fox.", " It ran.");
  it.manuscript.type("\n\n");
  assert.equal(it.desk.seam, null);
  await take(it, 0);
  assert.equal(it.desk.text, "A fox.\n\nIt ran.");
});

test("a blank typed at the end gives way to the card's own", async () => {
  const it = await roundOn("A fox", ", it ran.");
  it.manuscript.type(" ");
  await take(it, 0);
  assert.equal(it.desk.text, "A fox, it ran.");
});

test("a card that goes on within a word is told apart from the words typed meanwhile", async () => {
  const it = await roundOn("At Rav", "en, far out");
  it.manuscript.type("BBB", 6);
  await take(it, 0);
  assert.equal(it.desk.text, "At RavBBB en, far out");
});

test("cards whose last words were taken out of the text say what they go on from", async () => {
  const it = await roundOn("It was a fox.", " It ran.");
  it.manuscript.type("", 8, 13);
  assert.deepEqual([it.desk.seam.from, it.desk.seam.typed, it.desk.seam.isCut], ["It was a fox.", "", true]);
});

test("a letter that is typed again makes no card stale", async () => {
  const it = await roundOn("It was a fox.", " It ran.");
  it.manuscript.type("", 12, 13);
  it.manuscript.type(".");
  assert.equal(it.desk.seam, null);
  await take(it, 0);
  assert.equal(it.desk.text, "It was a fox. It ran.");
});

test("another card takes the place of the one that was taken before, as long as nothing was typed behind it", async () => {
  const it = await roundOn("A fox.", " It ran.", " It slept.");
  await take(it, 0);
  await take(it, 1);
  assert.equal(it.desk.text, "A fox. It slept.");
  it.manuscript.type(" Well.");
  await take(it, 0);
  assert.equal(it.desk.text, "A fox. It slept. Well. It ran.");
});

test("a grafted card is the model's, of its run, and its branch is no copy to be read again", async () => {
  const it = await roundOn("Onxe.", " b");
  it.manuscript.type("c", 2, 3);
  await take(it, 0);
  const node = it.desk.story.nodes.get(it.desk.head.node);
  const card = it.desk.round.slots[0].node;
  assert.deepEqual([node.by, node.run, node.of], ["model", it.desk.round.id, { node: card, at: 0 }]);
});

test("what stands behind a word in whose place another is chosen is told of, and one undo has it again", async () => {
  const it = await makeDesk();
  it.manuscript.type("One fox ran far.");
  it.desk.choose(null, 3, " dog");
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(it.desk.text, "One dog");
  assert.match(lastNotice(it).text, /“fox ran far\.” is not in this text/);
  const texts = [...it.desk.story.nodes.values()].map(({ text }) => text);
  assert.ok(texts.some((text) => text.includes("fox ran far.")));
  lastNotice(it).action.run();
  assert.equal(it.desk.text, "One fox ran far.");
});

test("words typed at a place that was opened are told of when it is left, and lead back", async () => {
  const it = await roundOn("A fox.", " It ran.", " It slept.");
  await take(it, 0);
  it.desk.rounds.save();
  const other = it.desk.round.slots[1].node;
  await it.desk.openNode(other);
  it.manuscript.type(" Deep.");
  await it.desk.goBack();
  assert.equal(it.desk.text, "A fox. It ran.");
  assert.match(lastNotice(it).text, /“Deep\.” is not in this text/);
});

test("what leads back from a second place that was opened leads to the words that it lacks", async () => {
  const it = await makeDesk();
  const { desk } = it;
  it.manuscript.type("A fox.");
  const { node } = desk.settle();
  it.manuscript.type(" Red.");
  await desk.openNode(node);
  it.manuscript.type(" Grey.");
  await desk.openNode(node);
  assert.match(lastNotice(it).text, /Grey/);
  lastNotice(it).action.run();
  assert.equal(desk.text, "A fox. Grey.");
});

test("a message about words that a take has removed goes when undo brings them back, and not with another undo", async () => {
  const it = await makeDesk();
  const { desk, manuscript } = it;
  manuscript.type("It rained. Nobody came. It froze.");
  manuscript.select(11, 23);
  desk.go({ n: 1, task: { verb: "rewrite", instruction: "Anew." } });
  await new Promise((done) => setTimeout(done, 0));
  it.api.last.send({ event: "start", id: "r", count: 1, seeds: [1], prompt_tokens: 6 });
  it.api.last.send({ event: "stream", index: 0, text: "No one was there." });
  await take(it, 0);
  const { text, about } = lastNotice(it);
  assert.match(text, /“Nobody came.” is not in this text/);
  const withdrawn = [];
  desk.addEventListener("withdrawn", ({ detail }) => withdrawn.push(detail.about));
  manuscript.type(" Then?");
  desk.undo();
  assert.ok(!withdrawn.includes(about));
  desk.undo();
  assert.equal(desk.text, "It rained. Nobody came. It froze.");
  assert.ok(withdrawn.includes(about));
});

test("cards for a passage are said to be for the passage as it was when it was changed since", async () => {
  const it = await makeDesk();
  it.manuscript.type("Nobody came. It froze.");
  it.manuscript.select(0, 12);
  it.desk.go({ n: 1, task: { verb: "rewrite", instruction: "Anew." } });
  await new Promise((done) => setTimeout(done, 0));
  it.manuscript.type("Somebody", 0, 6);
  assert.equal(it.desk.seam.passage, "Nobody came.");
});
