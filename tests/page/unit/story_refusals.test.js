import assert from "node:assert/strict";
import { test } from "node:test";
import { StoryError, storyOf } from "../../../srb/page/story/read.js";

const GOOD = {
  format: "srb-story",
  version: 1,
  id: "7f3c",
  title: "The lighthouse",
  head: { node: "n5", at: 22 },
  changed: 1795300000123,
  memory: "",
  note: { text: "", depth: 3 },
  settings: { n: 8, stop_at: "sentence" },
  nodes: {
    n1: { text: "Once upon a time,", by: "person", made: 1795300000000 },
    n2: {
      parent: "n1",
      keep: 17,
      text: " a light.",
      by: "model",
      made: 1795300000001,
      run: "r1",
      index: 0,
      end: { reason: "word", word: "." },
      logprob: -1.83,
    },
    n4: { parent: "n2", keep: 25, text: " who", by: "person", made: 1795300000002 },
    n5: { parent: "n4", keep: 5, text: "in", tail: 11, by: "person", made: 1795300000003, colour: "mine" },
  },
  runs: {
    r1: { node: "n1", at: 17, made: 1795300000050, model: "storyteller", id: "77de", seeds: [7, 8], request: { n: 2 } },
  },
  marks: { n2: { star: true, name: "", changed: 1795300000900 } },
  workshop: { room: 4 },
};

/** A copy of the good story with something else in it. */
function storyWith(change) {
  const copy = structuredClone(GOOD);
  change(copy);
  return JSON.stringify(copy);
}

test("a story of the form is read, and unknown keys are kept", () => {
  const story = storyOf(JSON.stringify(GOOD));
  assert.equal(story.text("n5"), "Once in time, a light who");
  assert.equal(story.meta("title"), "The lighthouse");
  assert.equal(story.meta("settings.n"), 8);
  const again = JSON.parse(JSON.stringify(story));
  assert.equal(again.nodes.n5.colour, "mine");
  assert.deepEqual(again.workshop, { room: 4 });
  assert.deepEqual(again.runs.r1.seeds, [7, 8]);
  assert.equal(again.runs.r1.request_id, "77de");
  assert.deepEqual(again.marks, GOOD.marks);
  assert.deepEqual(again.changes.marks, { n2: { star: 1795300000900, name: 1795300000900 } });
  assert.deepEqual(again.settings, GOOD.settings);
  assert.deepEqual(again.head, { node: "n5", at: 22 });
  assert.equal(again.title, "The lighthouse");
});

test("an object is read like its text, and is not changed", () => {
  const before = structuredClone(GOOD);
  const story = storyOf(GOOD);
  story.edit({ node: "n1", at: 17 }, 17, 17, "x");
  story.setMark("n2", "star", false);
  assert.deepEqual(GOOD, before);
});

const REFUSALS = [
  ["nothing", "", /not JSON/],
  ["broken JSON", '{"format": "srb-story"', /not JSON/],
  ["a list", "[]", /not a story/],
  ["null", "null", /not a story/],
  ["another format", '{"format": "loom"}', /not a story/],
  ["a later version", storyWith((s) => (s.version = 2)), /version 2/],
  ["no id", storyWith((s) => delete s.id), /no proper id/],
  ["an id with a path in it", storyWith((s) => (s.id = "../../x")), /no proper id/],
  ["no nodes", storyWith((s) => delete s.nodes), /no nodes/],
  ["nodes in a list", storyWith((s) => (s.nodes = [])), /no nodes/],
  ["a node that is a text", storyWith((s) => (s.nodes.n2 = "text")), /n2/],
  ["a text that is a number", storyWith((s) => (s.nodes.n2.text = 5)), /n2 has no text/],
  ["an author that is nobody", storyWith((s) => (s.nodes.n2.by = "ghost")), /author/],
  ["an author named constructor", storyWith((s) => (s.nodes.n2.by = "constructor")), /author/],
  ["a parent that is a number", storyWith((s) => (s.nodes.n2.parent = 1)), /n2 has no proper parent/],
  ["a missing parent", storyWith((s) => delete s.nodes.n1), /n1, which is not in the file/],
  ["a parent toString", storyWith((s) => (s.nodes.n2.parent = "toString")), /toString, which is not in the file/],
  ["a node that is its own parent", storyWith((s) => Object.assign(s.nodes.n1, { parent: "n1", keep: 0 })), /circle/],
  ["a circle of parents", storyWith((s) => Object.assign(s.nodes.n1, { parent: "n5", keep: 0 })), /circle/],
  ["a child without keep", storyWith((s) => delete s.nodes.n2.keep), /n2 does not say/],
  ["a negative keep", storyWith((s) => (s.nodes.n2.keep = -1)), /n2 does not say/],
  ["a keep that is no whole number", storyWith((s) => (s.nodes.n2.keep = 1.5)), /n2 does not say/],
  ["a keep in a text", storyWith((s) => (s.nodes.n2.keep = "17")), /n2 does not say/],
  ["a root with keep", storyWith((s) => (s.nodes.n1.keep = 0)), /n1 has no parent/],
  ["a keep beyond the parent", storyWith((s) => (s.nodes.n2.keep = 18)), /n2 keeps more/],
  ["a tail beyond the parent", storyWith((s) => (s.nodes.n5.tail = 30)), /n5 keeps more/],
  ["a tail before keep", storyWith((s) => (s.nodes.n5.tail = 4)), /tail/],
  ["a tail into a text that grows", storyWith((s) => (s.nodes.n4.open = true)), /n5 keeps more/],
  ["half a character", storyWith((s) => (s.nodes.n2.text = "\ud83e")), /half of a character/],
  ["half a character in a title", storyWith((s) => (s.title = "\udd8a")), /half of a character/],
  [
    "a keep inside a character",
    storyWith((s) => (s.nodes.n1.text = "Once upon a time\ud83e\udd8a")),
    /n2 cuts a character/,
  ],
  [
    "a tail inside a character",
    storyWith((s) => (s.nodes.n1.text = "Once upon \ud83e\udd8atime,")),
    /n5 cuts a character/,
  ],
  [
    "a key __proto__",
    '{"format": "srb-story", "version": 1, "id": "x", "nodes": {"__proto__": {"text": "", "by": "person"}}}',
    /__proto__/,
  ],
  [
    "a key __proto__ deep inside",
    '{"format": "srb-story", "version": 1, "id": "x", "nodes": {}, "extra": [{"a": {"__proto__": 1}}]}',
    /__proto__/,
  ],
  [
    "a value nested deep",
    `{"format": "srb-story", "version": 1, "id": "x", "nodes": {}, "extra": ${"[".repeat(200)}${"]".repeat(200)}}`,
    /levels deep/,
  ],
  ["a head elsewhere", storyWith((s) => (s.head.node = "n9")), /place that is not in the story/],
  ["a head beyond its text", storyWith((s) => (s.head.at = 99)), /place that is not in the story/],
  ["a run elsewhere", storyWith((s) => (s.runs.r1.node = "n9")), /Run r1/],
  ["a run with half a place", storyWith((s) => (s.runs.r1.at = "x")), /Run r1/],
  ["times that are texts", storyWith((s) => (s.changes = { meta: { title: "now" } })), /at no time/],
  ["times in a list", storyWith((s) => (s.changes = [])), /changes/],
  ["a title as long as a chapter", storyWith((s) => (s.title = "x".repeat(1001))), /title/],
  [
    "a node of more than a million characters",
    storyWith((s) => (s.nodes.n2.text = "x".repeat(1024 * 1024 + 1))),
    /n2 has/,
  ],
  ["runs in a list", storyWith((s) => (s.runs = [])), /objects/],
  ["marks of no node", storyWith((s) => (s.marks.n9 = { star: true })), /n9/],
  ["a name that is a list", storyWith((s) => (s.marks.n2.name = [])), /name of node n2/],
  ["a title that is a number", storyWith((s) => (s.title = 5)), /title/],
  ["a frame that is a number", storyWith((s) => (s.note = { text: "Sad.", frame: 5 })), /frame of the story's note/],
  ["an end without a reason", storyWith((s) => (s.nodes.n2.end = {})), /reason/],
  ["a time that is a text", storyWith((s) => (s.nodes.n2.made = "now")), /made/],
];

for (const [what, json, sentence] of REFUSALS) {
  test(`${what} is refused with a sentence that says so`, () => {
    assert.throws(
      () => storyOf(json),
      (error) => {
        assert.ok(error instanceof StoryError, String(error));
        assert.match(error.message, sentence);
        assert.match(error.message, /^[A-Z“].*\.$/s);
        return true;
      },
    );
  });
}

test("more than 256 MB are refused, as a text and as an object", () => {
  assert.throws(() => storyOf("x".repeat(256 * 2 ** 20 + 1)), /larger than 256 MB/);
  const text = "x".repeat(2 ** 20);
  const nodes = Object.fromEntries(Array.from({ length: 257 }, (_, n) => [`n${n}`, { text, by: "person" }]));
  assert.throws(() => storyOf({ format: "srb-story", version: 1, id: "x", nodes }), /larger than 256 MB/);
});

test("a story of more nodes than the server keeps is read, since a page keeps and exports them", () => {
  const nodes = Object.fromEntries(
    Array.from({ length: 100_001 }, (_, n) => [`n${n}`, { text: "", by: "person", made: n }]),
  );
  assert.equal(storyOf({ format: "srb-story", version: 1, id: "x", nodes }).nodes.size, 100_001);
});

test("a story made to keep the page busy is refused before it does", () => {
  const nodes = { n0: { text: "\u{1f98a}".repeat(10), by: "person", made: 1 } };
  for (let n = 1; n < 30_000; n += 1)
    nodes[`n${n}`] = { parent: `n${n - 1}`, keep: 2, text: "", tail: 2, by: "person", made: 1 };
  assert.throws(() => storyOf({ format: "srb-story", version: 1, id: "x", nodes }), /nested too deeply/);
});

test("no prototype is touched by any key", () => {
  const json = JSON.parse(
    storyWith((s) =>
      Object.assign(s.nodes, {
        constructor: { text: "x", by: "person", made: 1 },
        hasOwnProperty: { text: "y", by: "import", made: 2 },
      }),
    ),
  );
  const story = storyOf(json);
  assert.equal(story.text("constructor"), "x");
  assert.equal(JSON.parse(JSON.stringify(story)).nodes.hasOwnProperty.text, "y");
  assert.equal({}.text, undefined);
});

test("media that are no media are refused in a sentence", () => {
  for (const media of [{ a: null }, { a: 1 }, { a: { data: 1 } }, [], null])
    assert.throws(() => storyOf(storyWith((story) => Object.assign(story, { media }))), StoryError);
});
