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

/** The second window has a copy of the node that is still being typed in the first. */
async function twoWhileOneTypes(text) {
  const one = await makeDesk();
  one.manuscript.type(text);
  const two = await makeDesk();
  const copy = new Story(one.desk.story.id);
  copy.merge(one.desk.story.takeChanges());
  two.desk.setStory(copy);
  return [one, two];
}

test("two windows that drift apart are told how much goes on in the other one, and keep their own texts", async () => {
  const [one, two] = await twoWindows("A fox.");
  one.manuscript.type(" Mine.");
  two.manuscript.type(" Your three words.");
  exchange(one, two);
  assert.deepEqual([one.desk.wordsElsewhere, two.desk.wordsElsewhere], [3, 1]);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox. Mine.", "A fox. Your three words."]);
});

test("joining puts the other window's words behind those that they follow there, and one undo takes them out", async () => {
  const [one, two] = await twoWindows("A fox ran. The end.");
  one.manuscript.type(" Mine.");
  two.manuscript.type(" red", 1);
  two.manuscript.type(" Yours.");
  exchange(one, two);
  one.desk.rounds.elsewhere.join();
  assert.equal(one.desk.text, "A red fox ran. The end. Mine. Yours.");
  assert.equal(one.desk.wordsElsewhere, 0);
  one.desk.undo();
  assert.equal(one.desk.text, "A fox ran. The end. Mine.");
  assert.equal(one.desk.wordsElsewhere, 2);
});

test("words that one window has copied from the other's open node are not joined twice", async () => {
  const [one, two] = await twoWhileOneTypes("A fox");
  two.manuscript.type(" there.");
  one.manuscript.type(" here.");
  exchange(one, two);
  assert.deepEqual([one.desk.wordsElsewhere, two.desk.wordsElsewhere], [1, 1]);
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
  assert.deepEqual([one.desk.wordsElsewhere, two.desk.wordsElsewhere], [0, 1]);
  two.desk.rounds.elsewhere.show();
  exchange(one, two);
  assert.deepEqual([one.desk.wordsElsewhere, two.desk.wordsElsewhere], [0, 0]);
});

test("a card that was taken in the other window counts as its words, and is joined as the model's", async () => {
  const [one, two] = await twoWindows("A fox.");
  two.desk.story.now = () => Date.now() + 1000; // it is the last to go on
  await round(two, " It ran far.");
  await two.desk.take(0, { go: false });
  one.manuscript.type(" Mine.");
  exchange(one, two);
  assert.equal(one.desk.wordsElsewhere, 3);
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
  assert.equal(one.desk.wordsElsewhere, 3);
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
  assert.equal(one.desk.wordsElsewhere, 0);
});

test("words that a window keeps while another rewrites them are its own, and those behind them are the other's", async () => {
  const [one, two] = await twoWhileOneTypes("A red fox");
  one.manuscript.type("", 2, 6);
  exchange(one, two);
  assert.deepEqual([one.desk.text, two.desk.text], ["A fox", "A red fox"]);
  assert.equal(two.desk.wordsElsewhere, 0);
});
