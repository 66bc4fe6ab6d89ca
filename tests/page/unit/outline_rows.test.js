import assert from "node:assert/strict";
import { test } from "node:test";
import { found, isUnread, labelOf, rowsOf } from "../../../srb/page/outline_rows.js";
import { Story } from "../../../srb/page/story.js";

/** A story whose first words have three branches, of which the second was continued by two. */
function branched() {
  const story = Story.create();
  const head = story.edit(story.head, 0, 0, "Once");
  const add = (parent, text, run, slot) =>
    story.addModelNode({ parent, keep: story.length(parent), text, run, index: slot, slot, seed: 1 });
  const firsts = [" upon", " there", " more"].map((text, slot) => add(head.node, text, "r1", slot));
  const seconds = [" was", " lived"].map((text, slot) => add(firsts[1], text, "r2", slot));
  return { story, root: head.node, firsts, seconds };
}

const shape = (story, rows) => rows.map(({ id, depth }) => `${" ".repeat(depth)}${story.nodes.get(id).text.trim()}`);

test("the main line keeps its depth, and what was not taken stands indented before it goes on", () => {
  const { story, seconds } = branched();
  const path = new Set(story.path(seconds[0]));
  const rows = rowsOf(story, { path, isOpen: () => true });
  assert.deepEqual(shape(story, rows), ["Once", " upon", " more", "there", " lived", "was"]);
  assert.deepEqual(
    rows.map(({ others }) => others),
    [2, 0, 0, 1, 0, 0],
  );
});

test("a closed fork shows the main line alone", () => {
  const { story, seconds } = branched();
  const rows = rowsOf(story, { path: new Set(story.path(seconds[1])), isOpen: () => false });
  assert.deepEqual(shape(story, rows), ["Once", "there", "lived"]);
});

test("a line that leaves the path goes on with the branch that was continued", () => {
  const { story, firsts } = branched();
  const rows = rowsOf(story, { path: new Set(story.path(firsts[0])), isOpen: () => true });
  assert.deepEqual(shape(story, rows), ["Once", " there", "  was", "  lived", " more", "upon"]);
});

test("at the head all branches of a round are alternatives, and what a person wrote goes on", () => {
  const { story, firsts } = branched();
  const rows = rowsOf(story, { path: new Set(story.path(firsts[0])), isOpen: () => true });
  assert.deepEqual(
    rows.filter(({ id }) => firsts.includes(id)).map(({ depth }) => depth),
    [1, 1, 0],
  );
  const fresh = Story.create();
  const head = fresh.edit(fresh.head, 0, 0, "Once");
  for (const slot of [0, 1])
    fresh.addModelNode({ parent: head.node, keep: 4, text: ` ${slot}`, run: "r", index: slot, slot, seed: 1 });
  const shown = (isOpen) => rowsOf(fresh, { path: new Set([head.node]), isOpen: () => isOpen });
  assert.deepEqual(shape(fresh, shown(true)), ["Once", " 0", " 1"]);
  assert.equal(shown(true)[0].others, 2);
  assert.deepEqual(shape(fresh, shown(false)), ["Once"]);
});

test("pruned branches can be hidden, but never the path", () => {
  const { story, firsts } = branched();
  for (const id of firsts) story.setMark(id, "pruned", true);
  const rows = rowsOf(story, { path: new Set(story.path(firsts[0])), isOpen: () => true, hidesPruned: true });
  assert.deepEqual(shape(story, rows), ["Once", "upon"]);
});

test("every node has one row when all is open, however deep the story", () => {
  const story = Story.create();
  let parent = story.edit(story.head, 0, 0, "a").node;
  for (let i = 0; i < 10_000; i += 1) {
    const id = story.addModelNode({
      parent,
      keep: story.length(parent),
      text: "b",
      run: `${i}`,
      index: 0,
      slot: 0,
      seed: 1,
    });
    if (i % 3 === 0)
      story.addModelNode({ parent, keep: story.length(parent), text: "c", run: `${i}`, index: 1, slot: 1, seed: 2 });
    parent = id;
  }
  const rows = rowsOf(story, { path: new Set(story.path(parent)), isOpen: () => true });
  assert.equal(rows.length, story.nodes.size);
  assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
  assert.equal(Math.max(...rows.map(({ depth }) => depth)), 1);
});

test("a search finds texts, names and notes, in any case", () => {
  const { story, root, firsts } = branched();
  story.setMark(firsts[2], "name", "The Harbour");
  assert.deepEqual(found(story, "harbour"), [firsts[2]]);
  assert.deepEqual(found(story, "ONCE"), [root]);
  assert.equal(found(story, "e", { most: 2 }).length, 2);
});

test("a search that hides what is pruned leaves out all that follows it, but for the path", () => {
  const { story, root, firsts, seconds } = branched();
  story.setMark(firsts[1], "pruned", true);
  const ids = (path) => found(story, "", { path: new Set(path), hidesPruned: true });
  assert.deepEqual(ids([root]), [root, firsts[0], firsts[2]]);
  assert.deepEqual(ids(story.path(seconds[0])), [root, ...firsts, ...seconds]);
  assert.equal(found(story, "").length, 6);
});

test("a label is one line, and says what has no words", () => {
  const story = { text: () => "An old lamp burned.\n\n" };
  assert.equal(labelOf(story, { text: " one\n\ntwo " }), "one ↵ two");
  assert.equal(labelOf(story, { text: "\n\none" }), "one");
  assert.equal(labelOf(story, { text: "\n\n" }), "↵");
  const without = (keep, tail) => labelOf(story, { text: "", parent: "a", keep, tail });
  assert.equal(without(3, 12), "(without “old lamp”)");
  assert.equal(without(12), "(without “burned.”)");
  assert.equal(without(19), "(blanks taken out)");
  assert.equal(without(21), "(nothing yet)");
  assert.equal(labelOf(story, { text: "", parent: "a", open: true }), "(nothing yet)");
  assert.equal(labelOf(story, { text: "", parent: "a", end: { reason: "eos" } }), "(the model would end here)");
  assert.equal(labelOf(story, { text: "abcdef" }, 3), "abc …");
  assert.equal(labelOf(story, { text: "one two three" }, 9), "one two …");
  assert.equal(
    labelOf(story, { text: "# The Lighthouse\n\n## Chapter 1\n\nIt was *dark*, **very** dark. 2 * 3 * 4" }),
    "The Lighthouse ↵ Chapter 1 ↵ It was dark, very dark. 2 * 3 * 4",
  );
});

test("a branch is unread until it was looked at or taken", () => {
  const { story, firsts } = branched();
  story.end(firsts[0], { reason: "limit" });
  const node = story.nodes.get(firsts[0]);
  assert.ok(isUnread(story, node, new Set()));
  assert.ok(!isUnread(story, node, new Set(firsts)));
  story.setMark(firsts[0], "seen", true);
  assert.ok(!isUnread(story, story.nodes.get(firsts[0]), new Set()));
});
