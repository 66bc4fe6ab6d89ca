import assert from "node:assert/strict";
import { test } from "node:test";

import { SAMPLER_NAMES, DEFAULTS as STANDARD, settingsOf, UNREPEATED } from "../../../srb/page/desk/defaults.js";
import { requestBody } from "../../../srb/page/request.js";
import { PRESETS, presetOf, presetSettings, rungs, SAMPLERS } from "../../../srb/page/sampling.js";

const SERVER = { max_tokens: 128, max_linger: 300, sampling: { temperature: 0.8, min_p: 0.05, top_k: 40 } };
const DEFAULTS = {
  n: 8,
  max_tokens: 128,
  stop_at: "",
  stop_after: 1,
  seed: null,
  ladder: null,
  distinct_first: false,
  sibling_penalty: 0,
  banned_strings: [],
  logprobs: false,
  temperature: null,
  min_p: null,
};

test("a body of the server's own settings has prompt and n alone, and stays steerable", () => {
  assert.deepEqual(requestBody(DEFAULTS, "Once", 8, SERVER), {
    prompt: "Once",
    n: 8,
    linger: 300,
    return_progress: true,
  });
});

test("a story's model goes with its requests", () => {
  assert.equal(requestBody({ ...DEFAULTS, model: "large" }, "Once", 8, SERVER).model, "large");
  assert.equal("model" in requestBody({ ...DEFAULTS, model: "" }, "Once", 8, SERVER), false);
});

test("only settings that differ from the server's are sent", () => {
  const settings = {
    ...DEFAULTS,
    temperature: 0.8,
    min_p: 0,
    max_tokens: 40,
    stop_at: "sentence",
    stop_after: 2,
    seed: 0,
  };
  assert.deepEqual(requestBody(settings, "Once", 4, SERVER), {
    prompt: "Once",
    n: 4,
    min_p: 0,
    max_tokens: 40,
    stop_at: "sentence",
    stop_after: 2,
    seed: 0,
    linger: 300,
    return_progress: true,
  });
});

test("an unknown server is told every setting that is not left to it, and asked for no linger", () => {
  const settings = {
    ...DEFAULTS,
    temperature: 0.8,
    ignore_eos: true,
    distinct_first: true,
    sibling_penalty: 2,
    banned_strings: ["suddenly"],
    logprobs: true,
  };
  assert.deepEqual(requestBody(settings, "Once", 1), {
    prompt: "Once",
    n: 1,
    max_tokens: 128,
    temperature: 0.8,
    ignore_eos: true,
    distinct_first: true,
    sibling_penalty: 2,
    banned_patterns: [{ pattern: "\\bsuddenly\\b" }],
    logprobs: 0,
    return_progress: true,
  });
});

test("the likelihood of branches is asked for only by who sorts by it, and comes with their tokens' probabilities", () => {
  const asks = (/** @type {object} */ more) => {
    const { rank, logprobs } = requestBody({ ...DEFAULTS, ...more }, "Once", 1, SERVER);
    return { rank, logprobs };
  };
  assert.deepEqual(asks({}), { rank: undefined, logprobs: undefined });
  assert.deepEqual(asks({ likelihood: true }), { rank: true, logprobs: undefined });
  assert.deepEqual(asks({ likelihood: true, logprobs: true }), { rank: undefined, logprobs: 0 });
});

test("the defaults name every sampler", () => {
  assert.deepEqual(
    SAMPLER_NAMES,
    SAMPLERS.map(({ name }) => name),
  );
});

test("a ladder gives each branch its own value, and n is the ladder's length", () => {
  const settings = { ...DEFAULTS, ladder: { name: "temperature", from: 0.4, to: 1.2 } };
  const body = requestBody(settings, "Once", 5, SERVER);
  assert.deepEqual(
    body.branches,
    [0.4, 0.6, 0.8, 1, 1.2].map((temperature) => ({ temperature })),
  );
  assert.equal(body.n, undefined);
  assert.deepEqual(rungs({ name: "top_k", from: 10, to: 100 }, 4), [10, 40, 70, 100]);
  assert.deepEqual(rungs({ name: "temperature", from: 0.4, to: 1.2 }, 1), [0.4]);
});

test("a preset decides every sampling setting, and is found again in the settings", () => {
  for (const preset of Object.values(PRESETS)) {
    const settings = { ...DEFAULTS, dry_multiplier: 0.8, ladder: { name: "temperature", from: 0, to: 1 } };
    assert.deepEqual(presetOf({ ...settings, ...Object.fromEntries(presetSettings(preset)) }), preset);
  }
});

test("the preset for instruct models keeps them from ending early, and others do not", () => {
  const body = (/** @type {import("../../../srb/page/sampling.js").Preset} */ preset) =>
    requestBody({ ...DEFAULTS, ...Object.fromEntries(presetSettings(preset)) }, "Once", 8, SERVER);
  assert.equal(body(PRESETS.going_on ?? {}).min_tokens, 60);
  for (const name of ["usual", "steady", "lively", "wild"])
    assert.equal("min_tokens" in body(PRESETS[name] ?? {}), false);
  const { min_tokens, ...rest } = body(PRESETS.going_on ?? {});
  assert.deepEqual(rest, body(PRESETS.usual ?? {}));
});

test("a story repeats no phrase unless its settings or the server's say otherwise", () => {
  const story = (/** @type {Record<string, unknown>} */ kept) => ({ meta: (/** @type {string} */ key) => kept[key] });
  const asked = (/** @type {Record<string, unknown>} */ kept) => {
    const { dry_multiplier, dry_penalty_last_n } = requestBody(settingsOf(story(kept)), "Once", 1, SERVER);
    return { dry_multiplier, dry_penalty_last_n };
  };
  assert.deepEqual(asked({}), UNREPEATED);
  assert.deepEqual(asked({ "settings.dry_multiplier": 0.3 }), { ...UNREPEATED, dry_multiplier: 0.3 });
  assert.deepEqual(asked({ "settings.dry_multiplier": "much" }), UNREPEATED);
  const server = Object.fromEntries(presetSettings({}).map(([name, value]) => [`settings.${name}`, value]));
  assert.deepEqual(asked(server), { dry_multiplier: undefined, dry_penalty_last_n: undefined });
  const ends = (/** @type {Record<string, unknown>} */ kept) =>
    requestBody(settingsOf(story(kept)), "Once", 1, SERVER).dry_sequence_breakers;
  assert.deepEqual(ends({}), [":", "*"]); // a line that comes again is a phrase, too
  assert.equal(ends({ "settings.dry_multiplier": 0 }), undefined);
  assert.equal(ends(server), undefined);
  assert.deepEqual(presetOf(STANDARD), PRESETS.usual);
  for (const preset of Object.values(PRESETS)) assert.equal(preset.dry_multiplier, 0.8);
});
