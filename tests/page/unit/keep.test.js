import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { postsOf } from "../../../srb/page/keep/posts.js";
import { MemoryShelf } from "../../../srb/page/keep/shelf.js";
import { Keeper } from "../../../srb/page/keep.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { FakeBrowser, FakeServer } from "./fake_server.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

const EMPTY = { node: "", at: 0 };

/** A shelf that says it lasts, as a browser's does. */
class LastingShelf extends MemoryShelf {
  lasts = true;
}

const keepers = [];

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_800_000_000_000 }));
afterEach(() => {
  for (const keeper of keepers.splice(0)) keeper.close();
  mock.timers.reset();
});

/** Let all that is ready happen. */
async function settle() {
  for (let turn = 0; turn < 8; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Let time pass, second by second. */
async function pass(seconds) {
  for (let second = 0; second < seconds; second += 1) {
    await settle();
    mock.timers.tick(1000);
  }
  await settle();
}

function newKeeper(server, { browser = new FakeBrowser(), shelf } = {}) {
  browser.shelf ??= new LastingShelf();
  const keeper = new Keeper({
    api: server,
    shelf: shelf ?? browser.shelf,
    channel: browser.channel(),
    storage: browser.storage,
    isHidden: () => false,
  });
  keepers.push(keeper);
  return keeper;
}

/** Write at the end of a story, as a desk does. */
function write(keeper, text, head = keeper.story.head) {
  const place = keeper.story.edit(head, head.at, head.at, text);
  keeper.story.head = place;
  keeper.changed();
  return place;
}

function textOf(wire) {
  const story = new Story("copy");
  story.merge(JSON.parse(JSON.stringify(wire)));
  return story.text(story.head.node, story.head.at);
}

test("words are saved a second after they were typed, and the state says so", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  const states = [];
  keeper.addEventListener("state", ({ detail }) => states.push(detail.state));
  keeper.open(Story.create());
  write(keeper, "Once upon");
  write(keeper, " a time");
  assert.equal(server.posts().length, 0);
  await pass(1);
  assert.equal(server.posts().length, 1);
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon a time");
  assert.deepEqual(states, ["saved", "saving", "saved"]);
  assert.equal(keeper.at, Date.now());
  assert.deepEqual(await keeper.outbox.read(keeper.story.id), null);
});

test("a story that was only begun is not saved", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  keeper.story.setMeta("settings.n", 8); // as it is without being set
  keeper.story.setMeta("memory", "");
  keeper.changed();
  await pass(2);
  await keeper.flush({ keepalive: true });
  assert.equal(server.posts().length, 0);
  assert.deepEqual(await keeper.outbox.list(), []);
  assert.equal(keeper.state, "saved");
  write(keeper, "Once");
  await pass(1);
  assert.equal(server.wire(keeper.story.id).meta["settings.n"].value, 8);
});

for (const [key, value] of [
  ["memory", "Mira keeps the light."],
  ["note", { text: "Slowly.", depth: 3 }],
  ["deck", { name: "rain", moves: { "": ["it rains"] } }],
  ["beat.b1", { text: "Tom leaves.", order: 1 }],
  ["settings.system", "You write."],
  ["settings.banned_strings", ["suddenly"]],
  ["settings.seldom_strings", ["gaze*"]],
  ["settings.n", 4],
]) {
  test(`${key} that is set before the first word is saved, and there after a reload`, async () => {
    const server = new FakeServer();
    const browser = new FakeBrowser();
    const first = newKeeper(server, { browser });
    first.open(Story.create());
    first.story.setMeta(key, value);
    first.changed();
    assert.equal(first.state, "saving");
    await pass(1);
    assert.equal(first.state, "saved");
    first.close();
    const second = newKeeper(server, { browser });
    assert.deepEqual((await second.openLast()).meta(key), value);
  });
}

test("a page that is loaded again while the first words of its story are on their way opens that story", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const older = newKeeper(server, { browser });
  older.open(Story.create("Older"));
  write(older, "one");
  await pass(2);
  older.close();
  const arrived = new Promise((resolve) => setTimeout(resolve, 2500));
  const slow = {
    base: server.base,
    get: (...call) => server.get(...call),
    send: (...call) => server.send(...call),
    post: (...call) => arrived.then(() => server.post(...call)),
  };
  const first = newKeeper(slow, { browser, shelf: new MemoryShelf() });
  first.open(Story.create());
  first.story.setMeta("deck", { name: "rain", moves: { "": ["it rains"] } });
  first.changed();
  first.flush({ keepalive: true });
  const opening = newKeeper(server, { browser }).openLast();
  await pass(5);
  assert.equal((await opening).id, first.story.id);
});

test("a page whose first words never arrived opens the newest story", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const older = newKeeper(server, { browser });
  older.open(Story.create("Older"));
  write(older, "one");
  await pass(2);
  older.lastOpen.remember("gone", true);
  const opening = newKeeper(server, { browser }).openLast();
  await pass(20);
  assert.equal((await opening).id, older.story.id);
});

test("settings with which a story was begun are no reason to save it, and are saved with its first word", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  const story = Story.create();
  story.setMeta("settings.theme", "dark");
  keeper.open(story);
  await pass(2);
  await keeper.flush({ keepalive: true });
  assert.equal(server.posts().length, 0);
  assert.deepEqual(await keeper.outbox.list(), []);
  write(keeper, "Once");
  await pass(1);
  assert.equal(server.wire(story.id).meta["settings.theme"].value, "dark");
});

test("a setting that is put back before the first word is saved too", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  for (const n of [4, 8]) {
    keeper.story.setMeta("settings.n", n);
    keeper.changed();
    await pass(1);
  }
  assert.equal(server.wire(keeper.story.id).meta["settings.n"].value, 8);
});

test("a story gets its title from its first words until it is given one, and its words are counted", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  write(keeper, "Once upon a time there lived a keeper of a light");
  await pass(1);
  assert.equal(keeper.story.meta("title"), "Once upon a time there lived");
  assert.equal(keeper.story.meta("words"), 11);
  keeper.story.head = keeper.story.edit(keeper.story.head, 0, 4, "Twice");
  keeper.changed();
  await pass(2);
  assert.equal(keeper.story.meta("title"), "Once upon a time there lived"); // counted every ten seconds at most
  await pass(10);
  assert.equal(keeper.story.meta("title"), "Twice upon a time there lived"); // and once more when nothing is written any more
  assert.equal(server.wire(keeper.story.id).meta.title.value, "Twice upon a time there lived");
  keeper.story.setMeta("title", "The lighthouse");
  await pass(20);
  write(keeper, " More.");
  await pass(1);
  assert.equal(keeper.story.meta("title"), "The lighthouse");
});

test("while the server is away words are kept in the browser, and sent when it is back", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  server.trouble = "down";
  write(keeper, "Once upon a time");
  await pass(2);
  assert.equal(keeper.state, "outbox");
  assert.match(keeper.message, /cannot be reached.*kept in this browser/);
  assert.equal(textOf(await keeper.outbox.read(keeper.story.id)), "Once upon a time");
  write(keeper, " there lived");
  await pass(40);
  const tries = server.posts().length;
  assert.ok(tries >= 5 && tries <= 8, `${tries} tries in 42 seconds`);
  server.trouble = "";
  await pass(30);
  assert.equal(keeper.state, "saved");
  assert.equal(keeper.message, "");
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon a time there lived");
  assert.equal(await keeper.outbox.read(keeper.story.id), null);
});

test("a server that is there again is tried at once when the page knows", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  server.trouble = "down";
  write(keeper, "Once");
  await pass(20);
  server.trouble = "";
  await keeper.wake();
  assert.equal(keeper.state, "saved");
});

test("a page that is closed while the server is away loses nothing: the next one sends it", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const first = newKeeper(server, { browser });
  first.open(Story.create());
  write(first, "Once");
  await pass(1);
  const { id } = first.story;
  server.trouble = "down";
  write(first, " upon a time");
  await pass(2);
  const other = Story.create("Another");
  first.open(other);
  write(first, "Words of another story");
  await pass(2);
  first.close();
  server.trouble = "";
  const second = newKeeper(server, { browser });
  const story = await second.openLast();
  second.open(story);
  await pass(2);
  assert.equal(story.id, other.id);
  assert.equal(textOf(server.wire(other.id)), "Words of another story");
  assert.equal(textOf(server.wire(id)), "Once upon a time");
  assert.deepEqual(await second.outbox.list(), []);
  const again = await second.load(id);
  assert.equal(again.text(again.head.node, again.head.at), "Once upon a time");
});

test("a post whose answer was lost is sent again and changes nothing", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  server.lostAnswers = 1;
  write(keeper, "Once upon a time");
  await pass(1);
  assert.equal(keeper.state, "outbox");
  const { seq } = server.stories.get(keeper.story.id);
  await pass(2);
  assert.equal(keeper.state, "saved");
  assert.equal(server.stories.get(keeper.story.id).seq, seq);
});

test("without stories in the server they are kept in the browser, which the state says", async () => {
  const server = new FakeServer();
  server.trouble = "off";
  const browser = new FakeBrowser();
  const first = newKeeper(server, { browser });
  assert.equal(await first.openLast(), null);
  first.open(Story.create());
  write(first, "Once upon a time");
  await pass(1);
  assert.equal(first.state, "browser");
  assert.match(first.message, /in this browser only/);
  assert.ok(first.at > 0);
  const posts = server.posts().length;
  write(first, ", there lived");
  await pass(5);
  assert.equal(server.posts().length, posts);
  first.close();
  const second = newKeeper(server, { browser });
  const story = await second.openLast();
  assert.equal(story.text(story.head.node, story.head.at), "Once upon a time, there lived");
  const { stories, where } = await second.list();
  assert.deepEqual(
    stories.map(({ title, isUnsaved }) => [title, isUnsaved]),
    [["Once upon a time", false]],
  );
  assert.match(where, /in this browser only/);
});

test("words are kept in the browser when it has written them, and not before", async () => {
  const server = new FakeServer();
  server.trouble = "off";
  const shelf = new LastingShelf();
  const change = shelf.change.bind(shelf);
  const writes = [];
  const keeper = newKeeper(server, { shelf });
  await keeper.openLast();
  keeper.open(Story.create());
  shelf.change = (...given) => new Promise((done) => writes.push(() => done(change(...given))));
  for (const words of ["Once upon a time", ", there lived"]) {
    write(keeper, words);
    await pass(2);
    assert.equal(keeper.state, "saving");
    writes.shift()();
    await settle();
    assert.equal(keeper.state, "browser");
  }
});

test("a server that begins to keep stories gets those that the browser kept", async () => {
  const server = new FakeServer();
  server.trouble = "off";
  const keeper = newKeeper(server);
  await keeper.openLast();
  keeper.open(Story.create());
  const { id } = keeper.story;
  write(keeper, "The first story");
  await pass(1);
  keeper.open(Story.create());
  write(keeper, "The second story");
  await pass(1);
  server.trouble = "";
  await keeper.wake();
  await pass(1);
  assert.equal(textOf(server.wire(id)), "The first story");
  assert.equal(textOf(server.wire(keeper.story.id)), "The second story");
  assert.equal(keeper.state, "saved");
});

for (const [trouble, state, sentence] of [
  ["read_only", "read_only", /may only be read/],
  ["full", "outbox", /disk is full/],
  ["damaged", "outbox", /damaged/],
  ["large", "failed", /70000000 bytes/],
]) {
  test(`a server that answers “${trouble}” is told of, and the words are kept`, async () => {
    const server = new FakeServer();
    server.trouble = trouble;
    const keeper = newKeeper(server);
    keeper.open(Story.create());
    write(keeper, "Once upon a time");
    await pass(2);
    assert.equal(keeper.state, state);
    assert.match(keeper.message, sentence);
    assert.match(keeper.message, /kept in this browser/);
    assert.equal(textOf(await keeper.outbox.read(keeper.story.id)), "Once upon a time");
    server.trouble = "";
    write(keeper, ".");
    await pass(35);
    assert.equal(keeper.state, "saved");
  });
}

test("a browser that keeps nothing is no trouble while the server saves, and a failure when it does not", async () => {
  const server = new FakeServer();
  const shelf = new LastingShelf();
  shelf.change = async () => {
    throw new Error("QuotaExceededError");
  };
  const keeper = newKeeper(server, { shelf });
  keeper.open(Story.create());
  write(keeper, "Once");
  await pass(1);
  assert.equal(keeper.state, "saved");
  server.trouble = "down";
  write(keeper, " upon");
  await pass(2);
  assert.equal(keeper.state, "failed");
  assert.match(keeper.message, /export the story/);
  server.trouble = "";
  await pass(2);
  assert.equal(keeper.state, "saved");
});

test("words are in the browser soon if the server is silent, and not at all if it saves at once", async () => {
  const server = new FakeServer();
  const shelf = new LastingShelf();
  const keeper = newKeeper(server, { shelf });
  keeper.open(Story.create());
  write(keeper, "Once");
  await pass(2);
  const change = mock.method(shelf, "change");
  write(keeper, " upon");
  await pass(2);
  assert.equal(keeper.state, "saved");
  assert.equal(change.mock.callCount(), 0);
  server.trouble = "silent";
  write(keeper, " a time");
  await pass(2);
  assert.equal(keeper.state, "saving");
  const story = new Story(keeper.story.id);
  story.merge(await keeper.outbox.read(story.id));
  assert.ok([...story.nodes.values()].some(({ text }) => text === "Once upon a time"));
});

test("two tabs of one browser hear of each other at once, and each keeps its own words", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const [one, two] = [newKeeper(server, { browser }), newKeeper(server, { browser })];
  one.open(Story.create());
  const base = write(one, "Once");
  one.story.close(base.node);
  await one.flush();
  two.open(await two.load(one.story.id));
  const heard = [];
  two.addEventListener("merged", ({ detail }) => heard.push(...detail.nodes));
  const mine = write(two, " from two", base);
  const theirs = write(one, " from one", base);
  await one.flush();
  assert.deepEqual(heard, [theirs.node]);
  await two.flush();
  await pass(4);
  for (const story of [one.story, two.story]) {
    assert.equal(story.text(mine.node), "Once from two");
    assert.equal(story.text(theirs.node), "Once from one");
  }
  assert.equal(Object.keys(server.wire(one.story.id).nodes).length, 3);
});

test("two machines merge by way of the server within five seconds", async () => {
  const server = new FakeServer();
  const [one, two] = [newKeeper(server), newKeeper(server)];
  one.open(Story.create());
  const base = write(one, "Once");
  one.story.close(base.node);
  await one.flush();
  two.open(await two.load(one.story.id));
  const mine = write(two, " from two", base);
  const theirs = write(one, " from one", base);
  await pass(5);
  for (const story of [one.story, two.story]) {
    assert.equal(story.text(mine.node), "Once from two");
    assert.equal(story.text(theirs.node), "Once from one");
  }
});

test("a page that nobody sees does not ask for news", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  write(keeper, "Once");
  await pass(2);
  keeper.isHidden = () => true;
  const calls = server.calls.length;
  await pass(20);
  assert.equal(server.calls.length, calls);
});

test("a page that closes sends a small save that outlives it, and leaves a large one in the outbox", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  write(keeper, "Once upon a time");
  keeper.flush({ keepalive: true });
  assert.equal(server.posts().filter(({ keepalive }) => keepalive).length, 1);
  await settle();
  server.trouble = "down";
  write(keeper, "word ".repeat(15_000));
  await keeper.flush({ keepalive: true });
  assert.equal(server.posts().filter(({ keepalive }) => keepalive).length, 1);
  assert.ok(JSON.stringify(await keeper.outbox.read(keeper.story.id)).length > 75_000);
});

test("a page that closes leaves no node open, and the next one goes on with the same words", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const first = newKeeper(server, { browser });
  first.open(Story.create());
  write(first, "Once upon a time");
  first.flush({ keepalive: true });
  await settle();
  first.close();
  const second = newKeeper(server, { browser });
  second.open(await second.openLast());
  write(second, ", there lived");
  await second.flush();
  const texts = Object.values(server.wire(second.story.id).nodes).map(({ text }) => text);
  assert.deepEqual(texts, ["Once upon a time", ", there lived"]);
});

test("a save carries what changed, not the story", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  write(keeper, "word ".repeat(100_000));
  await pass(20);
  write(keeper, "more");
  await pass(1);
  const bytes = JSON.stringify(server.posts().at(-1).body).length;
  assert.ok(bytes < 1000, `${bytes} bytes`);
});

test("a story is posted in parts of at most a megabyte, parents first, and a larger node by a file", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  const nodes = { root: { text: "x".repeat(1_040_000), by: "import", made: 1 } };
  for (let n = 0; n < 40; n += 1)
    nodes[`n${n}`] = { parent: n ? `n${n - 1}` : "root", keep: 5, text: "é".repeat(50_000), by: "import", made: 1 };
  keeper.open(
    storyOf({
      format: "srb-story",
      version: 1,
      id: "big",
      nodes: Object.fromEntries(Object.entries(nodes).reverse()),
    }),
  );
  await pass(2);
  assert.equal(keeper.state, "saved");
  assert.equal(Object.keys(server.wire("big").nodes).length, 41);
  for (const { path, body } of server.posts()) {
    if (path !== "v1/srb/stories") assert.ok(Buffer.byteLength(JSON.stringify(body)) <= 1024 * 1024);
  }
});

test("marks that are large together reach the server, and none is said to be saved before", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  const { node } = write(keeper, "Once");
  for (let n = 0; n < 6; n += 1) keeper.story.setMark(node, `note${n}`, "é".repeat(120_000));
  keeper.changed();
  await pass(2);
  assert.equal(keeper.state, "saved");
  const stored = server.wire(keeper.story.id).marks[node];
  assert.deepEqual(Object.keys(stored).sort(), ["note0", "note1", "note2", "note3", "note4", "note5"]);
});

for (const [what, set] of [
  ["a memory", (story) => story.setMeta("memory", "x".repeat(1_100_000))],
  ["a mark", (story) => story.setMark(story.head.node, "note", "x".repeat(1_100_000))],
  ["a run", (story) => story.addRun({ node: story.head.node, at: 1, made: 1, note: "x".repeat(1_100_000) })],
]) {
  test(`${what} that is too large for the server is never said to be saved`, async () => {
    const server = new FakeServer();
    const keeper = newKeeper(server);
    keeper.open(Story.create());
    write(keeper, "Once");
    set(keeper.story);
    keeper.changed();
    await pass(2);
    assert.equal(keeper.state, "failed");
    assert.match(keeper.message, /larger than 1048576 bytes/);
    assert.notEqual(await keeper.outbox.read(keeper.story.id), null);
  });
}

test("posts leave nothing out", () => {
  for (let seed = 1; seed <= 10; seed += 1) {
    const walk = new Walk(new Random(seed));
    for (let step = 0; step < 60; step += 1) walk.step();
    const wire = walk.story.wire();
    const posts = postsOf(wire, 700);
    assert.ok(posts.length > 3);
    const [whole, parts] = [new Story("x"), new Story("x")];
    whole.merge(wire);
    for (const post of posts) {
      const before = parts.nodes.size;
      parts.merge(JSON.parse(JSON.stringify(post)));
      assert.equal(parts.nodes.size, before + Object.keys(post.nodes).length, "parents come first");
    }
    assert.deepEqual(JSON.parse(JSON.stringify(parts)), JSON.parse(JSON.stringify(whole)));
  }
});

test("a node whose parent another tab has not saved yet is sent again with its parent", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  const there = new Story(keeper.story.id);
  const base = there.edit(EMPTY, 0, 0, "Once");
  there.close(base.node);
  keeper.story.merge(JSON.parse(JSON.stringify(there.wire())));
  write(keeper, " upon", base);
  await pass(2);
  assert.equal(keeper.state, "saved");
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon");
});

test("a node that the server refuses for good is told of, and stays in the browser", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  const branch = keeper.story.addModelNode({ parent: "", keep: 0 });
  await keeper.flush();
  await server.post(`v1/srb/stories/${keeper.story.id}`, {
    nodes: { [branch]: { text: "Another", by: "model", made: 1 } },
  });
  keeper.story.grow(branch, "Once upon a time");
  keeper.story.end(branch, { reason: "eos" });
  keeper.changed();
  await pass(3);
  assert.equal(keeper.state, "failed");
  assert.match(keeper.message, /A piece of the text could not be saved.*another text of it is stored/);
  assert.deepEqual(Object.keys((await keeper.outbox.read(keeper.story.id)).nodes), [branch]);
  assert.equal(keeper.story.text(branch), "Once upon a time");
});

test("a story that is nearly full is told of with each answer, and when it is opened", async () => {
  const server = new FakeServer();
  const told = [];
  const open = (keeper, story) => {
    keeper.addEventListener("crowded", ({ detail }) => told.push(detail.used));
    keeper.open(story);
  };
  const keeper = newKeeper(server);
  open(keeper, Story.create());
  for (const used of [80, 90, 91, 100]) {
    server.room = used < 90 ? null : { used, nodes: 100 * (100 - used), bytes: 1000 };
    write(keeper, "more ");
    await pass(2);
  }
  assert.deepEqual([...new Set(told)], [90, 91, 100]);
  const before = told.length;
  const again = newKeeper(server);
  open(again, await again.load(keeper.story.id));
  assert.deepEqual(told.slice(before), [100]);
});

test("an older version of a node that the server refuses is given up for the server's", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  const branch = keeper.story.addModelNode({ parent: "", keep: 0 });
  await keeper.flush();
  await server.post(`v1/srb/stories/${keeper.story.id}`, {
    nodes: { [branch]: { text: "Once upon a time", by: "model", made: 1, end: { reason: "eos" } } },
  });
  keeper.story.grow(branch, "Once");
  keeper.story.end(branch, { reason: "lost" });
  keeper.changed();
  await pass(2);
  assert.equal(keeper.state, "saved");
  assert.equal(keeper.story.text(branch), "Once upon a time");
});

test("a server whose file was replaced by a backup gets what it lacks from the open page", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create());
  const first = write(keeper, "Once");
  keeper.story.close(first.node);
  await pass(2);
  const backup = structuredClone(server.stories.get(keeper.story.id));
  write(keeper, " upon a time");
  await pass(2);
  server.stories.set(keeper.story.id, backup);
  server.name = "file2";
  await pass(5);
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon a time");
  server.stories.clear();
  server.name = "file3";
  await pass(5);
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon a time");
});

for (const mode of ["", "off"]) {
  test(`a story goes into the bin and out of it${mode ? ", also in the browser" : ""}`, async () => {
    const server = new FakeServer();
    server.trouble = mode;
    const keeper = newKeeper(server);
    await keeper.openLast();
    keeper.open(Story.create("Mine"));
    const { id } = keeper.story;
    write(keeper, "Once");
    await pass(1);
    await keeper.remove(id);
    assert.deepEqual((await keeper.list()).stories, []);
    const [binned] = (await keeper.list({ binned: true })).stories;
    assert.equal(binned.title, "Mine");
    assert.ok(binned.deleted > 0);
    await keeper.restore(id);
    assert.deepEqual(
      (await keeper.list()).stories.map((story) => story.id),
      [id],
    );
    assert.deepEqual((await keeper.list({ binned: true })).stories, []);
  });
}

test("the list has the stories of the server and those that it does not have yet, the last changed first", async () => {
  const server = new FakeServer();
  const keeper = newKeeper(server);
  keeper.open(Story.create("First"));
  write(keeper, "one two three");
  await pass(2);
  keeper.open(Story.create("Second"));
  await pass(1);
  server.trouble = "full";
  write(keeper, "four");
  await keeper.flush();
  server.trouble = "";
  const { stories, where } = await keeper.list();
  assert.deepEqual(
    stories.map(({ title, words, isUnsaved }) => [title, words, isUnsaved]),
    [
      ["Second", 1, true],
      ["First", 3, false],
    ],
  );
  assert.match(where, /by the server at 127.0.0.1:9090/);
});

test("if the server cannot read its stories, what this browser keeps is listed and opened", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const first = newKeeper(server, { browser });
  first.open(Story.create("First"));
  write(first, "one");
  await pass(2);
  const { id } = first.story;
  server.trouble = "damaged";
  write(first, " two");
  await pass(2);
  first.close();
  const second = newKeeper(server, { browser });
  const story = await second.openLast();
  assert.equal(story.text(story.head.node, story.head.at), "one two");
  second.open(story);
  assert.equal(second.state, "outbox");
  assert.match(second.message, /damaged/);
  const { stories, fault } = await second.list();
  assert.match(fault, /damaged/);
  assert.deepEqual(
    stories.map(({ id, isUnsaved }) => [id, isUnsaved]),
    [[id, true]],
  );
  write(second, " three");
  await pass(20);
  server.trouble = "";
  await second.wake();
  await pass(2);
  assert.equal(second.state, "saved");
  assert.equal(second.message, "");
  assert.equal(textOf(server.wire(id)), "one two three");
  assert.equal(server.wire(id).meta.title.value, "First");
});

test("a new browser opens the newest story, or for a person with a name an empty one, and then the one that it had open", async () => {
  const server = new FakeServer();
  const first = newKeeper(server);
  first.open(Story.create("First"));
  write(first, "one");
  await pass(2);
  assert.equal((await newKeeper(server).openLast()).id, first.story.id);
  server.person = "bob";
  const browser = new FakeBrowser();
  const bob = newKeeper(server, { browser });
  assert.equal(await bob.openLast(), null);
  bob.open(await bob.load(first.story.id));
  bob.close();
  assert.equal((await newKeeper(server, { browser }).openLast()).id, first.story.id);
});

test("a story of which the browser has only a part is not opened by half", async () => {
  const server = new FakeServer();
  const browser = new FakeBrowser();
  const first = newKeeper(server, { browser });
  first.open(Story.create("First"));
  const { node } = write(first, "one");
  first.story.close(node);
  await pass(2);
  const { id } = first.story;
  server.trouble = "damaged";
  write(first, " two");
  await pass(2);
  first.close();
  const second = newKeeper(server, { browser });
  assert.equal(await second.openLast(), null);
  assert.equal(second.state, "outbox");
  assert.match(second.message, /damaged.*only a part/);
  assert.equal((await second.list()).stories.length, 1);
  await assert.rejects(second.load(id), /damaged.*only a part/);
  server.trouble = "";
  const story = await second.load(id);
  assert.equal(story.text(story.head.node, story.head.at), "one two");
});

test("whatever fails on the way, everything arrives in the end and is never saved twice", async () => {
  for (let seed = 1; seed <= 8; seed += 1) {
    const random = new Random(seed);
    const server = new FakeServer();
    const browser = new FakeBrowser();
    const tabs = [newKeeper(server, { browser }), newKeeper(server, { browser }), newKeeper(server)];
    const walks = tabs.map((keeper) => {
      keeper.open(new Story("shared"));
      return new Walk(random, { story: keeper.story });
    });
    for (let step = 0; step < 120; step += 1) {
      const which = random.below(3);
      walks[which].step();
      tabs[which].changed();
      if (random.chance(1, 8)) server.trouble = random.choice(["", "", "down", "full", "read_only"]);
      if (random.chance(1, 12)) server.lostAnswers = 1;
      if (random.chance(1, 4)) await pass(1);
    }
    server.trouble = "";
    server.lostAnswers = 0;
    await pass(80);
    for (const [which, walk] of walks.entries()) {
      assert.equal(tabs[which].state, "saved");
      for (const other of walks) walk.checkAll(other.story);
    }
    const stored = new Story("shared");
    stored.merge(JSON.parse(JSON.stringify(server.wire("shared"))));
    assert.deepEqual([...stored.nodes.keys()].sort(), [...walks[0].story.nodes.keys()].sort());
    assert.deepEqual(await tabs[0].outbox.list(), []);
  }
});

test("a server that is silent about its stories lets a person write, and is said to be", async () => {
  const server = new FakeServer();
  server.trouble = "silent";
  const keeper = newKeeper(server);
  const opening = keeper.openLast();
  await pass(10);
  assert.equal(await opening, null);
  keeper.open(Story.create());
  write(keeper, "Once");
  assert.match(keeper.message, /The server does not answer/);
  assert.equal(keeper.story.text(keeper.story.head.node, keeper.story.head.at), "Once");
});

/** A server that has a story of Alice's, and a keeper that has it open as its reader. */
async function sharedStory() {
  const server = new FakeServer();
  const author = newKeeper(server);
  author.open(Story.create());
  author.story.close(write(author, "Once upon a time").node);
  await pass(1);
  const { id } = author.story;
  author.close();
  server.setShare(id, { owner: "alice", access: "read" });
  const keeper = newKeeper(server);
  keeper.open(await keeper.load(id));
  server.calls.length = 0;
  return { server, keeper, id };
}

const READER = "alice lets you read this story, and does not get what you change: it stays in this browser.";

test("a reader's words stay in the browser, are sent nowhere, and are said to be", async () => {
  const { server, keeper, id } = await sharedStory();
  assert.deepEqual([keeper.state, keeper.message], ["reader", READER]);
  write(keeper, " said Bob");
  await pass(5);
  await keeper.flush({ keepalive: true });
  await keeper.wake();
  assert.deepEqual(server.posts(), []);
  assert.deepEqual([keeper.state, keeper.message], ["reader", READER]);
  keeper.close();
  const later = newKeeper(server, { shelf: keeper.outbox.shelf });
  later.lastOpen.remember(id);
  await later.wake(); // the server is said to be ready before a story is open
  later.open(await later.openLast());
  assert.equal(later.story.text(later.story.head.node, later.story.head.at), "Once upon a time said Bob");
  later.open(Story.create());
  await pass(60);
  await later.wake();
  assert.deepEqual(server.posts(), []);
});

test("a reader who may write by now sends what was kept", async () => {
  const { server, keeper, id } = await sharedStory();
  write(keeper, " said Bob");
  await pass(2);
  server.setShare(id, { owner: "alice", access: "write" });
  await pass(5);
  assert.equal(keeper.state, "saved");
  assert.equal(textOf(server.wire(id)), "Once upon a time said Bob");
});

for (const access of ["read", "write"]) {
  for (const act of ["types", "only reads"]) {
    test(`a story with the right to ${access} that is not shared any more is a whole one of one's own for who ${act}`, async () => {
      const { server, keeper, id } = await sharedStory();
      const shelf = keeper.outbox.shelf;
      server.setShare(id, { owner: "alice", access });
      await pass(4);
      const told = [];
      keeper.addEventListener("apart", ({ detail }) => told.push(detail.owner));
      write(keeper, " said Bob");
      await pass(2);
      server.setShare(id, { owner: "alice", access: "none" });
      if (act === "types") write(keeper, ". Again.");
      await pass(5);
      const own = keeper.story.id;
      const text = `Once upon a time said Bob${act === "types" ? ". Again." : ""}`;
      assert.deepEqual([keeper.state, told, own === id], ["saved", ["alice"], false]);
      assert.equal(textOf(server.wire(own)), text);
      assert.equal(await keeper.outbox.read(id), null);
      keeper.close();
      const posts = server.posts().length;
      const later = newKeeper(server, { shelf });
      later.lastOpen.remember(own);
      later.open(await later.openLast());
      await pass(60);
      assert.equal(later.story.text(later.story.head.node, later.story.head.at), text);
      assert.equal(server.posts().length, posts);
    });
  }
}

test("a story that is not shared any more while the server is away is one of one's own when it is back", async () => {
  const { server, keeper, id } = await sharedStory();
  server.setShare(id, { owner: "alice", access: "write" });
  await pass(4);
  server.trouble = "down";
  write(keeper, " said Bob");
  await pass(4);
  server.trouble = "";
  server.setShare(id, { owner: "alice", access: "none" });
  await pass(60);
  assert.equal(textOf(server.wire(keeper.story.id)), "Once upon a time said Bob");
  assert.notEqual(keeper.story.id, id);
});

test("words of which only this browser has a part are shown by themselves where their story is gone", async () => {
  const { server, keeper, id } = await sharedStory();
  const shelf = keeper.outbox.shelf;
  server.setShare(id, { owner: "alice", access: "write" });
  await pass(4);
  server.trouble = "down";
  const { node } = write(keeper, " said Bob.");
  keeper.story.close(node);
  keeper.story.head = keeper.story.edit(keeper.story.head, 5, 9, "after");
  keeper.changed();
  await pass(4);
  await keeper.flush({ keepalive: true });
  keeper.close();
  server.trouble = "";
  server.setShare(id, { owner: "alice", access: "none" });
  const later = newKeeper(server, { shelf });
  later.lastOpen.remember(id);
  later.open(await later.openLast());
  const { head } = later.story;
  assert.equal(later.story.text(head.node, head.at), "…after… said Bob.");
  await pass(4);
  assert.equal(textOf(server.wire(later.story.id)), "…after… said Bob.");
  assert.deepEqual([later.state, await later.outbox.read(id)], ["saved", null]);
  assert.deepEqual(
    (await later.list()).stories.map((each) => each.id),
    [later.story.id],
  );
});

test("a right that was taken away meanwhile ends in one refusal, and no word is lost", async () => {
  const { server, keeper, id } = await sharedStory();
  server.setShare(id, { owner: "alice", access: "write" });
  await pass(3);
  server.calls.length = 0;
  server.setShare(id, { owner: "alice", access: "read" });
  write(keeper, " said Bob");
  await pass(60);
  assert.ok(server.posts().length <= 1);
  assert.equal(keeper.state, "reader");
  const kept = await keeper.outbox.read(id);
  assert.ok(Object.values(kept.nodes).some(({ text }) => text.includes("said Bob")));
});
