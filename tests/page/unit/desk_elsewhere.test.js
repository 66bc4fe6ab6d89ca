import assert from "node:assert/strict";
import { test } from "node:test";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round } from "./fake_desk.js";
import { exchange, secondWindow } from "./two_desks.js";

async function twoWindows(text) {
  const one = await makeDesk();
  one.manuscript.type(text);
  return [one, await secondWindow(one)];
}

/** Two windows, of which the second writes later. */
async function firstAndLater(text) {
  const [one, two] = await twoWindows(text);
  two.desk.story.now = () => Date.now() + 1000;
  return [one, two];
}

/** The second window has a copy of the node that is still being typed in the first. */
async function twoWhileOneTypes(text) {
  const one = await makeDesk();
  one.manuscript.type(text);
  const two = await makeDesk();
  const copy = new Story(one.desk.story.id);
  copy.merge(one.desk.story.takeChanges());
  copy.now = () => Date.now() + 1000;
  two.desk.setStory(copy);
  return [one, two];
}

test("two windows that drift apart are told how much goes on in the other one, and keep their own texts", async () => {
  const [one, two] = await twoWindows("A fox.");
  one.manuscript.type(" Mine.");
  two.manuscript.type(" Your three words.");
  exchange(one, two);
  assert.deepEqual([one.desk.rounds.elsewhere.words, two.desk.rounds.elsewhere.words], [3, 1]);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox. Mine.", "A fox. Your three words."]);
});

test("joining puts the other window's words behind those that they follow there, and one undo takes them out", async () => {
  const [one, two] = await firstAndLater("A fox ran. The end.");
  one.manuscript.type(" Mine.");
  two.manuscript.type(" red", 1);
  two.manuscript.type(" Yours.");
  exchange(one, two);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A red fox ran. The end. Mine. Yours.");
  assert.equal(one.desk.rounds.elsewhere.words, 0);
  one.desk.undo();
  assert.equal(one.desk.text, "A fox ran. The end. Mine.");
  assert.equal(one.desk.rounds.elsewhere.words, 2);
});

test("words that one window has copied from the other's open node are not joined twice", async () => {
  const [one, two] = await twoWhileOneTypes("A fox");
  two.manuscript.type(" there.");
  one.manuscript.type(" here.");
  exchange(one, two);
  assert.deepEqual([one.desk.rounds.elsewhere.words, two.desk.rounds.elsewhere.words], [1, 1]);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A fox here. there.");
});

test("showing the other window's text names the own words that it lacks, and leads back", async () => {
  const [one, two] = await twoWindows("A fox.");
  one.manuscript.type(" Mine.");
  two.manuscript.type(" Yours.");
  exchange(one, two);
  one.desk.rounds.elsewhere.show();
  assert.equal(one.desk.text, "A fox. Yours.");
  const { text, action } = one.desk.said.at(-1);
  assert.match(text, /“Mine\.” is not in this text/);
  action.run();
  assert.equal(one.desk.text, "A fox. Mine.");
});

test("a window that is behind, or whose words came back, tells nothing", async () => {
  const [one, two] = await twoWindows("A fox.");
  one.manuscript.type(" Mine.");
  exchange(one, two);
  assert.deepEqual([one.desk.rounds.elsewhere.words, two.desk.rounds.elsewhere.words], [0, 1]);
  two.desk.rounds.elsewhere.show();
  exchange(one, two);
  assert.deepEqual([one.desk.rounds.elsewhere.words, two.desk.rounds.elsewhere.words], [0, 0]);
});

test("a card that was taken in the other window counts as its words, and is joined as the model's", async () => {
  const [one, two] = await twoWindows("A fox.");
  two.desk.story.now = () => Date.now() + 1000; // it is the last to go on
  await round(two, " It ran far.");
  await two.desk.take(0, { go: false });
  one.manuscript.type(" Mine.");
  exchange(one, two);
  assert.equal(one.desk.rounds.elsewhere.words, 3);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A fox. Mine. It ran far.");
  const { node, at } = one.desk.head;
  assert.equal(one.desk.story.pieces(node, at).at(-1).by, "model");
});

test("a window keeps the text that it shows while another one rewrites the words below it", async () => {
  const [one, two] = await twoWhileOneTypes("A fox");
  one.manuscript.type("dog", 2, 5);
  exchange(one, two);
  assert.deepEqual([two.manuscript.text, two.desk.text], ["A fox", "A fox"]);
  two.manuscript.type(" ran.");
  assert.deepEqual([two.manuscript.text, two.desk.text], ["A fox ran.", "A fox ran."]);
});

test("words that the other window typed before this one was opened, and that come later, are told of", async () => {
  const [one, two] = await twoWindows("A fox.");
  two.manuscript.type(" Your three words.");
  await new Promise((done) => setTimeout(done, 2)); // this window writes later
  one.manuscript.type(" Mine.");
  one.desk.setStory(one.desk.story);
  exchange(one, two);
  assert.equal(one.desk.rounds.elsewhere.words, 3);
});

/** Two windows, of which the first shows what the second has typed and takes out again, in part. @param {number} from @param {number} to */
async function twoThatShareWords(from, to) {
  const [one, two] = await twoWindows("A fox.");
  two.manuscript.type(" Yours, too.");
  exchange(one, two);
  one.desk.rounds.elsewhere.show();
  two.manuscript.type("", from, to);
  exchange(one, two);
  return [one, two];
}

test("words that were copied from the other window are told of, though they were taken out there since", async () => {
  const [one, two] = await twoThatShareWords(12, 17);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox. Yours, too.", "A fox. Yours."]);
  one.desk.rounds.elsewhere.show();
  assert.equal(one.desk.text, "A fox. Yours.");
  assert.match(one.desk.said.at(-1).text, /“, too” is not in this text/);
});

test("words that both windows have are not told of, though one has taken out what stands before them", async () => {
  const [one, two] = await twoThatShareWords(6, 13);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox. Yours, too.", "A fox. too."]);
  assert.equal(one.desk.rounds.elsewhere.words, 0);
});

test("words that a window keeps while another rewrites them are its own, and those behind them are the other's", async () => {
  const [one, two] = await twoWhileOneTypes("A red fox");
  one.manuscript.type("", 2, 6);
  exchange(one, two);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox", "A red fox"]);
  assert.equal(two.desk.rounds.elsewhere.words, 0);
});

/** Two windows that have changed words at one place, each to its own, and have heard of it. */
async function twoChanges(mine, theirs) {
  const [one, two] = await firstAndLater("The red fox sleeps.");
  one.manuscript.type(mine, 4, 7);
  two.manuscript.type(theirs, 4, 7);
  exchange(one, two);
  return [one, two];
}

for (const [choice, text] of [
  ["mine", "The blue fox sleeps."],
  ["theirs", "The green fox sleeps."],
  ["both", "The blue green fox sleeps."],
]) {
  test(`two changes at one place are asked about, and “${choice}” is the text of both windows`, async () => {
    const [one, two] = await twoChanges("blue", "green");
    const { elsewhere } = one.desk.rounds;
    elsewhere.join();
    assert.deepEqual(elsewhere.question, { mine: "blue", theirs: "green" });
    assert.equal(one.desk.text, "The blue fox sleeps.");
    elsewhere.answer(choice);
    assert.deepEqual([one.desk.text, elsewhere.question], [text, null]);
    exchange(one, two);
    assert.deepEqual([one.desk.text, two.desk.text], [text, text]);
    for (const { desk } of [one, two])
      assert.deepEqual([desk.rounds.elsewhere.words, desk.rounds.elsewhere.isApart], [0, false]);
    one.desk.undo();
    assert.equal(one.desk.text, "The blue fox sleeps.");
  });
}

test("a place that one window has emptied and the other one changed is asked about; the same change is not", async () => {
  const [one] = await twoChanges("", "green");
  one.desk.rounds.elsewhere.join();
  assert.deepEqual(one.desk.rounds.elsewhere.question, { mine: "", theirs: "green" });
  const [same] = await twoChanges("blue", "blue");
  assert.equal(same.desk.rounds.elsewhere.isApart, false);
});

test("windows that join at the same time have the same text, and each sees what the other took out", async () => {
  const [one, two] = await firstAndLater("A red fox ran. A dog slept. The end.");
  one.manuscript.type("", 2, 6);
  one.manuscript.type(" Mine.");
  two.manuscript.type("", 14, 27);
  two.manuscript.type(" Yours.");
  exchange(one, two);
  for (const { desk } of [one, two]) desk.rounds.elsewhere.join();
  assert.deepEqual([one.desk.text, two.desk.text], Array(2).fill("A fox ran. The end. Mine. Yours."));
  exchange(one, two);
  for (const { desk } of [one, two]) assert.equal(desk.rounds.elsewhere.isApart, false);
});

test("who only lacks what was joined elsewhere goes on in the joined text, with the caret at its word", async () => {
  const [one, two] = await twoWindows("A fox ran.");
  one.manuscript.type(" Mine.");
  two.manuscript.type("red ", 2);
  exchange(one, two);
  two.manuscript.select(9);
  one.desk.rounds.elsewhere.join();
  exchange(one, two);
  assert.deepEqual([one.desk.text, two.desk.text], Array(2).fill("A red fox ran. Mine."));
  assert.equal(two.manuscript.caret(), 9);
  two.desk.said.at(-1).action.run();
  assert.equal(two.desk.text, "A red fox ran.");
});

test("a word that two windows end in their own ways is one place", async () => {
  const [one, two] = await twoWindows("A fo");
  one.manuscript.type("x");
  two.manuscript.type("rest");
  exchange(one, two);
  one.desk.rounds.elsewhere.join();
  assert.deepEqual(one.desk.rounds.elsewhere.question, { mine: "fox", theirs: "forest" });
});

test("words taken out in another window alone are told of, and taken out by joining", async () => {
  const [one, two] = await twoWindows("A red fox.");
  one.manuscript.type(" Mine.");
  two.manuscript.type("", 2, 6);
  exchange(one, two);
  assert.deepEqual([one.desk.rounds.elsewhere.words, one.desk.rounds.elsewhere.isApart], [0, true]);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A fox. Mine.");
});

test("the other person is called by name", async () => {
  const [one, two] = await firstAndLater("A fox.");
  two.desk.story.person = "bob";
  two.manuscript.type(" Yours.");
  exchange(one, two);
  assert.equal(one.desk.rounds.elsewhere.who, "bob");
});

test("a word that is rewritten where it was typed, and in its copy, is one place", async () => {
  const [one, two] = await twoWhileOneTypes("The red fox sleeps.");
  one.manuscript.type("blue", 4, 7);
  two.manuscript.type("green", 4, 7);
  exchange(one, two);
  one.desk.rounds.elsewhere.join();
  assert.deepEqual(one.desk.rounds.elsewhere.question, { mine: "blue", theirs: "green" });
  one.desk.rounds.elsewhere.answer("theirs");
  exchange(one, two);
  assert.deepEqual([one.desk.text, two.desk.text], Array(2).fill("The green fox sleeps."));
});

test("sentences that two windows begin behind the last space are both kept, and parted", async () => {
  const [one, two] = await firstAndLater("A fox. ");
  one.manuscript.type("Mine.");
  two.manuscript.type("Yours.");
  exchange(one, two);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A fox. Mine. Yours.");
});

test("a word that another window rewrites before this one changes it is one place", async () => {
  const [one, two] = await twoWhileOneTypes("The red fox sleeps.");
  one.manuscript.type("blue", 4, 7);
  exchange(one, two);
  two.manuscript.type("green", 4, 7);
  exchange(one, two);
  assert.deepEqual([one.desk.text, two.desk.text], ["The blue fox sleeps.", "The green fox sleeps."]);
  one.desk.rounds.elsewhere.join();
  assert.deepEqual(one.desk.rounds.elsewhere.question, { mine: "blue", theirs: "green" });
});
