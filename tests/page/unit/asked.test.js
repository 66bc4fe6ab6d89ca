/** Requests as they were asked, kept with a story's runs: each comes back word for word, and takes little room. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { writeRequests } from "../../../srb/page/formats/requests.js";
import { inPieces, requestOf } from "../../../srb/page/story/asked.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";

const SERVER = { version: "1.2", lacks: "…”", max_tokens: 128, sampling: { temperature: 0.8 } };
const MEMORY =
  "Mara is old and keeps the light of Skarholm.\n\n[The story so far: she came by the last boat of the year.]\n\n";

const lines = (story) =>
  writeRequests(story)
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** Keep a request with a new run. */
function keep(story, place, body, id) {
  const asked = inPieces(story, place, body, body.prompt, SERVER);
  story.addRun({
    id,
    ...place,
    made: story.runs.size,
    model: "m",
    request_id: id,
    seeds: [body.seed],
    request: {},
    asked,
  });
  return JSON.stringify(asked).length;
}

test("of a walk over edits, memories and directions each request is what was sent, in some hundred bytes", () => {
  const random = new Random(7);
  const story = Story.create();
  const paragraph = () =>
    `${Array.from({ length: 30 }, () => random.choice(["The", "light", "went…", "🦊", "out", "海"])).join(" ")}.\n\n`;
  let head = { node: "", at: 0 };
  const bodies = new Map();
  const sizes = [];
  let [memory, lore] = [MEMORY, []];
  for (let step = 0; step < 150; step += 1) {
    const text = story.text(head.node, head.at);
    const at = random.chance(1, 3) ? Math.max(0, text.indexOf("\n\n", random.below(text.length + 1))) : text.length;
    head = story.settle(story.edit(head, at, at, paragraph()));
    if (random.chance(1, 9)) memory = `${MEMORY}She has a scar since evening ${step}, and does not speak of it.\n\n`;
    if (random.chance(1, 5))
      lore = [...lore, `Tom (${step}) rows the ferry and sings, as his father did before him.\n`];
    const now = story.text(head.node, head.at);
    const from = Math.max(0, now.length - 3000);
    const plain = now.replaceAll("…", "...");
    const prompt = `${memory}${lore.join("")}${plain.slice(random.chance(1, 2) ? 0 : from)}`.trimEnd();
    const body = {
      prompt,
      n: 1 + random.below(8),
      seed: random.below(1000),
      max_tokens: 40,
      banned_strings: Array.from({ length: 50 }, (_, each) => `phrase number ${each}`),
      ...(random.chance(1, 3)
        ? {
            directions: [`somebody lies (${step})`],
            direction_place: { at: 12, before: "[", rest: `]\n\n${prompt.slice(-900)}` },
          }
        : {}),
    };
    bodies.set(`r${step}`, body);
    sizes.push(keep(story, head, body, `r${step}`));
  }
  const again = storyOf(JSON.parse(JSON.stringify(story.toJSON())));
  for (const [id, body] of bodies) {
    const { body: found, noted } = requestOf(again, again.runs.get(id));
    assert.deepEqual(found, { temperature: 0.8, ...body }, id);
    assert.deepEqual([noted.version, noted.hasFiles], ["1.2", undefined]);
  }
  const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
  assert.ok(mean < 600, `${mean} bytes`);
  assert.ok(Math.max(...sizes.slice(1)) < 2000);
});

/** Runs that count how many of them were looked at. */
class CountedRuns extends Map {
  looked = 0;

  *values() {
    for (const run of super.values()) {
      this.looked += 1;
      yield run;
    }
  }
}

test("a new round looks at the runs that came since the last one, and at none before", () => {
  const story = Story.create();
  const runs = new CountedRuns();
  story.runs = runs;
  const place = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "Once."));
  for (let step = 0; step < 40; step += 1)
    keep(story, place, { prompt: `${MEMORY}Once.`, n: 1, seed: step }, `r${step}`);
  assert.equal(runs.looked, 39);
});

test("a request that the story has in part, or that is too long, is not told of as if it were whole", () => {
  const story = Story.create();
  const place = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "Once."));
  keep(story, place, { prompt: `${MEMORY}Once.`, n: 1, seed: 3 }, "a");
  keep(story, place, { prompt: `${MEMORY}Once.`, n: 2, seed: 4 }, "b");
  assert.equal(requestOf(story, story.runs.get("b")).body.n, 2);
  story.runs.delete("a");
  assert.equal(requestOf(story, story.runs.get("b")), null);
  for (const asked of [7, {}, [], [[]], [["[1,"], []], [[["b", 0, 99]], [[0, 9]]], [[null], [null]]])
    assert.equal(requestOf(story, { ...story.runs.get("b"), asked }), null);
  const long = Array.from({ length: 3000 }, (_, each) => `Line ${each} of a memory that nobody wrote.\n`).join("");
  assert.equal(inPieces(story, place, { prompt: long }, long, SERVER), undefined);
});

test("what a desk asks for is kept with its rounds, with what was added to them, and exported with its texts", async () => {
  const it = await makeDesk();
  const { desk, api, manuscript } = it;
  Object.assign(desk.server, SERVER);
  manuscript.type("Once upon a time,");
  desk.setMemory("Mara is old.");
  const stream = await round(it, " a king", " a fox");
  const id = [...desk.story.runs.values()][0].request_id;
  await desk.vary(0, 2, 1);
  stream.send({ event: "branch", index: 2, seed: 9, from: { branch: 0, token: 1 }, text: " a" });
  stream.send({ event: "stream", index: 2, text: " queen" });
  for (const index of [0, 1, 2]) stream.send({ event: "stop", index, reason: "limit", length: 2 });
  await settled();
  const { body } = api.streams[0];
  const [line] = lines(desk.story);
  assert.deepEqual(line.request, { max_tokens: 128, temperature: 0.8, ...body, seed: 7 });
  assert.deepEqual([line.request_id, line.version, line.seeds], [id, "1.2", [7, 8]]);
  assert.deepEqual(
    line.branches.map(({ index, seed, text, end, asked }) => [index, seed, text, end, asked]),
    [
      [0, 7, " a king", "limit", undefined],
      [1, 8, " a fox", "limit", undefined],
      [2, 9, " a queen", "limit", { from: { branch: 0, character: 2 } }],
    ],
  );
});
