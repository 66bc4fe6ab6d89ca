import assert from "node:assert/strict";
import { test } from "node:test";
import { setApart } from "../../../srb/page/desk/apart.js";
import { MemoryShelf } from "../../../srb/page/keep/shelf.js";
import { Keeper } from "../../../srb/page/keep.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { FakeBrowser, FakeServer } from "./fake_server.js";

/** A keeper whose server has a story of a person's words and a branch after them. */
async function kept(context, trouble = "") {
  const server = new FakeServer();
  const { storage } = new FakeBrowser();
  const shelf = Object.assign(new MemoryShelf(), { lasts: true });
  const keeper = new Keeper({ api: server, shelf, channel: null, storage, isHidden: () => false });
  context.after(() => keeper.close());
  server.trouble = trouble;
  if (trouble) await keeper.openLast();
  const story = Story.create("The lighthouse");
  const { node, at } = story.edit(story.head, 0, 0, "Once");
  const branch = story.addModelNode({ parent: node, keep: at, text: " upon" });
  story.end(branch, { reason: "limit" });
  keeper.open(story);
  keeper.changed();
  await keeper.flush();
  const file = JSON.parse(JSON.stringify(story));
  keeper.open(Story.create());
  return { server, keeper, file, node, branch };
}

const CHANGES = {
  "a person's word": (file, { node }) => Object.assign(file.nodes[node], { text: "Only" }),
  "a branch's word": (file, { branch }) => Object.assign(file.nodes[branch], { text: " more" }),
  "an author": (file, { branch }) => Object.assign(file.nodes[branch], { by: "import" }),
  "a place": (file, { branch }) => Object.assign(file.nodes[branch], { keep: 3, text: "e upon" }),
};

for (const trouble of ["", "off"])
  for (const [what, change] of Object.entries(CHANGES))
    test(`a file in which ${what} was changed becomes a story of its own${trouble && ", also in the browser"}`, async (context) => {
      const it = await kept(context, trouble);
      change(it.file, it);
      const story = storyOf(it.file);
      assert.equal(await setApart(story, it.keeper), true);
      assert.notEqual(story.id, it.file.id);
      it.keeper.open(story);
      await it.keeper.flush();
      assert.equal(it.keeper.state, trouble ? "browser" : "saved");
      const first = await it.keeper.load(it.file.id);
      assert.equal(first.text(it.branch), "Once upon");
      const second = await it.keeper.load(story.id);
      assert.deepEqual(second.nodes.get(it.branch), story.nodes.get(it.branch));
    });

test("a file that has the same texts, fewer or more is merged into the story of its id", async (context) => {
  const it = await kept(context);
  const { file, keeper, branch } = it;
  for (const change of [
    () => {},
    () => Object.assign(file.nodes[branch], { text: " upon a time" }),
    () => Object.assign(file.nodes, { other: { parent: branch, keep: 3, text: "!", by: "person", made: 1 } }),
    () => delete file.nodes.other,
  ]) {
    change();
    const story = storyOf(file);
    assert.equal(await setApart(story, keeper), false);
    assert.equal(story.id, file.id);
  }
});

test("a story that is nowhere, or a server that is away, leaves a file its id", async (context) => {
  const it = await kept(context);
  const story = storyOf({ ...it.file, id: "elsewhere" });
  assert.equal(await setApart(story, it.keeper), false);
  it.server.trouble = "down";
  it.file.nodes[it.node].text = "Only";
  assert.equal(await setApart(storyOf(it.file), it.keeper), false);
  assert.deepEqual(
    it.server.calls.filter(({ path }) => path.includes("elsewhere")),
    [],
  );
});
