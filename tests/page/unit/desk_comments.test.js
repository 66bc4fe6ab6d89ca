/** Comments on passages: they stay with their words, wherever these go. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { moveChapter } from "../../../srb/page/desk/chapter_moves.js";
import { addComment, commentsOf, PREFIX, rangesOf } from "../../../srb/page/desk/comments.js";
import { chaptersOf } from "../../../srb/page/formats/chapters.js";
import { makeDesk, round } from "./fake_desk.js";

const TEXT = "The lake was still. Nobody came. It froze.";

/** A desk with a comment on words of its text, and a function that says which words it is on now. */
async function commented(words, text = TEXT) {
  const it = await makeDesk();
  it.manuscript.type(text);
  const from = text.indexOf(words);
  it.id = addComment(it.desk, { from, to: from + words.length });
  it.on = () => {
    const { story, head, text: now } = it.desk;
    const range = rangesOf(story, head, commentsOf(story)).get(it.id);
    return range ? now.slice(range.from, range.to) : null;
  };
  return it;
}

test("a comment is on its words, whatever is typed or taken away around them", async () => {
  const { manuscript, desk, on, id } = await commented("Nobody came");
  assert.equal(commentsOf(desk.story).get(id).quote, "Nobody came");
  assert.equal(on(), "Nobody came");
  manuscript.type("Once. ", 0);
  assert.equal(on(), "Nobody came");
  manuscript.type("", 6, 26);
  assert.equal(on(), "Nobody came");
  manuscript.type(" ever", desk.text.indexOf(" came"));
  assert.equal(on(), "Nobody ever came");
  manuscript.type("", desk.text.indexOf("Nobody"), desk.text.indexOf("came"));
  assert.equal(on(), "came");
  manuscript.type("", desk.text.indexOf("came"), desk.text.indexOf("came") + 4);
  assert.equal(on(), null);
});

test("words that were taken away and come back have their comment again, also where they are typed anew", async () => {
  const { manuscript, desk, on } = await commented("Nobody came");
  manuscript.type("", 20, 31);
  assert.equal(on(), null);
  desk.undo();
  assert.equal(on(), "Nobody came");
  manuscript.type("", 20, 31);
  manuscript.type("Nobody came", 0);
  assert.equal(on(), "Nobody came");
});

test("it is on words of a card, also where these were put into the middle of the text", async () => {
  const it = await makeDesk();
  it.manuscript.type("The lake. It froze.");
  it.manuscript.select(9);
  await round(it, " Nobody came.", " b");
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "The lake. Nobody came. It froze.");
  const id = addComment(it.desk, { from: 10, to: 28 });
  it.manuscript.type("So. ", 0);
  const { story, head, text } = it.desk;
  const { from, to } = rangesOf(story, head, commentsOf(story)).get(id);
  assert.equal(text.slice(from, to), "Nobody came. It fr");
});

test("it goes along with a chapter that is moved", async () => {
  const { desk, on, id } = await commented(
    "second words",
    "## One\n\nThe first words.\n\n## Two\n\nThe second words.\n",
  );
  desk.setMeta(PREFIX + id, { ...commentsOf(desk.story).get(id), quote: "" }); // by its nodes alone
  const { chapters } = chaptersOf(desk.story);
  await moveChapter(desk, chapters, 1, 0);
  assert.ok(desk.text.startsWith("## Two"));
  assert.equal(on(), "second words");
});

test("adding it, and taking it away, are steps of undo", async () => {
  const { desk, id } = await commented("froze");
  desk.undo();
  assert.equal(commentsOf(desk.story).size, 0);
  desk.redo();
  assert.ok(commentsOf(desk.story).has(id));
});

test("what a file has in the place of a comment and is none is left out", async () => {
  const { desk, id } = await commented("froze");
  desk.story.setMeta(`${PREFIX}a`, { text: 5, quote: "", on: [] });
  desk.story.setMeta(`${PREFIX}b`, { text: "", quote: "", on: [{ node: "n", from: -1, to: 2 }] });
  desk.story.setMeta(`${PREFIX}c`, null);
  assert.deepEqual([...commentsOf(desk.story).keys()], [id]);
});
