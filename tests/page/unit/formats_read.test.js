import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { bytesOf, encoded, jsonOf, manuscript, noteSegments, pathTexts, textsOf } from "./formats_oracle.js";

/** @param {string} name @param {string} [as] */
async function readFixture(name, as = name) {
  const found = await read(as, bytesOf(name));
  assert.ok(!("error" in found), found.error);
  return { ...found, json: found.stories.map((story) => story.toJSON()) };
}

/** The entries of a story's lorebook. @param {any} json */
const loreOf = (json) =>
  Object.entries(json)
    .filter(([key]) => key.startsWith("lore."))
    .map(([, value]) => value);

/** @param {any} json */
const sorted = (json) => [...textsOf(json).values()].sort();

/** @param {any} json @param {string} text */
const idWith = (json, text) =>
  [...textsOf(json)].find(([, each]) => each === text)?.[0] ?? assert.fail(`no node's text is ${text}`);

test("a note of Obsidian Loom has the same nodes, texts, roots, stars and place", async () => {
  const { format, json, remarks } = await readFixture("obsidian_loom_note.json");
  const note = jsonOf("obsidian_loom_note.json");
  const [story] = json;
  assert.equal(format, "Obsidian Loom");
  assert.deepEqual(remarks, []);
  assert.equal(story.title, "obsidian_loom_note");
  assert.deepEqual(sorted(story), pathTexts(noteSegments(note)));
  assert.equal(Object.values(story.nodes).filter((node) => node.parent === undefined).length, 2);
  const starred = Object.values(note.nodes).filter((node) => node.bookmarked).length;
  assert.equal(Object.values(story.marks).filter((mark) => mark.star).length, starred);
  assert.equal(
    Object.values(story.marks).filter((mark) => mark.seen).length,
    Object.values(note.nodes).filter((node) => !node.unread).length,
  );
  const path = [];
  for (let node = note.nodes[note.current]; node; node = note.nodes[node.parentId]) path.unshift(node.text);
  assert.equal(manuscript(story), path.join(""));
});

test("siblings keep the order of the file", async () => {
  const { stories } = await readFixture("obsidian_loom_note.json");
  const note = jsonOf("obsidian_loom_note.json");
  const [story] = stories;
  /** @param {string | null} parent */
  const inFile = (parent) => Object.entries(note.nodes).filter(([, node]) => node.parentId === parent);
  /** @type {[string[], string | null][]} */
  const waiting = [[story.roots(), null]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [ids, parent] = next;
    const expected = inFile(parent);
    assert.deepEqual(
      ids.map((id) => story.nodes.get(id)?.text),
      expected.map(([, node]) => node.text),
    );
    for (const [index, [key]] of expected.entries()) waiting.push([story.children(ids[index]), key]);
  }
});

test("a data.json of Obsidian Loom gives a story for each note that has nodes", async () => {
  const { json, remarks } = await readFixture("obsidian_loom_data.json", "data.json");
  const { state } = jsonOf("obsidian_loom_data.json");
  assert.deepEqual(
    json.map(({ title }) => title),
    ["Skarholm", "Zwei Anfänge", "früh"],
  );
  for (const [index, path] of ["Stories/Skarholm.md", "Stories/Zwei Anfänge.md", "old/früh.md"].entries()) {
    assert.deepEqual(sorted(json[index]), pathTexts(noteSegments(state[path])));
  }
  assert.deepEqual(remarks, ["2 notes without nodes were left out."]);
  assert.deepEqual(new Set(Object.values(json[2].nodes).map(({ by }) => by)), new Set(["import", "model"]));
  assert.ok(!JSON.stringify(json).includes("sk-not-a-key"));
});

test("a tree of socketteer's loom has the same nodes and texts; chapters are names", async () => {
  const { json, remarks } = await readFixture("socketteer_loom.json");
  const file = jsonOf("socketteer_loom.json");
  const nested = flattened(file.root);
  const [story] = json;
  assert.deepEqual(sorted(story), pathTexts(nested.map(({ key, parent, node }) => [key, parent, node.text])));
  const names = nested.filter(({ node }) => node.chapter_id).map(({ node }) => file.chapters[node.chapter_id].title);
  assert.deepEqual(
    Object.values(story.marks)
      .map((mark) => mark.name)
      .filter(Boolean)
      .sort(),
    names.sort(),
  );
  const isStarred = (/** @type {any} */ { node }) => node.bookmark || node.tags?.includes("bookmark");
  assert.equal(Object.values(story.marks).filter((mark) => mark.star).length, nested.filter(isStarred).length);
  assert.equal(
    Object.values(story.nodes).filter(({ by }) => by === "model").length,
    nested.filter(({ node }) => node.meta?.source === "AI").length,
  );
  assert.equal(story.memory, "A ghost story without ghosts.");
  assert.deepEqual(remarks, ["Memories of 1 node were left out."]);
  const path = [];
  for (let at = nested.find(({ node }) => node.id === file.selected_node_id); at; at = nested[Number(at.parent)]) {
    path.unshift(at.node.text);
    if (at.parent === null) break;
  }
  assert.equal(manuscript(story), path.join(""));
});

test("socketteer's simple form reads as the same tree", async () => {
  const [simple] = (await readFixture("socketteer_simple.json")).json;
  const [whole] = (await readFixture("socketteer_loom.json")).json;
  assert.deepEqual(sorted(simple), sorted(whole));
  assert.ok(manuscript(simple).startsWith("The lighthouse at Skarholm"), "the head is at the end of the first path");
});

test("a mikupad session keeps its text and who wrote each part", async () => {
  const { json, remarks } = await readFixture("mikupad_session.json");
  const file = jsonOf("mikupad_session.json");
  const chunks = JSON.parse(file.prompt);
  const [story] = json;
  assert.equal(manuscript(story), chunks.map((/** @type {any} */ chunk) => chunk.content).join(""));
  const order = Object.values(story.nodes).sort((a, b) => a.made - b.made);
  /** @param {string} by */
  const written = (by) =>
    order
      .filter((node) => node.by === by)
      .map(({ text }) => text)
      .join("");
  const typed = (/** @type {any} */ chunk) => chunk.type === "user";
  const contents = (/** @type {any[]} */ list) => list.map(({ content }) => content).join("");
  assert.equal(written("person"), contents(chunks.filter(typed)));
  assert.equal(written("model"), contents(chunks.filter((/** @type {any} */ chunk) => !typed(chunk))));
  assert.equal(order.length, 6, "one node for each stretch of one author");
  assert.equal(story.title, "Skarholm 🌕");
  assert.equal(story.memory, "Ida is 34. The old man may be dead.\n***");
  assert.deepEqual(story.note, { text: "quiet, exact", frame: "[Style: <|>]", depth: 4 });
  assert.deepEqual(
    loreOf(story).map(({ name, keys, text }) => ({ name, keys, text })),
    [{ name: "Skarholm", keys: ["Skarholm"], text: "An island." }],
  );
  assert.deepEqual(remarks, []);
  assert.ok(!JSON.stringify(story).includes("sk-not-a-key"));
});

test("a save of KoboldAI Lite has its story, its other branches and its rivals", async () => {
  const { json, remarks } = await readFixture("kobold_lite.json");
  const file = jsonOf("kobold_lite.json");
  const clean = (/** @type {string} */ text) => text.replace("[<|h|a81f03|h|>]", "");
  const main = [file.prompt, ...file.actions.map(clean)];
  const lists = [main, ...file.altbranches.filter(Boolean).map((/** @type {string[]} */ list) => list.map(clean))];
  for (const [index, meta] of Object.entries(file.actions_metadata)) {
    for (const { Text } of /** @type {any} */ (meta)["Alternative Text"])
      lists.push([...main.slice(0, Number(index) + 1), Text]);
  }
  const expected = new Set(
    lists.flatMap((list) => list.map((_text, index) => JSON.stringify(list.slice(0, index + 1)))),
  );
  const [story] = json;
  assert.deepEqual(sorted(story), [...expected].map((prefix) => JSON.parse(prefix).join("")).sort());
  assert.equal(manuscript(story), main.join(""));
  assert.equal(story.memory, "Skarholm is an island.");
  assert.deepEqual(story.note, { text: "slow, cold", frame: "[Author's note: <|>]", depth: 3 });
  assert.deepEqual(
    loreOf(story).map(({ keys, text, always }) => ({ keys, text, always })),
    [{ keys: ["Ida"], text: "A rower.", always: true }],
  );
  assert.deepEqual(remarks, ["Pictures (1) were left out.", "The personal notes were left out."]);
});

test("a save of the KoboldAI client's new interface has all options", async () => {
  const [story] = (await readFixture("kobold_client_v2.json")).json;
  const file = jsonOf("kobold_client_v2.json");
  const actions = Object.values(file.actions.actions);
  assert.equal(manuscript(story), file.prompt + actions.map((action) => action["Selected Text"]).join(""));
  assert.equal(
    Object.keys(story.nodes).length,
    1 + actions.reduce((sum, action) => sum + 1 + action.Options.length, 0),
  );
  assert.equal(story.title, "Skarholm (client)");
  assert.deepEqual(story.note, { text: "salt", frame: "[A/N: <|>]", depth: 2 });
});

test("instructions in a save of KoboldAI Lite are a person's, the answers the model's", async () => {
  const file = {
    prompt: "\n{{[INPUT]}}\nA ghost story.\n{{[OUTPUT]}}\n",
    actions: ["It was dark.", "\n{{[INPUT]}}\nMore.\n{{[OUTPUT]}}\n", "It grew darker."],
  };
  const found = await read("save.json", encoded(file));
  assert.ok(!("error" in found));
  const nodes = Object.values(/** @type {any} */ (found.stories[0].toJSON()).nodes).sort((a, b) => a.made - b.made);
  assert.deepEqual(
    nodes.map(({ by }) => by),
    ["person", "model", "person", "model"],
  );
});

test("a shared text of KoboldAI Lite reads as its chunks", async () => {
  const found = await read(
    "share.json",
    encoded({ ga: ["One.", " Two."], cm: "memory", ca: "note", ct: "[<|>]", cwi: [] }),
  );
  assert.ok(!("error" in found));
  const story = /** @type {any} */ (found.stories[0].toJSON());
  assert.equal(manuscript(story), "One. Two.");
  assert.deepEqual([story.memory, story.note.text, story.note.frame], ["memory", "note", "[<|>]"]);
});

test("a file of Exoloom has the same nodes, authors, bookmarks and pruned nodes", async () => {
  const [story] = (await readFixture("exoloom.json")).json;
  const { tree } = jsonOf("exoloom.json");
  const entries = Object.entries(tree.nodes);
  assert.deepEqual(
    sorted(story),
    pathTexts(entries.map(([id, node]) => [id, node.parentId === null ? null : String(node.parentId), node.content])),
  );
  assert.equal(story.title, "Skarholm – Exoloom");
  const byUser = entries.filter(([, node]) => node.authorType === "USER").length;
  assert.equal(Object.values(story.nodes).filter(({ by }) => by === "person").length, byUser);
  assert.equal(Object.values(story.marks).filter((mark) => mark.star).length, 2);
  assert.equal(Object.values(story.marks).filter((mark) => mark.pruned).length, 1);
  const fourth = pathTexts(entries.map(([id, node]) => [id, String(node.parentId), node.content]));
  assert.ok(fourth.length > 40);
});

test("children of a node of Exoloom stand as the node lists them", async () => {
  const file = {
    loomType: "Exoloom",
    schemaVersion: 1,
    tree: { title: "", rootNodeId: 1, nodes: {} },
    lens: { bookmarks: [], prunedNodes: [] },
  };
  const node = (
    /** @type {string} */ content,
    /** @type {number | null} */ parentId,
    /** @type {number[]} */ childrenIds,
  ) => ({ content, authorType: "LLM", parentId, childrenIds });
  Object.assign(file.tree.nodes, { 1: node("a", null, [3, 2]), 2: node("b", 1, []), 3: node("c", 1, []) });
  const found = await read("weave.json", encoded(file));
  assert.ok(!("error" in found));
  const [story] = found.stories;
  assert.deepEqual(
    story.children(story.roots()[0]).map((id) => story.nodes.get(id)?.text),
    ["c", "b"],
  );
});

test("text files read as one node of a person, whatever their encoding and line ends", async () => {
  const windows = await readFixture("windows.txt");
  assert.equal(windows.format, "text");
  const [story] = windows.json;
  const text = new TextDecoder().decode(bytesOf("windows.txt"));
  assert.ok(text.includes("\r\n"));
  assert.equal(manuscript(story), text.replaceAll("\r\n", "\n"));
  assert.deepEqual(
    Object.values(story.nodes).map(({ by }) => by),
    ["person"],
  );
  assert.equal(
    manuscript((await readFixture("old.txt")).json[0]),
    "Der Leuchtturm, dunkel seit elf Jahren. Grüße, café.\n",
  );
  const utf16 = new Uint8Array([
    0xff,
    0xfe,
    ...new Uint8Array(
      new Uint16Array(
        [..."Ida 🌕"]
          .join("")
          .split("")
          .map((each) => each.charCodeAt(0)),
      ).buffer,
    ),
  ]);
  const found = await read("ida.txt", utf16);
  assert.ok(!("error" in found));
  assert.equal(manuscript(found.stories[0].toJSON()), "Ida 🌕");
});

test("Markdown keeps every line but the first heading, which is the title", async () => {
  const { format, json } = await readFixture("draft.md");
  const text = new TextDecoder().decode(bytesOf("draft.md"));
  assert.equal(format, "Markdown");
  assert.equal(json[0].title, "The lamp of Skarholm");
  assert.equal(`# ${json[0].title}\n\n${manuscript(json[0])}`, text);
});

test("pasted text reads as JSON if it begins like it, else as text", async () => {
  const note = await read("", bytesOf("obsidian_loom_note.json"));
  assert.equal("format" in note && note.format, "Obsidian Loom");
  const text = await read("", encoded("Once upon a time,"));
  assert.equal("format" in text && text.format, "text");
  assert.equal(idWith("stories" in text ? text.stories[0].toJSON() : {}, "Once upon a time,").length > 0, true);
});

/** @param {any} root */
function flattened(root) {
  /** @type {{key: number, parent: number | null, node: any}[]} */
  const all = [{ key: 0, parent: null, node: root }];
  for (const { key, node } of all)
    for (const child of node.children) all.push({ key: all.length, parent: key, node: child });
  return all;
}
