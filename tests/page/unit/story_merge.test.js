import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { canonical, unionOf } from "../../../srb/page/story/merge.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

const CASES = JSON.parse(readFileSync(new URL("canonical.json", import.meta.url), "utf8"));
const EMPTY = { node: "", at: 0 };
const plain = (value) => JSON.parse(JSON.stringify(value));

/** All that a copy of a story knows, in an order that does not depend on how it learned of it. */
function stateOf(story) {
  const { nodes, runs, marks, head: _head, changed: _changed, ...meta } = plain(story);
  const sorted = (record) => Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
  const texts = Object.fromEntries([...story.nodes.keys()].map((id) => [id, story.text(id)]));
  const children = Object.fromEntries([...story.nodes.keys()].map((id) => [id, story.children(id)]));
  return {
    nodes: sorted(nodes),
    runs: sorted(runs),
    marks: sorted(marks),
    meta: sorted(meta),
    texts: sorted(texts),
    children: sorted(children),
  };
}

/** Let two tabs write in one story, each hearing of the other's changes now and then, and return all that was sent. */
function twoTabs(seed, steps = 60) {
  const random = new Random(seed);
  const tabs = [0, 1].map(
    (number) => new Walk(random, { story: new Story("shared", () => number + random.below(1000)) }),
  );
  const sent = [];
  const inboxes = [[], []];
  const send = (from) => {
    const wire = tabs[from].story.takeChanges();
    if (wire === null) return;
    sent.push(plain(wire));
    inboxes[1 - from].push(plain(wire));
  };
  for (let step = 0; step < steps; step += 1) {
    const which = random.below(2);
    tabs[which].step();
    if (random.chance(1, 3)) send(which);
    if (random.chance(1, 3)) for (const wire of inboxes[which].splice(0)) tabs[which].story.merge(wire);
    tabs[which].check();
  }
  for (const which of [0, 1]) send(which);
  for (const which of [0, 1]) for (const wire of inboxes[which].splice(0)) tabs[which].story.merge(wire);
  return { random, tabs, sent };
}

test("two tabs that hear of each other end with one story, and each keeps its own text", () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const { tabs } = twoTabs(seed);
    for (const tab of tabs) {
      tab.check();
      tab.checkAll(tabs[0].story);
      tab.checkAll(tabs[1].story);
    }
    assert.deepEqual(stateOf(tabs[0].story), stateOf(tabs[1].story));
  }
});

test("merging gives one result in every order and grouping, once or twice", () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const { random, tabs, sent } = twoTabs(seed);
    const expected = stateOf(tabs[0].story);
    for (let time = 0; time < 4; time += 1) {
      const copy = new Story("shared");
      for (const wire of [...random.shuffled(sent), ...random.shuffled(sent).slice(0, 5)]) copy.merge(wire);
      assert.deepEqual(stateOf(copy), expected);
      const grouped = new Story("shared");
      let group = {};
      for (const wire of random.shuffled(sent)) {
        group = unionOf(group, wire);
        if (random.chance(1, 4)) {
          grouped.merge(group);
          group = {};
        }
      }
      grouped.merge(group);
      assert.deepEqual(stateOf(grouped), expected);
    }
  }
});

test("the union of wires does not depend on their order", () => {
  for (let seed = 1; seed <= 10; seed += 1) {
    const { random, sent } = twoTabs(seed);
    const union = (wires) => {
      const copy = new Story("shared");
      copy.merge(wires.reduce(unionOf, {}));
      return stateOf(copy);
    };
    assert.deepEqual(union(random.shuffled(sent)), union(sent));
  }
});

test("a merge tells which nodes, marks and keys are other ones now, and nothing the second time", () => {
  const here = new Story("s");
  const there = new Story("s");
  const head = there.edit(EMPTY, 0, 0, "Once");
  there.setMark(head.node, "star", true);
  there.setMeta("title", "Title");
  const wire = plain(there.takeChanges());
  const changed = here.merge(wire);
  assert.deepEqual(changed, { nodes: new Set([head.node]), marks: new Set([head.node]), meta: new Set(["title"]) });
  assert.deepEqual(here.merge(wire), { nodes: new Set(), marks: new Set(), meta: new Set() });
  assert.equal(here.takeChanges(), null);
});

test("a node waits for its parent, and for as much of its parent as it keeps", () => {
  const there = new Story("s");
  const branch = there.addModelNode({ parent: "", keep: 0 });
  there.grow(branch, "Once upon");
  const early = plain(there.takeChanges());
  there.grow(branch, "Once upon a time");
  const child = there.edit({ node: branch, at: 16 }, 16, 16, " there");
  const { nodes } = plain(there.takeChanges());
  const here = new Story("s");
  assert.equal(here.merge({ nodes: { [child.node]: nodes[child.node] } }).nodes.size, 0);
  assert.deepEqual(here.merge(early).nodes, new Set([branch]));
  assert.deepEqual(here.merge({ nodes: { [branch]: nodes[branch] } }).nodes, new Set([branch, child.node]));
  assert.equal(here.text(child.node), "Once upon a time there");
});

test("an open node of another tab is copied, and what that tab still writes in it changes no text here", () => {
  const there = new Story("s");
  const here = new Story("s");
  const head = there.edit(EMPTY, 0, 0, "Once upon a tim");
  here.merge(plain(there.takeChanges()));
  const mine = here.edit(head, 15, 15, "e here");
  there.edit(head, 4, 15, "");
  here.merge(plain(there.takeChanges()));
  assert.equal(here.text(mine.node), "Once upon a time here");
  assert.equal(here.text(head.node), "Once");
  there.merge(plain(here.takeChanges()));
  assert.equal(there.text(mine.node), "Once upon a time here");
});

test("closed is final: an older version that comes late does not open a node again", () => {
  const there = new Story("s");
  const here = new Story("s");
  const head = there.edit(EMPTY, 0, 0, "Once upon");
  const long = plain(there.takeChanges());
  there.edit(head, 4, 9, "");
  there.close(head.node);
  here.merge(plain(there.takeChanges()));
  here.merge(long);
  assert.equal(here.text(head.node), "Once");
  assert.equal(here.nodes.get(head.node).open, undefined);
});

test("of a branch that two tabs followed, the longer text stays, and so does all that builds on it", () => {
  const there = new Story("s");
  const here = new Story("s");
  const branch = there.addModelNode({ parent: "", keep: 0 });
  here.merge(plain(there.takeChanges()));
  here.grow(branch, "Once upon");
  here.end(branch, { reason: "lost" });
  const mine = here.edit({ node: branch, at: 9 }, 0, 4, "Twice");
  there.grow(branch, "Once upon a time");
  there.end(branch, { reason: "cancelled" });
  const child = there.edit({ node: branch, at: 16 }, 16, 16, "!");
  const [fromThere, fromHere] = [plain(there.takeChanges()), plain(here.takeChanges())];
  here.merge(fromThere);
  there.merge(fromHere);
  for (const story of [here, there]) {
    assert.equal(story.text(branch), "Once upon a time");
    assert.equal(story.text(child.node), "Once upon a time!");
    assert.equal(story.text(mine.node), "Twice upon");
    assert.deepEqual(story.nodes.get(branch).end, { reason: "cancelled" });
  }
});

test("an object of all settings, as a server imports it, is read as one value each", () => {
  const story = new Story("s");
  story.merge({ meta: { "settings.n": { value: 4, changed: 9 }, settings: { value: { n: 8, seed: 1 }, changed: 5 } } });
  assert.equal(story.meta("settings.n"), 4);
  assert.equal(story.meta("settings.seed"), 1);
  assert.equal(story.meta("settings"), undefined);
});

test("the last writer of a key wins, and a write here is later than all that is known here", () => {
  const here = new Story("s", () => 100);
  here.merge({ meta: { title: { value: "ahead", changed: 5000 } } });
  here.setMeta("title", "mine");
  const wire = plain(here.takeChanges());
  assert.ok(wire.meta.title.changed > 5000);
  here.merge({ meta: { title: { value: "late", changed: 4000 } } });
  assert.equal(here.meta("title"), "mine");
});

test("a file says also what was taken away, and a copy that still has it loses it", () => {
  const here = new Story("s", () => 100);
  const head = here.edit(EMPTY, 0, 0, "Once");
  here.setMark(head.node, "star", true);
  here.setMeta("memory", "rain");
  const copy = new Story("s");
  copy.merge(plain(here.takeChanges()));
  here.setMark(head.node, "star", null);
  here.setMeta("memory", null);
  copy.merge(storyOf(JSON.stringify(here)).wire());
  assert.deepEqual(copy.mark(head.node), {});
  assert.equal(copy.meta("memory"), null);
});

test("what is malformed in a wire is left out, and the rest is taken", () => {
  const story = new Story("s");
  const wire =
    JSON.parse(`{"nodes": {"__proto__": {"text": "x", "by": "person", "made": 1}, "a": {"text": 7, "by": "person"},
    "b": {"text": "\\ud800", "by": "person"}, "good": {"text": "x", "by": "person", "made": 1}, "c": null},
    "marks": {"__proto__": {"star": {"value": true, "changed": 1}}, "good": {"__proto__": {"value": 1, "changed": 1}, "star": {"value": true, "changed": 1}, "name": 5}},
    "meta": {"title": "no stamp"}, "runs": {"r": 3}}`);
  assert.deepEqual(story.merge(wire), { nodes: new Set(["good"]), marks: new Set(["good"]), meta: new Set() });
  for (const section of ["nodes", "meta", "marks", "runs"]) story.merge({ [section]: [1, "two"] });
  story.merge({ nodes: null, marks: "no" });
  assert.deepEqual([...story.nodes.keys()], ["good"]);
  assert.deepEqual(story.mark("good"), { star: true });
  assert.equal({}.star, undefined);
});

test("versions that contradict each other leave a tree in which every node stands on its parent", () => {
  const story = new Story("s");
  const by = "person";
  story.merge({
    nodes: {
      a: { text: "long text", by, made: 1, open: true, changed: 1 },
      b: { parent: "a", keep: 9, text: "!", by, made: 2 },
    },
  });
  assert.equal(story.text("b"), "long text!");
  story.merge({ nodes: { a: { text: "long", by, made: 1, open: true, changed: 2 } } });
  assert.deepEqual([...story.nodes.keys()], ["a"]);
  story.merge({ nodes: { a: { text: "long text again", by, made: 1, open: true, changed: 3 } } });
  assert.equal(story.text("b"), "long text!");
  story.merge({ nodes: { a: { parent: "b", keep: 0, text: "z".repeat(30), by, made: 1 } } });
  assert.equal(story.nodes.size, 0);
});

for (const { name, json, canonical: expected } of CASES) {
  test(`the page writes the server's canonical form: ${name}`, () =>
    assert.equal(canonical(JSON.parse(json)), expected));
}

test("a value that is not there has no canonical form, and none in an object", () => {
  assert.equal(canonical(undefined), "");
  assert.equal(canonical({ a: undefined, b: [undefined] }), '{"b":[null]}');
});
