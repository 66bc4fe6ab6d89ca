/** The summary of what the model no longer reads. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { NO_SUMMARY, summaryFor, summaryOf, summaryUpTo, toldOf } from "../../../srb/page/desk/summaries.js";
import { summarize } from "../../../srb/page/desk/summarize.js";
import { planPrompt } from "../../../srb/page/prompt.js";
import { readingOf } from "../../../srb/page/reading.js";
import { makeDesk } from "./fake_desk.js";

const paragraph = (number) => `${`Dora ${number} keeps the light and walks. `.repeat(10).trim()}\n\n`;
const LONG = Array.from({ length: 60 }, (_, number) => paragraph(number)).join("");
const SMALL = { settings: { n: 1, max_tokens: 8 }, n_ctx: 1024 };
const MOST = 1024 * 3.5; // characters of a prompt

/** A desk whose text does not fit, beside a server that answers with one summary after the other. */
async function cutDesk(more = {}) {
  const it = await makeDesk();
  it.api.answers["v1/srb/server"] = { ...it.api.answers["v1/srb/server"], n_ctx: 1024, ...more };
  let count = 0;
  it.api.answers["v1/srb/completions"] = (body) =>
    body ? { completions: [{ text: ` Summary ${++count}. ` }] } : { completions: [] };
  it.api.answers["apply-template"] = ({ messages }) => ({ prompt: `<u>${messages[0].content}</u>` });
  await it.desk.watch.check();
  it.desk.watch.stop();
  it.manuscript.type(LONG);
  it.asked = () => it.api.calls.filter(({ method, path }) => method === "POST" && path === "v1/srb/completions");
  it.go = (isAnew = true) => summarize(it.desk.rounds, { isAnew, signal: new AbortController().signal });
  it.summary = () => summaryOf(it.desk.story);
  return it;
}

test("a summary stands right before the story, in the place of what is cut, and only there", () => {
  const lore = { before: "Tom is old.", within: "", placeIn: () => 0 };
  const given = { memory: "Mara.", summary: "Dora fell.", lore, ...SMALL };
  assert.equal(planPrompt({ text: "One.", ...given }).prompt, "Mara.\n\nTom is old.\n\nOne.");
  const cut = planPrompt({ text: LONG, ...given });
  assert.ok(cut.prompt.startsWith("Mara.\n\nTom is old.\n\n[The story so far: Dora fell.]\n\nDora "));
  assert.ok(cut.prompt.length < MOST);
  const reading = readingOf(cut.prompt, cut.blocks).filter(({ origin }) => origin === "summary");
  assert.deepEqual(
    reading.map(({ text }) => text.trim()),
    ["[The story so far: Dora fell.]"],
  );
  assert.equal(cut.parts.find(({ kind }) => kind === "summary").characters, 30);
});

test("a summary that is longer than a quarter of the context is shortened, and takes nothing of memory or note", () => {
  const { prompt } = planPrompt({ text: LONG, summary: "word ".repeat(5000), memory: "Mara.", ...SMALL });
  assert.ok(prompt.length < MOST);
  assert.ok(prompt.startsWith("Mara.\n\n[The story so far: word word"));
});

test("one in brackets gets no frame, and a blank one is none", () => {
  assert.ok(planPrompt({ text: LONG, summary: "[Dora fell.]", ...SMALL }).prompt.startsWith("[Dora fell.]\n\nDora "));
  assert.ok(planPrompt({ text: LONG, summary: " \n", ...SMALL }).prompt.startsWith("Dora "));
});

test("a round before the end of what the summary tells of does not read it", async () => {
  const { desk } = await makeDesk();
  desk.story.setMeta("summary", summaryUpTo("Dora fell.", LONG, 5000));
  assert.equal(summaryFor(desk.story, LONG), "Dora fell.");
  assert.equal(summaryFor(desk.story, LONG.slice(0, 4999)), "");
});

test("it tells of as much where words before its end were mended, and of nothing in another text", () => {
  const summary = summaryUpTo("Dora fell.", LONG, LONG.indexOf("Dora 20"));
  assert.equal(toldOf(summary, LONG), summary.at);
  assert.equal(toldOf(summary, `New. ${LONG}`), summary.at + 5);
  assert.equal(toldOf(summary, "Another story."), 0);
  assert.equal(toldOf(NO_SUMMARY, LONG), 0);
});

test("the beginning is summarized part by part up to what the model reads, and the text stays", async () => {
  const it = await cutDesk();
  await it.go();
  const asked = it.asked();
  assert.ok(asked.length > 1);
  assert.ok(asked[0].body.prompt.startsWith("Dora 0 keeps"));
  assert.ok(asked[1].body.prompt.startsWith("[The story so far: Summary 1.]\n\nDora "));
  assert.ok(asked.every(({ body }) => body.prompt.length < MOST && body.stop_at === "paragraph" && body.n === 1));
  for (let number = 0; it.desk.text.indexOf(`Dora ${number} `) < it.desk.context.cut; number++)
    assert.ok(
      asked.some(({ body }) => body.prompt.includes(`Dora ${number} `)),
      `paragraph ${number}`,
    );
  assert.equal(it.summary().text, `Summary ${asked.length}.`);
  assert.equal(it.summary().at, it.desk.context.cut, "also of the words for which the summary leaves no room");
  assert.equal(it.desk.text, LONG);
});

test("a chat model is asked through its template", async () => {
  const it = await cutDesk({ chat_template: true });
  await it.go();
  const [first, second] = it.asked();
  assert.match(first.body.prompt, /^<u>This is the beginning of a story:/);
  assert.match(second.body.prompt, /^<u>This is a summary of a story so far:\n\nSummary 1\./);
  assert.equal(first.body.stop_at, undefined);
});

test("what was cut since is added to it", async () => {
  const it = await cutDesk();
  await it.go();
  it.desk.setMeta("summary", { ...it.summary(), text: "Mine." });
  it.manuscript.type(Array.from({ length: 12 }, (_, number) => paragraph(100 + number)).join(""));
  it.api.calls.splice(0);
  await it.go(false);
  const [first] = it.asked();
  assert.ok(first.body.prompt.startsWith("[The story so far: Mine.]"));
  assert.ok(!it.asked().some(({ body }) => body.prompt.includes("Dora 0 ")));
  assert.equal(it.summary().at, it.desk.context.cut);
});

test("nothing that a file says in its place is taken for a summary", async () => {
  const { desk } = await makeDesk();
  for (const wrong of [null, 5, "words", { text: 5, at: "all" }, []]) {
    desk.story.setMeta("summary", wrong);
    assert.deepEqual(summaryOf(desk.story), NO_SUMMARY);
  }
  desk.story.setMeta("summary", { text: "Dora.", at: -1.5, next: 7 });
  assert.deepEqual(summaryOf(desk.story), { text: "Dora.", at: 0, next: "" });
});

test("a summary that is longer than a request may be still comes to its end", async () => {
  const it = await cutDesk();
  it.api.answers["v1/srb/completions"] = { completions: [{ text: "word ".repeat(1000) }] };
  await it.go();
  assert.ok(it.asked().every(({ body }) => body.prompt.length < MOST));
  assert.equal(it.summary().at, it.desk.context.cut);
});

test("an empty answer is no summary, and the one before stays", async () => {
  const it = await cutDesk();
  it.desk.setMeta("summary", { text: "Mine.", at: 0, next: "" });
  it.api.answers["v1/srb/completions"] = { completions: [{ text: " " }] };
  await assert.rejects(it.go(false), /no summary/);
  assert.equal(it.summary().text, "Mine.");
});

test("a part of more tokens than were expected is asked for in smaller ones", async () => {
  const it = await cutDesk();
  const answer = it.api.answers["v1/srb/completions"];
  it.api.answers["v1/srb/completions"] = (body) => {
    if (body && body.prompt.length > 1400)
      throw new ApiError("too long", 400, "context_exceeded", { error: { n_prompt_tokens: body.prompt.length } });
    return answer(body);
  };
  await it.go();
  assert.equal(it.summary().at, it.desk.context.cut);
});

test("all parts that were written are one step of undo, also after a stop", async () => {
  const it = await cutDesk();
  it.desk.setMeta("summary", { text: "Mine.", at: 0, next: "" });
  const answer = it.api.answers["v1/srb/completions"];
  let count = 0;
  it.api.answers["v1/srb/completions"] = (body) => {
    count += 1;
    if (count === 3) throw new Error("stopped");
    return answer(body);
  };
  await assert.rejects(it.go(), /stopped/);
  assert.equal(it.summary().text, "Summary 2.");
  it.desk.undo();
  assert.equal(it.summary().text, "Mine.");
  it.desk.redo();
  assert.equal(it.summary().text, "Summary 2.");
});
