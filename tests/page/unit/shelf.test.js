import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../../../srb/page/keep/outbox.js";
import { MemoryShelf } from "../../../srb/page/keep/shelf.js";
import { Story } from "../../../srb/page/story.js";
import { CONTRACT } from "../harness/shelf_contract.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

for (const [promise, check] of Object.entries(CONTRACT)) test(promise, () => check(new MemoryShelf()));

test("an outbox gives back what was put, and forgets what was sent unless it has changed since", async () => {
  for (let seed = 1; seed <= 10; seed += 1) {
    const random = new Random(seed);
    const walk = new Walk(random);
    const outbox = new Outbox(new MemoryShelf());
    const unsent = new Story(walk.story.id);
    let sent = null;
    for (let step = 0; step < 60; step += 1) {
      walk.step();
      const wire = walk.story.takeChanges();
      if (wire === null) continue;
      await outbox.put(walk.story.id, wire, step);
      sent ??= structuredClone(wire);
    }
    unsent.merge(await outbox.read(walk.story.id));
    walk.checkAll(unsent);
    await outbox.forget(walk.story.id, sent);
    const left = await outbox.read(walk.story.id);
    for (const [id, node] of Object.entries(sent.nodes)) {
      const { id: _id, ...now } = walk.story.nodes.get(id);
      assert.deepEqual(left.nodes[id], JSON.stringify(now) === JSON.stringify(node) ? undefined : now);
    }
    await outbox.forget(walk.story.id, walk.story.wire());
    assert.deepEqual(await outbox.list(), []);
  }
});

test("an older version that is put later does not replace a newer one", async () => {
  const outbox = new Outbox(new MemoryShelf());
  const by = "person";
  await outbox.put(
    "s",
    {
      nodes: { a: { text: "new", by, made: 1, open: true, changed: 5 } },
      meta: { title: { value: "new", changed: 5 } },
    },
    1,
  );
  await outbox.put(
    "s",
    {
      nodes: { a: { text: "older", by, made: 1, open: true, changed: 4 } },
      meta: { title: { value: "older", changed: 4 } },
    },
    2,
  );
  const { nodes, meta } = await outbox.read("s");
  assert.equal(nodes.a.text, "new");
  assert.equal(meta.title.value, "new");
});
