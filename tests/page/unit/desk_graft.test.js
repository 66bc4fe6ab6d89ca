/** Grafts: the words of one node go on behind another one, with who wrote them; undo sets the branch aside. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { graft } from "../../../srb/page/desk/graft.js";
import { makeDesk } from "./fake_desk.js";
import { Random } from "./random.js";

/** A desk with a text of a person, and two branches of a model behind it. */
async function forked() {
  const it = await makeDesk();
  it.manuscript.type("The lamp was lit.");
  const { desk } = it;
  const { node, at } = desk.settle();
  const branch = (text) => {
    const id = desk.story.addModelNode({ parent: node, keep: at, text, run: "r", slot: 0 });
    desk.story.end(id, { reason: "limit" });
    return id;
  };
  return { ...it, one: branch(" She slept."), other: branch(" The gulls cried") };
}

test("the words of a node go on behind another one as a new branch, and the manuscript stays as it is", async () => {
  const { desk, manuscript, one, other } = await forked();
  const { story } = desk;
  const branch = graft(desk, one, other);
  assert.equal(story.text(branch), "The lamp was lit. The gulls cried She slept.");
  assert.deepEqual(
    story.pieces(branch).map(({ by }) => by),
    ["person", "model", "model"],
  );
  assert.equal(story.nodes.get(branch).of.node, one);
  assert.equal(desk.text, "The lamp was lit.");
  desk.undo();
  assert.equal(story.mark(branch).pruned, true);
  desk.redo();
  assert.equal(story.mark(branch).pruned ?? false, false);
  assert.equal(manuscript.text, "The lamp was lit.");
});

test("a person's own words stay hers behind what a model wrote", async () => {
  const { desk, other } = await forked();
  const { story } = desk;
  const typed = story.edit(
    { node: other, at: story.length(other) },
    story.length(other),
    story.length(other),
    "\n\nDora left.",
  );
  story.close(typed.node);
  const branch = graft(desk, typed.node, desk.head.node);
  assert.equal(story.text(branch), "The lamp was lit.\n\nDora left.");
  assert.deepEqual([...new Set(story.pieces(branch).map(({ by }) => by))], ["person"]);
});

test("words do not go behind themselves, nor what is not written yet, nor what has none", async () => {
  const { desk, one, other } = await forked();
  const { story } = desk;
  const open = story.addModelNode({ parent: one, keep: story.length(one), text: " And" });
  assert.throws(() => graft(desk, one, one), /behind themselves/);
  assert.throws(() => graft(desk, open, other), /still being written/);
  assert.throws(() => graft(desk, other, open), /still being written/);
  const cut = story.edit({ node: other, at: story.length(other) }, 3, 8, "");
  story.close(cut.node);
  const count = story.nodes.size;
  assert.throws(() => graft(desk, cut.node, one), /no words/);
  assert.equal(story.nodes.size, count);
});

for (let seed = 1; seed <= 30; seed += 1)
  test(`whatever is joined, every node's words end the new text and no other text changes (${seed})`, async () => {
    const random = new Random(seed);
    const { desk, one, other } = await forked();
    const { story } = desk;
    const nodes = [one, other];
    for (let step = 0; step < 12; step += 1) {
      const [from, onto] = [random.choice(nodes), random.choice([...nodes, desk.head.node])];
      if (random.chance(1, 3)) {
        const at = random.below(story.length(onto) + 1);
        const place = story.edit({ node: onto, at: story.length(onto) }, at, at, random.words());
        story.close(place.node);
        if (place.node !== onto) nodes.push(place.node);
        continue;
      }
      const { text } = story.nodes.get(from);
      if (from === onto || !text.trim()) continue;
      const before = new Map([...story.nodes.keys()].map((id) => [id, story.text(id)]));
      const branch = graft(desk, from, onto);
      assert.ok(story.text(branch).startsWith(before.get(onto)));
      assert.equal(story.text(branch).slice(before.get(onto).length).trim(), text.trim());
      for (const [id, was] of before) assert.equal(story.text(id), was);
      nodes.push(branch);
    }
  });
