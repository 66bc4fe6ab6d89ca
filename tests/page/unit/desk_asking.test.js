/** Questions about the story: what the readers read, what they say, and that nothing of it becomes a part of the text. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { agreedIn, askStory, doubtsOfCards, linesNear } from "../../../srb/page/desk/asking.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";

const TEXT = "Mara is blind. She went to Dr. Hall.\n\nIt rained.";

/** A template with a place for everything. */
const rendered = ({ messages, continue_final_message: goesOn }) => {
  const turns = messages.map(({ role, content }) => `<${role}>${content}`);
  return { prompt: goesOn ? turns.join("</>") : `${turns.join("</>")}</><assistant>` };
};

async function asked({ text = TEXT, template = rendered, chat_template = true, settings = {} } = {}) {
  const it = await makeDesk();
  it.desk.watch.server = { ...it.desk.server, chat_template };
  it.api.answers["apply-template"] = template;
  for (const [name, value] of Object.entries(settings)) it.desk.setSetting(name, value);
  if (text) it.manuscript.type(text);
  it.ask = (question, options = {}) => {
    it.aborting = new AbortController();
    const { signal } = it.aborting;
    return askStory(it.desk.rounds, question, {
      n: 2,
      signal,
      heard: (answers) => (it.heard = [...answers]),
      ...options,
    });
  };
  /** Let the last request write texts, and end. */
  it.say = async (...texts) => {
    for (const [index, text] of texts.entries()) it.api.last.send({ event: "stream", index, text });
    it.api.last.end();
    await settled();
  };
  return it;
}

test("readers read what a round reads, and behind it nothing but the template's words and the question", async () => {
  for (const mode of ["text", "chat"]) {
    const it = await asked({ settings: { mode } });
    await it.desk.setMemory("A tale.");
    await round(it, " a");
    const known = it.api.last.body.prompt;
    it.ask("Who is blind?");
    await settled();
    const { prompt, n, max_tokens, stop_at, json_schema } = it.api.last.body;
    assert.ok(prompt.startsWith(known), mode);
    assert.match(
      prompt.slice(known.length),
      /^<\/><user>Answer a question .*\n\nThe question: Who is blind\?<\/><assistant>$/s,
    );
    assert.deepEqual([n, max_tokens, stop_at, json_schema], [2, 80, undefined, undefined]);
  }
});

test("the question is of the text up to the caret", async () => {
  const it = await asked();
  it.manuscript.select(14);
  it.ask("Where is she?");
  await settled();
  assert.ok(it.api.last.body.prompt.startsWith("Mara is blind.</>"));
});

test("each reader's answer is told of as it grows, and the story is what it was", async () => {
  const it = await asked();
  const before = JSON.stringify(it.desk.story.toJSON());
  const asking = it.ask("Who is blind?");
  await settled();
  it.api.last.send({ event: "start", id: "q" }, { event: "stream", index: 1, text: "Ma" });
  assert.deepEqual(it.heard, ["", "Ma"]);
  await it.say("Nobody.", "ra.");
  assert.deepEqual(await asking, ["Nobody.", "Mara."]);
  assert.equal(JSON.stringify(it.desk.story.toJSON()), before);
  assert.equal(it.desk.round, null);
  assert.equal(it.desk.text, TEXT);
});

test("why nothing can be asked is said, and no request begins", async () => {
  for (const [options, words] of [
    [{ chat_template: false }, /only writes on, and answers no questions/],
    [{ text: " \n" }, /no text yet/],
    [{ template: () => ({ prompt: "told" }) }, /no place for a question/],
  ]) {
    const it = await asked(options);
    await assert.rejects(it.ask("Who?"), words);
    assert.equal(it.api.streams.length, 0);
  }
});

test("an error of the server is the reader's, and a stop ends the request", async () => {
  const it = await asked();
  const failing = it.ask("Who?");
  await settled();
  assert.throws(() => it.api.last.send({ event: "error", message: "the context is full" }), /context is full/);
  it.api.last.lose();
  await assert.rejects(failing, /lost/);
  const stopped = it.ask("Who?");
  await settled();
  const { last } = it.api;
  it.aborting.abort();
  await assert.rejects(stopped);
  assert.equal(last.isOpen, false);
});

const verdict = (line, part = "contradicts") => JSON.stringify({ line, part });

test("a card that enough readers find contradicted by a line is marked with it, and the others are not", async () => {
  const it = await asked();
  it.desk.setMemory("Dr. Hall is dead.");
  await round(it, " She saw the rain.", " Dr. Hall laughed.", " It went on.");
  for (const index of [0, 1, 2]) it.api.last.send({ event: "stop", index, reason: "limit", length: 4 });
  it.api.last.end();
  await settled();
  const read = [];
  const checking = doubtsOfCards(it.desk.rounds, {
    signal: new AbortController().signal,
    heard: (...all) => read.push(all),
  });
  await settled();
  const first = it.api.last.body;
  assert.match(
    first.prompt,
    /^Dr\. Hall is dead\.\n\nMara is blind\..* She saw the rain\.<\/><user>Compare .*\n\nShe saw the rain\.\n\n/s,
  );
  assert.deepEqual([first.n, first.json_schema.required], [3, ["line", "part"]]);
  const known = ["Dr. Hall is dead.", "Mara is blind.", "She went to Dr. Hall.", "It rained."];
  assert.deepEqual(first.json_schema.properties.line.enum.toSorted(), known.toSorted());
  await it.say(verdict("Mara is blind."), verdict("It rained.", "agrees"), verdict("Mara is blind."));
  assert.match(it.api.last.body.json_schema.properties.line.enum[0], /Dr\. Hall/, "with which it has a word in common");
  await it.say(verdict("Dr. Hall is dead."), "{cut off", verdict("It rained.", "agrees"));
  await it.say(verdict("It rained.", "agrees"), verdict("It rained.", "agrees"), verdict("It rained.", "agrees"));
  const { node } = it.desk.round.slots[0];
  assert.deepEqual(await checking, [{ number: 0, node, line: "Mara is blind.", votes: 2 }]);
  assert.deepEqual([...it.desk.round.doubts], [[node, "Mara is blind."]]);
  assert.deepEqual(read, [
    [0, 3],
    [1, 3],
    [2, 3],
  ]);
});

test("a card is read against the entries that only it calls up, and those that the text has called up are read once", async () => {
  const it = await asked();
  it.desk.setMeta("lore.tom", { name: "Tom", keys: ["Tom"], text: "Tom is in prison." });
  it.desk.setMeta("lore.mara", { name: "Mara", keys: ["Mara"], text: "Mara is nine." });
  await round(it, " Tom came.", " It rained on.");
  for (const index of [0, 1]) it.api.last.send({ event: "stop", index, reason: "limit", length: 4 });
  it.api.last.end();
  await settled();
  const options = { signal: new AbortController().signal, heard: () => {} };
  const checking = doubtsOfCards(it.desk.rounds, options);
  await settled();
  const first = it.api.last.body;
  assert.equal(first.prompt.split("Mara is nine.").length, 2);
  assert.match(first.prompt, /<user>This holds in the story, too:\n\n\[Tom is in prison\.\]\n\nCompare/);
  assert.ok(first.json_schema.properties.line.enum.includes("Tom is in prison."));
  await it.say("", "", "");
  assert.doesNotMatch(it.api.last.body.prompt, /prison/);
  await it.say("", "", "");
  assert.deepEqual(await checking, []);
});

test("over random readings every line is one of what is known, the nearest first, and none is of a note or an instruction", () => {
  const words = ["lamp", "window", "grey", "Mara", "winter", "letter", "stone", "river"];
  for (let seed = 0; seed < 200; seed++) {
    const random = new Random(seed);
    const sentence = () =>
      `${Array.from({ length: 2 + random.below(5) }, () => words[random.below(words.length)]).join(" ")}.`;
    const said = (length) => Array.from({ length }, sentence);
    const [text, memory, note] = [
      said(1 + random.below(60)),
      said(random.below(3)),
      said(2).map((each) => `Note ${each}`),
    ];
    const blocks = [
      [
        { origin: "memory", text: memory.join(" ") },
        { origin: "text", text: text.map((each) => each.replace(/^./u, (letter) => letter.toUpperCase())).join(" \n") },
      ],
      [{ origin: "note", text: note.join(" ") }],
    ];
    const card = sentence();
    const lines = linesNear(card, blocks);
    const known = blocks[0].map((each) => each.text.replace(/\s+/gu, " ")).join(" ");
    const wordsIn = (line) => new Set(line.toLowerCase().match(/\w{4,}/g));
    const near = (line) => [...wordsIn(line)].filter((word) => wordsIn(card).has(word)).length;
    assert.ok(lines.length <= 24 && lines.length > 0);
    assert.equal(new Set(lines).size, lines.length);
    for (const [place, line] of lines.entries()) {
      assert.ok(known.includes(line), line);
      if (place) assert.ok(near(lines[place - 1]) >= near(line));
    }
  }
});

test("a line is agreed on exactly if two of the readers say that something is contradicted, and it is the one most name", () => {
  const random = new Random(3);
  for (let trial = 0; trial < 500; trial++) {
    const votes = Array.from({ length: 3 }, () => ["", "a", "b"][random.below(3)]);
    const answers = votes.map((line) => (line ? verdict(line) : ["", verdict("c", "agrees"), "{"][random.below(3)]));
    const named = votes.filter(Boolean);
    const agreed = agreedIn(answers);
    assert.equal(agreed === null, named.length < 2);
    if (!agreed) continue;
    const count = (line) => named.filter((each) => each === line).length;
    assert.equal(agreed.votes, named.length);
    assert.ok(["a", "b"].every((line) => count(line) <= count(agreed.line)));
  }
});
