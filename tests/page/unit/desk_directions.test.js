/** Rounds whose cards have directions: what happens in each. They are sent, kept, and never a part of a text. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { loadDeck } from "../../../srb/page/deck.js";
import { ideasOf } from "../../../srb/page/desk/ideas.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { EACH } from "../../../srb/page/tasks.js";
import { makeDesk, settled } from "./fake_desk.js";
import "./file_fetch.js";

const TOLD = ["a stranger arrives", "", "a letter is found"];
const posted = ({ api }, end) => api.calls.findLast(({ path }) => path.endsWith(end))?.body;

/** A round of three cards, two of them with a direction. */
async function directed({
  settings = {},
  chat = null,
  text = "The bus had left.\n\nClara ran",
  directions = TOLD,
} = {}) {
  const it = await makeDesk();
  for (const [name, value] of Object.entries(settings)) it.desk.setSetting(name, value);
  it.manuscript.type(text);
  if (chat) {
    it.desk.watch.server = { ...it.desk.server, chat_template: true };
    it.desk.setSetting("mode", "chat");
    it.api.answers["apply-template"] = chat;
  }
  it.desk.go({ n: 3, directions });
  await settled();
  it.stream = it.api.last;
  const start = { event: "start", id: "first", count: 3, seeds: [1, 2, 3], prompt_tokens: 6, directions };
  it.stream.send(start, ...["a", "b", "c"].map((word, index) => ({ event: "stream", index, text: ` ${word}` })));
  return it;
}

async function until(isSo) {
  while (!isSo()) await settled();
}

const told = ({ desk }) => desk.round.directionsOf(desk.round.slots.map(({ number }) => number));

test("a round's request has the directions of its cards, and the server's own place for them", async () => {
  const it = await directed();
  assert.deepEqual(it.stream.body.directions, TOLD);
  assert.equal("direction_place" in it.stream.body, false);
  assert.equal(it.stream.body.prompt, "The bus had left.\n\nClara ran");
  assert.deepEqual(told(it), TOLD);
});

test("a round without directions asks as before", async () => {
  const it = await directed({ directions: ["", "", ""] });
  assert.equal("directions" in it.stream.body, false);
  it.desk.more(1);
  await settled();
  assert.deepEqual(posted(it, "/branches"), { count: 1 });
});

test("with a ladder each branch has its value and its direction", async () => {
  const it = await directed({ settings: { ladder: { name: "temperature", from: 1, to: 2 } } });
  assert.equal("directions" in it.stream.body, false);
  assert.deepEqual(it.stream.body.branches, [
    { temperature: 1, direction: TOLD[0] },
    { temperature: 1.5, direction: "" },
    { temperature: 2, direction: TOLD[2] },
  ]);
});

test("a text that is taken has no direction in it", async () => {
  const it = await directed();
  await it.desk.take(0, { go: false });
  assert.equal(it.desk.text, "The bus had left.\n\nClara ran a");
});

test("more and variations keep their branch's direction", async () => {
  const it = await directed();
  await it.desk.more(2);
  assert.deepEqual(posted(it, "/branches"), { branches: [{ direction: TOLD[0] }, { direction: "" }] });
  await it.desk.vary(2, null, 1);
  assert.equal("branches" in posted(it, "/branches"), false, "a fork has its origin's");
  assert.deepEqual(told(it), [...TOLD, TOLD[0], "", TOLD[2]]);
  it.stream.end();
  await settled();
  it.desk.vary(2, null, 2);
  await settled();
  assert.deepEqual(it.api.last.body.directions, [TOLD[2], TOLD[2]]);
  assert.equal(it.api.last.body.prompt, "The bus had left.\n\nClara ran c");
});

test("a chat's place is the template's, counted in characters, and what follows it ends as the prompt does", async () => {
  const chat = { prompt: "<u>𝄞 go</u><a>Clara", direction_place: { at: 12, before: "</a><u>", rest: "</u><a>Clara" } };
  const it = await directed({ chat });
  assert.deepEqual(it.api.calls.find(({ path }) => path === "apply-template").body.directions, [""]);
  assert.deepEqual(it.stream.body.direction_place, chat.direction_place);
  it.stream.end();
  await settled();
  it.desk.vary(0, null, 1);
  await settled();
  assert.equal(it.api.last.body.prompt, "<u>𝄞 go</u><a>Clara a");
  assert.deepEqual(it.api.last.body.direction_place, { ...chat.direction_place, rest: "</u><a>Clara a" });
});

test("a chat without directions asks for no place", async () => {
  const it = await directed({ chat: { prompt: "told" }, directions: [] });
  assert.equal("directions" in it.api.calls.find(({ path }) => path === "apply-template").body, false);
});

test("another frame of a base model stands around its directions", async () => {
  const it = await directed({ settings: { wish_frame: "(Nun: <|>)" } });
  const { prompt, direction_place: place } = it.stream.body;
  assert.equal(prompt.slice(0, place.at), "The bus had left.\n\n");
  assert.deepEqual(place, { at: 19, before: "(Nun: ", rest: ")\n\nClara ran" });
});

test("after a reload the cards have their directions, also those that have written nothing", async () => {
  const it = await directed();
  await it.desk.more(2);
  it.stream.send({ event: "branch", index: 3, seed: 4, direction: TOLD[0] }, { event: "stream", index: 3, text: " d" });
  it.desk.rounds.save();
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  assert.deepEqual(told(it).slice(0, 4), [...TOLD, TOLD[0]]);
});

test("a direction of a file that is none is left out", async () => {
  const it = await directed();
  it.desk.rounds.save();
  const file = it.desk.story.toJSON();
  for (const node of Object.values(file.nodes)) if (node.direction) node.direction = { html: "<b>" };
  for (const run of Object.values(file.runs)) run.request.directions = "all";
  it.desk.setStory(storyOf(JSON.stringify(file)));
  await settled();
  assert.deepEqual(told(it), ["", "", ""]);
});

test("lists of a file that have more than words in them are none", async () => {
  for (const name of ["directions", "voices", "banned_strings"]) {
    const it = await makeDesk();
    it.desk.setSetting(name, ["a", { html: "<b>" }]);
    assert.deepEqual(it.desk.settings[name], []);
    it.desk.setSetting(name, ["a"]);
    assert.deepEqual(it.desk.settings[name], ["a"]);
  }
});

test("directions that are kept with the story are every round's", async () => {
  const it = await directed({ settings: { directions: ["", "ten years pass"] }, directions: null });
  assert.deepEqual(it.stream.body.directions, ["", "ten years pass", ""]);
});

test("a card that is set aside gets another direction with its next branch, unless it is every round's", async () => {
  const it = await directed({ settings: { directions: ["", "", "a letter is found"] } });
  await it.desk.prune(0);
  await it.desk.prune(2);
  await it.desk.refill();
  const { branches } = posted(it, "/branches");
  assert.notEqual(branches[0].direction, TOLD[0]);
  assert.ok(branches[0].direction);
  assert.equal(branches[1].direction, "a letter is found");
  assert.deepEqual(told(it), [branches[0].direction, "", "a letter is found"]);
});

test("one card is kept and the others get new directions, also in a round that had none", async () => {
  for (const directions of [TOLD, []]) {
    const it = await directed({ directions });
    it.desk.roll(1);
    await until(() => (directions.length ? posted(it, "/branches") : it.api.last !== it.stream));
    const sent = directions.length
      ? posted(it, "/branches").branches.map(({ direction }) => direction)
      : it.api.last.body.directions;
    assert.equal(new Set(sent).size, 2);
    assert.ok(sent.every((move) => move && !directions.includes(move)));
    assert.equal(it.desk.round.slots[1].text, " b");
    assert.deepEqual(told(it), [sent[0], directions[1] ?? "", sent[1]]);
  }
});

test("a node of a card that was set aside keeps the direction that it had", async () => {
  const it = await directed();
  it.desk.rounds.save();
  const { node } = it.desk.round.slots[0];
  it.desk.roll(1);
  await until(() => posted(it, "/branches"));
  assert.equal(it.desk.story.nodes.get(node).direction, TOLD[0]);
});

test("a chat model is asked for as many events as there are empty lines, by a schema, and its text is one line each", async () => {
  const it = await directed();
  const content = JSON.stringify(["It  rains.\nA lot", "It rains. A lot", 7, "", "The <b>bus</b> comes back."]);
  it.api.answers["v1/chat/completions"] = { choices: [{ message: { content } }] };
  const ideas = await ideasOf(it.desk, 3, new AbortController().signal);
  assert.deepEqual(ideas, ["It rains. A lot", "The <b>bus</b> comes back"]);
  const { messages, json_schema } = posted(it, "chat/completions");
  assert.match(messages[0].content, /The bus had left\.\n\nClara ran\n\nName 3 events/);
  assert.deepEqual([json_schema.minItems, json_schema.maxItems], [3, 3]);
});

test("an answer that is cut off, or no list, is said to be none", async () => {
  const it = await directed();
  for (const content of ['["a", "b', '{"a": 1}', "[]", null]) {
    it.api.answers["v1/chat/completions"] = { choices: [{ message: { content } }] };
    await assert.rejects(ideasOf(it.desk, 3, new AbortController().signal), /named nothing/);
  }
});

// ---- In the place of a passage, and at the caret

const PROSE = "A fox. It ran fast. It slept.";
const WAYS = ["as a letter", "", "from the fox's eyes"];

/** A round of three cards in the place of the second sentence, two of them with words of their own. */
async function revised({ chat = null, going = { task: EACH }, settings = {} } = {}) {
  const it = await makeDesk();
  for (const [name, value] of Object.entries(settings)) it.desk.setSetting(name, value);
  it.manuscript.type(PROSE);
  it.manuscript.select(7, 19);
  if (chat) {
    it.desk.watch.server = { ...it.desk.server, chat_template: true };
    it.api.answers["apply-template"] = chat;
  }
  it.desk.go({ n: 3, directions: WAYS, ...going });
  await settled();
  it.stream = it.api.last;
  it.begin = () => {
    const start = { event: "start", id: "first", count: 3, seeds: [1, 2, 3], prompt_tokens: 6, directions: WAYS };
    it.stream.send(start, ...["a", "b", "c"].map((word, index) => ({ event: "stream", index, text: `It ${word}.` })));
  };
  return it;
}

/** What a branch reads that has a direction, as the server makes it. */
const readBy = ({ prompt, direction_place: { at, before, rest } }, direction) =>
  [...prompt].slice(0, at).join("") + before + direction + rest;

test("for a passage each card has an instruction of its own, in the place of the round's", async () => {
  const { stream } = await revised();
  assert.deepEqual(stream.body.directions, WAYS);
  const first = "A fox.\n\n[First draft]\n\nIt ran fast.\n\n";
  assert.equal(stream.body.prompt, `${first}[Rewrite the passage in other words.]\n\n`);
  assert.equal(readBy(stream.body, WAYS[0]), `${first}[Rewrite the passage: as a letter]\n\n`);
  const { max_tokens } = (
    await revised({ going: { task: { verb: "shorter", instruction: "Shorter." }, directions: [] } })
  ).stream.body;
  assert.ok(stream.body.max_tokens > max_tokens, "words of one's own may ask for any length");
});

test("a chat model reads each card's instruction at the end of the user's turn, whatever the template says behind it", async () => {
  const chat = ({ messages }) => ({ prompt: `<u>${messages.at(-1).content}</u>\n<a>` });
  const { stream } = await revised({ chat });
  const told = readBy(stream.body, WAYS[2]);
  assert.match(
    told,
    /It ran fast\.\n\nRewrite the passage: from the fox's eyes\n\nAnswer with the new passage alone\.<\/u>\n<a>$/,
  );
  assert.match(
    stream.body.prompt,
    /Rewrite the passage in other words\. Answer with the new passage alone\.<\/u>\n<a>$/,
  );
});

test("a template that changes what is asked has no place for words of each card, and that is said", async () => {
  const chat = ({ messages }) => ({ prompt: messages.at(-1).content.toUpperCase() });
  const { desk, api } = await revised({ chat });
  assert.match(desk.said.at(-1).text, /no place for words of each card/);
  assert.equal(api.streams.length, 0);
});

test("a card is taken in the passage's place, and after a reload further branches have its instruction", async () => {
  const it = await revised();
  it.begin();
  it.desk.rounds.save();
  it.desk.setStory(storyOf(JSON.stringify(it.desk.story.toJSON())));
  await settled();
  assert.deepEqual(told(it), WAYS);
  it.desk.vary(2, null, 1);
  await settled();
  assert.deepEqual(it.api.last.body.directions, [WAYS[2]]);
  assert.match(readBy(it.api.last.body, WAYS[2]), /\[Rewrite the passage: from the fox's eyes\]\n\nIt c\.$/);
  await it.desk.take(0);
  assert.equal(it.desk.text, "A fox. It a. It slept.");
});

test("the others of a kept card are dealt from what may become of a passage", async () => {
  const ways = Object.values(await loadDeck("en", "passage.")).flat();
  const it = await revised({ settings: { directions: ["ten years pass"] } });
  it.begin();
  it.desk.roll(2);
  await until(() => posted(it, "/branches"));
  for (const { direction } of posted(it, "/branches").branches) assert.ok(ways.includes(direction), direction);
});

test("what is every round's is not a passage's, nor its gap's", async () => {
  for (const going of [{ task: EACH }, { isFilling: true }]) {
    const it = await revised({
      going: { ...going, directions: undefined },
      settings: { directions: ["ten years pass"] },
    });
    assert.equal("directions" in it.stream.body, false);
  }
});

test("the gap of a passage, and the place of the caret, have what happens in each card", async () => {
  const filled = (await revised({ going: { isFilling: true } })).stream.body;
  assert.deepEqual([filled.prompt, filled.directions], ["A fox.", WAYS]);
  const it = await makeDesk();
  it.manuscript.type(PROSE);
  it.manuscript.select(6);
  it.desk.watch.server = { ...it.desk.server, fill: { prefix: "<p>", suffix: "<s>", middle: "<m>" } };
  it.desk.setSetting("wish_frame", "(Now: <|>)");
  it.desk.go({ n: 3, directions: WAYS });
  await settled();
  assert.equal(it.api.last.body.prompt, "<p>A fox.<s> It ran fast. It slept.<m>");
  assert.equal(readBy(it.api.last.body, "rain"), "<p>(Now: rain)\n\nA fox.<s> It ran fast. It slept.<m>");
});
