// A round takes events in any legal order, keeps each branch in its slot, and plans the right calls.

import assert from "node:assert/strict";
import { test } from "node:test";

import { endWord, IllegalMove, Round } from "../../../srb/page/round.js";
import { random } from "./random.js";

/** A round of n cards whose request "r" runs. */
function started(n = 3, options = {}) {
  const round = new Round({
    id: "run",
    base: { node: "a", at: 4 },
    keep: 4,
    n,
    prompts: new Map([["", { prompt: "Once", blocks: [] }]]),
    ...options,
  });
  round.join("r");
  round.apply("r", {
    event: "start",
    count: n,
    id: "id-1",
    seeds: Array.from({ length: n }, (_, i) => 7 + i),
    prompt_tokens: 2,
  });
  return round;
}

/** Ask for branches as a plan says, and let the server name those that it adds. */
function add(round, { request, slots, expect }, ...indices) {
  round.bind(request, round.expectBranches(request, slots, expect), indices);
}

const stream = (index, text, more = {}) => ({ event: "stream", index, text, ...more });
const stop = (index, reason = "limit", more = {}) => ({
  event: "stop",
  index,
  length: 3,
  stop: 0,
  reason,
  stopping_word: "",
  ...more,
});

test("a branch's text lands in its slot, whatever the order of events", () => {
  const round = started();
  assert.equal(round.state, "reading");
  assert.deepEqual([...round.apply("r", stream(2, " x"))], [2]);
  assert.equal(round.state, "running");
  round.apply("r", stream(0, " a"));
  round.apply("r", stream(2, "y"));
  assert.deepEqual(
    round.slots.map((slot) => slot.text),
    [" a", "", " xy"],
  );
  assert.deepEqual(
    round.slots.map((slot) => slot.seed),
    [7, 8, 9],
  );
  assert.deepEqual(round.counts, { waiting: 1, running: 2, ended: 0, pruned: 0, failed: 0 });
});

test("the round is asking before start and ended after the last stop", () => {
  const round = new Round({
    id: "run",
    base: { node: "a", at: 0 },
    keep: 0,
    n: 1,
    prompts: new Map([["", { prompt: "", blocks: [] }]]),
  });
  round.join("r");
  assert.equal(round.state, "asking");
  round.apply("r", { event: "start", count: 1, id: "i", seeds: [1], prompt_tokens: 0 });
  round.apply("r", { event: "prompt", total: 10, cache: 2, processed: 5, time_ms: 3 });
  assert.deepEqual(round.progress, { total: 10, cached: 2, processed: 5, ms: 3 });
  round.apply("r", stream(0, "a"));
  assert.equal(round.progress, null);
  round.apply("r", stop(0, "eos"));
  assert.equal(round.state, "ended");
});

test("a stop string is put back into the text", () => {
  const round = started(1);
  round.apply("r", stream(0, " He fell"));
  round.apply("r", stop(0, "word", { stopping_word: "." }));
  assert.equal(round.slots[0].text, " He fell.");
  assert.equal(round.slots[0].length, 3);
});

test("each end has words of its own", () => {
  const words = new Map();
  for (const [reason, more] of [
    ["eos"],
    ["boundary"],
    ["limit"],
    ["limit", { truncated: true }],
    ["cancelled"],
    ["word", { stopping_word: "\n" }],
  ]) {
    const round = started(1, { stopAt: "sentence" });
    round.apply("r", stream(0, " a"));
    round.apply("r", stop(0, reason, more));
    const said = endWord(round.slots[0], round.stopAt);
    words.set(said.description, said.words);
  }
  assert.deepEqual(
    [...words.values()],
    ["The model would end here.", "", "cut off here", "the context is full", "stopped", ""],
  );
  const round = started(2);
  round.apply("r", { event: "error", index: 0, code: "banned_dead_end", message: "no way out" });
  round.apply("r", stop(0, "error"));
  round.lost("r", "the server went away");
  assert.equal(endWord(round.slots[0]).description, "Failed: no way out.");
  assert.match(endWord(round.slots[1]).description, /^The connection was lost/);
});

test("pruning ends one branch, and text still on its way stays with it", () => {
  const round = started();
  round.apply("r", stream(1, " a"));
  const plan = round.planPrune(1);
  assert.deepEqual([plan.method, plan.path], ["DELETE", "v1/srb/completions/id-1/branches/1"]);
  round.apply("r", stream(1, "b"));
  round.apply("r", stop(1, "cancelled"));
  assert.equal(round.slots[1].state, "pruned");
  assert.equal(round.slots[1].text, " ab");
  assert.throws(() => round.planPrune(1), IllegalMove);
  round.unprune(1);
  assert.deepEqual([round.slots[1].state, round.slots[1].end.reason], ["ended", "cancelled"]);
});

test("refill after two prunes asks for two branches, which fill those slots and no others", () => {
  const round = started(4);
  for (const index of [0, 1, 2, 3]) round.apply("r", stream(index, ` t${index}`));
  round.planPrune(1);
  round.planPrune(3);
  const plan = round.planRefill();
  assert.deepEqual(
    [plan.method, plan.path, plan.body, plan.slots],
    ["POST", "v1/srb/completions/id-1/branches", { count: 2 }, [1, 3]],
  );
  add(round, plan, 4, 5);
  assert.equal(round.planRefill(), null);
  round.apply("r", stop(1, "cancelled"));
  round.apply("r", { event: "branch", index: 4, seed: 11 });
  round.apply("r", stream(1, "late"));
  round.apply("r", { event: "branch", index: 5, seed: 12 });
  round.apply("r", stream(5, " new"));
  assert.deepEqual(
    round.slots.map((slot) => [slot.text, slot.index, slot.state]),
    [
      [" t0", 0, "running"],
      ["", 4, "waiting"],
      [" t2", 2, "running"],
      [" new", 5, "running"],
    ],
  );
  assert.equal(round.slots.length, 4);
});

test("branches that two windows add at once come into the cards of the window that asked for them", () => {
  const round = started(2);
  round.planPrune(0);
  const refill = round.planRefill();
  const ticket = round.expectBranches("r", refill.slots, refill.expect);
  for (const index of [2, 3]) {
    round.apply("r", { event: "branch", index, seed: index }); // 2 is the other window's
    round.apply("r", stream(index, ` t${index}`));
  }
  round.apply("r", stream(1, " t1"));
  assert.deepEqual(round.released("r"), []);
  assert.deepEqual([round.slots.length, round.slots[1].text], [2, " t1"]);
  round.bind("r", ticket, [3]);
  for (const event of round.released("r")) round.apply("r", event);
  assert.deepEqual(
    round.slots.map(({ index, text }) => [index, text]),
    [
      [3, " t3"],
      [1, " t1"],
      [2, " t2"],
    ],
  );
});

test("a call that adds no branch lets the events of others go on", () => {
  const round = started(1);
  const { slots } = round.planMore(1);
  const ticket = round.expectBranches("r", slots, "more");
  round.apply("r", { event: "branch", index: 1, seed: 1 });
  round.unexpect("r", ticket, "too many branches");
  for (const event of round.released("r")) round.apply("r", event);
  assert.deepEqual(
    round.slots.map(({ index, pending }) => [index, pending]),
    [
      [0, null],
      [1, null],
    ],
  );
});

test("a refused addition leaves the slots as they were", () => {
  const round = started(2);
  round.planPrune(0);
  const refill = round.expectBranches("r", [0], "refill");
  round.unexpect("r", refill, "no");
  assert.deepEqual([round.slots[0].state, round.slots[0].pending], ["pruned", null]);
  const more = round.planMore(3);
  const ticket = round.expectBranches("r", more.slots, "more");
  assert.equal(round.slots.length, 5);
  round.unexpect("r", ticket, "no");
  assert.deepEqual([round.slots.length, round.order], [2, [0, 1]]);
});

test("a branch at its limit goes on, and one at a sentence's end goes on as a fork in its slot", () => {
  const round = started(2);
  for (const index of [0, 1]) round.apply("r", stream(index, " a."));
  round.apply("r", stop(0));
  round.apply("r", stop(1, "boundary"));
  round.slots[1].node = "n1";
  const limit = round.planExtend(0, 20);
  assert.deepEqual(
    [limit.method, limit.path, limit.body],
    ["PATCH", "v1/srb/completions/id-1/branches/0", { max_tokens: 20 }],
  );
  round.apply("r", { event: "branch", index: 0, seed: 7, resumed: true });
  round.apply("r", stream(0, " b"));
  const fork = round.planExtend(1, 20);
  assert.deepEqual([fork.method, fork.body, fork.slots], ["POST", { max_tokens: 20, from: { branch: 1 } }, [1]]);
  add(round, fork, 2);
  assert.ok(!round.canExtend(round.slots[1]));
  round.apply("r", { event: "branch", index: 2, seed: 9, from: { branch: 1, token: 3 }, text: " a." });
  round.apply("r", stream(2, " c"));
  assert.deepEqual(
    round.slots.map((slot) => slot.text),
    [" a. b", " a. c"],
  );
  assert.equal(round.slots[1].node, "n1");
});

test("a stop word is given to the fork that goes on after it", () => {
  const round = started(1);
  round.apply("r", stream(0, " a"));
  round.apply("r", stop(0, "word", { stopping_word: "." }));
  assert.deepEqual(round.planExtend(0, 9).body, { branches: [{ append: ".", max_tokens: 9 }], from: { branch: 0 } });
});

test("what a full context has ended is not extended, nor what has no text yet", () => {
  const round = started(2);
  round.apply("r", stream(0, " a"));
  round.apply("r", stop(0, "limit", { truncated: true }));
  round.apply("r", stop(1, "cancelled"));
  for (const slot of round.slots) assert.throws(() => round.planExtend(slot.number, 9), IllegalMove);
});

test("where the model would end a branch goes on only by forbidding that, also without a word of it", () => {
  const round = started(2);
  round.apply("r", stream(0, " a"));
  for (const index of [0, 1]) round.apply("r", stop(index, "eos"));
  for (const branch of [0, 1])
    assert.deepEqual(round.planExtend(branch, 9).body, { max_tokens: 9, ignore_eos: true, from: { branch } });
  round.apply("r", { event: "done" });
  for (const [number, given] of [" a", ""].entries()) {
    const plan = round.planExtend(number, 9);
    assert.deepEqual([plan.kind, plan.given, plan.neverEnds], ["request", given, true]);
  }
});

test("a variation counts characters as the server does, and never cuts after a space or inside a pair", () => {
  const round = started(1);
  round.apply("r", stream(0, " 🙂🙂 and more"));
  const plan = round.planVary(0, 6, 2);
  assert.deepEqual(plan.body, { count: 2, from: { branch: 0, character: 3 } });
  assert.deepEqual(plan.slots, [1, 2]);
  assert.deepEqual(round.planVary(0, 4, 1).body.from, { branch: 0, character: 2 });
  assert.deepEqual(round.planChoose(0, 6, " but").body, {
    branches: [{ append: " but" }],
    from: { branch: 0, character: 3 },
  });
});

test("when the request is over, plans are new requests with the text so far", () => {
  const round = started(2);
  for (const index of [0, 1]) round.apply("r", stream(index, " a b "));
  for (const index of [0, 1]) round.apply("r", stop(index));
  round.apply("r", { event: "done", count: 2 });
  assert.deepEqual(round.planMore(2), {
    kind: "request",
    n: 2,
    given: "",
    slots: [2, 3],
    expect: "more",
    seedOffset: 2,
    voice: "",
  });
  assert.equal(round.planVary(0, 2, 1).given, " a");
  const plan = round.planExtend(1, 5);
  assert.deepEqual([plan.kind, plan.given, plan.slots], ["request", " a b", [1]]);
  round.join("s", { slots: plan.slots, given: plan.given, kind: plan.expect });
  round.apply("s", { event: "start", count: 1, id: "id-2", seeds: [5], prompt_tokens: 4 });
  round.apply("s", stream(0, " c"));
  assert.deepEqual(
    round.slots.map((slot) => slot.text),
    [" a b ", " a b c"],
  );
  assert.deepEqual(round.planVary(1, 4, 1).body.from, { branch: 0, character: 0 });
  assert.equal(round.planVary(1, 2, 1).kind, "request");
});

test("duplicates fold only when asked, and nothing changes its place but by sorting", () => {
  const round = started(4);
  for (const [index, text] of [
    [0, " x"],
    [1, " y"],
    [2, " x"],
    [3, " x"],
  ])
    round.apply("r", stream(index, text));
  for (const index of [0, 1, 2, 3]) round.apply("r", stop(index, "limit", { logprob: [-3, -1, -2, -9][index] }));
  assert.deepEqual(round.duplicates(), [[0, 2, 3]]);
  assert.ok(round.slots.every((slot) => slot.foldedUnder === null));
  round.fold();
  assert.deepEqual(
    [round.slots.map((slot) => slot.foldedUnder), round.order],
    [
      [null, null, 0, 0],
      [0, 1, 2, 3],
    ],
  );
  const was = round.arrangement();
  round.sort("");
  assert.deepEqual(round.order, [1, 0, 2, 3]);
  assert.deepEqual(round.planRefill().slots, [2, 3]);
  round.unfold(0);
  assert.ok(round.slots.every((slot) => slot.foldedUnder === null));
  round.rearrange(was);
  assert.deepEqual([round.order, round.slots[2].foldedUnder], [[0, 1, 2, 3], 0]);
});

test("a card that repeats the text or a likelier card is dealt later than it is likely", () => {
  const round = started(5);
  const texts = [
    " so on and so on and so on and so on",
    " a lamp was lit",
    " the sea was as calm",
    " the sea was as calm",
    " no",
  ];
  texts.forEach((text, index) => round.apply("r", stream(index, text)));
  [-0.6, -1, -2, -2.5, -3].forEach((logprob, index) => round.apply("r", stop(index, "limit", { logprob })));
  round.sort("");
  assert.deepEqual(round.order, [1, 2, 4, 0, 3]); // 5 of the 8 groups of card 1 come again: -0.6 - 4 * 5 / 8
  round.sort("He said: A lamp was lit.");
  assert.deepEqual(round.order, [2, 4, 0, 1, 3]);
});

test("folding twice unfolds, and a card that changes lets go of those folded under it", () => {
  const round = started(4);
  for (const index of [0, 1, 2, 3]) {
    round.apply("r", stream(index, " x"));
    round.apply("r", stop(index));
  }
  const folds = () => round.slots.map((slot) => slot.foldedUnder);
  assert.deepEqual([...round.fold()], [1, 0, 2, 3]);
  assert.deepEqual(folds(), [null, 0, 0, 0]);
  round.fold();
  assert.deepEqual(folds(), [null, null, null, null]);
  round.fold();
  round.planPrune(0);
  assert.deepEqual(folds(), [null, null, null, null]);
  round.fold();
  assert.deepEqual(folds(), [null, null, 1, 1]);
  round.apply("r", { event: "branch", index: 1, seed: 1, resumed: true });
  assert.deepEqual(folds(), [null, null, null, null]);
});

test("a snapshot brings lost branches back, and does not bring back what was replaced", () => {
  const round = started(2);
  round.apply("r", stream(0, " a"));
  round.planPrune(1);
  add(round, { request: "r", slots: [1], expect: "refill" }, 2);
  round.apply("r", { event: "branch", index: 2, seed: 3 });
  round.lost("r", "gone");
  assert.deepEqual(
    round.slots.map((slot) => slot.end.reason),
    ["lost", "lost"],
  );
  const branch = (index, state, text, more = {}) => ({
    index,
    seed: index,
    state,
    length: 1,
    max_tokens: 9,
    text,
    ...more,
  });
  round.apply("r", {
    event: "snapshot",
    id: "id-1",
    state: "running",
    prompt_tokens: 2,
    branches: [
      branch(0, "ended", " a b", { reason: "eos", stop: 1 }),
      branch(1, "ended", " old", { reason: "cancelled" }),
      branch(2, "running", " c"),
    ],
  });
  assert.deepEqual(
    round.slots.map((slot) => [slot.text, slot.state]),
    [
      [" a b", "ended"],
      [" c", "running"],
    ],
  );
  round.apply("r", stream(2, "d"));
  assert.equal(round.slots[1].text, " cd");
});

test("a round of a story goes on by a snapshot, and a refilled card shows its last branch", () => {
  const round = new Round({
    id: "run",
    base: { node: "a", at: 4 },
    keep: 4,
    n: 2,
    prompts: new Map([["", { prompt: "Once", blocks: [] }]]),
  });
  round.recall("past", "id-1", [0, 1, 1], "");
  const [a, c] = round.slots;
  const past = { request: "past", state: "ended", end: { reason: "lost" } };
  Object.assign(a, { text: " a", node: "n0", index: 0, ...past });
  Object.assign(c, { text: " c", node: "n2", index: 2, ...past });
  round.rejoin("r", "id-1");
  const running = (index, text) => ({ index, seed: 1, state: "running", length: 2, text });
  round.apply("r", {
    event: "snapshot",
    id: "id-1",
    state: "running",
    branches: [running(0, " a!"), running(1, ""), running(2, " c!")],
  });
  assert.deepEqual(
    round.slots.map((slot) => [slot.node, slot.text, slot.state]),
    [
      ["n0", " a!", "running"],
      ["n2", " c!", "running"],
    ],
  );
});

test("log-probabilities are kept with the ends of their tokens", () => {
  const round = started(2);
  const probs = (...tokens) => tokens.map(([token, logprob]) => ({ token, logprob }));
  round.apply("r", stream(0, " he", { logprobs: probs([" he", -0.5]) }));
  round.apply("r", stream(0, " went on", { logprobs: probs([" went", -1.5], [" on", -1]) }));
  const slot = round.slots[0];
  assert.deepEqual([...slot.tokenEnds.view()], [3, 8, 11]);
  assert.deepEqual([...slot.tokenLogprobs.view()], [-0.5, -1.5, -1]);
  assert.equal(slot.meanLogprob, -1);
  assert.equal(slot.length, 3);
  add(round, { request: "r", slots: [2], expect: "vary" }, 2);
  round.apply("r", { event: "branch", index: 2, seed: 1, from: { branch: 0, token: 2 }, text: " he went" });
  assert.deepEqual([...round.slots[2].tokenEnds.view()], [3, 8]);
});

test("random events and moves never put text into a wrong slot, and never move a card", () => {
  for (let seed = 1; seed <= 200; seed++) walk(random(seed));
});

/** A server of one request beside the round: each branch writes its own letter. */
function walk(next) {
  const round = started(4);
  const below = (n) => Math.floor(next() * n);
  const server = Array.from({ length: 4 }, (_, index) => ({ index, text: "", state: "running" }));
  const asked = []; // additions that the server has not answered
  const owner = new Map(server.map((branch) => [branch.index, branch.index])); // branch index -> slot
  for (let step = 0; step < 120; step++) {
    const branch = server[below(server.length)];
    const slot = round.slots[below(round.slots.length)];
    const order = [...round.order];
    switch (below(6)) {
      case 0:
      case 1:
        if (branch.state === "running") {
          branch.text += ` w${branch.index}`;
          round.apply("r", stream(branch.index, ` w${branch.index}`));
        }
        break;
      case 2:
        if (branch.state === "running") {
          branch.state = "ended";
          round.apply("r", stop(branch.index, ["limit", "eos", "boundary"][below(3)]));
        }
        break;
      case 3:
        if (round.canPrune(slot)) round.planPrune(slot.number);
        break;
      case 4: {
        const plan = below(2) ? round.planRefill() : round.canVary(slot) ? round.planVary(slot.number, null, 1) : null;
        if (plan?.kind === "control" && round.slots.length < 12) {
          const ticket = round.expectBranches("r", plan.slots, plan.expect);
          asked.push({ ticket, numbers: plan.slots, from: plan.body.from });
        }
        break;
      }
      default: {
        const added = asked.shift();
        if (!added) break;
        const origin = added.from && server[added.from.branch];
        const text = origin ? [...origin.text].slice(0, added.from.character).join("") : undefined;
        const from = origin ? { from: { branch: origin.index, token: 1 }, text } : {};
        const indices = added.numbers.map((_, place) => server.length + place);
        const isAnsweredFirst = below(2);
        if (isAnsweredFirst) round.bind("r", added.ticket, indices);
        for (const index of indices) {
          server.push({ index, text: text ?? "", state: "running" });
          owner.set(index, added.numbers[indices.indexOf(index)]);
          round.apply("r", { event: "branch", index, seed: 1, ...from });
        }
        if (!isAnsweredFirst) round.bind("r", added.ticket, indices);
        for (const event of round.released("r")) round.apply("r", event);
      }
    }
    assert.deepEqual(round.order.slice(0, order.length), order);
    for (const shown of round.slots) {
      if (shown.index === null) continue;
      assert.equal(owner.get(shown.index), shown.number);
      const { text } = server[shown.index];
      assert.ok(
        shown.text === text || (shown.state === "pruned" && text.startsWith(shown.text)),
        `${shown.text} | ${text}`,
      );
    }
  }
}
