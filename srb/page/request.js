// The body of a round's request: a story's settings as fields of POST /v1/srb/completions.

import { bansOf } from "./bans.js";
import { branchesOn, ladderOf } from "./moods.js";
import { SAMPLERS } from "./sampling.js";

/** The seconds that a round stays steerable after its end, and alive without a reader, such as a phone whose screen is off. */
const LINGER = 600;

/** Where DRY ends a phrase. The server's line breaks and quotation marks are missing: in dialogue, a line is most phrases. */
const PHRASE_ENDS = [":", "*"];

/**
 * Return the body of a request. Fields that equal the server's defaults are left out.
 *
 * @param {Record<string, any>} settings - the desk's; null is the server's default
 * @param {import("./desk/media.js").Prompt} prompt
 * @param {number} n
 * @param {{max_tokens?: number, max_linger?: number, sampling?: Record<string, unknown>, control_vectors?: string[]}} [server] - of GET /v1/srb/server
 * @returns {Record<string, unknown>}
 */
export function requestBody(settings, prompt, n, server = {}) {
  return {
    ...(settings.model ? { model: settings.model } : {}),
    prompt,
    ...branches(ladderOf(settings, server), n),
    ...samplingOf(settings, server.sampling ?? {}),
    ...lengthOf(settings, server),
    ...(isSet(settings.seed) ? { seed: settings.seed } : {}),
    ...(settings.ignore_eos ? { ignore_eos: true } : {}),
    ...(settings.distinct_first ? { distinct_first: true } : {}),
    ...(settings.sibling_penalty > 0 ? { sibling_penalty: settings.sibling_penalty } : {}),
    ...bansOf(settings.banned_strings, settings.seldom_strings),
    ...likelihood(settings),
    ...((server.max_linger ?? 0) > 0 ? { linger: Math.min(LINGER, server.max_linger ?? 0) } : {}),
    return_progress: true,
  };
}

/** @param {unknown} value */
function isSet(value) {
  return value !== null && value !== undefined;
}

/**
 * Ask for each token's probability, or only for each branch's mean, if the cards show one of them: both cost the server time.
 *
 * @param {Record<string, any>} settings
 */
function likelihood({ logprobs, likelihood: isSorted }) {
  return logprobs ? { logprobs: 0 } : isSorted ? { rank: true } : {};
}

/**
 * @param {import("./sampling.js").Ladder | null} ladder
 * @param {number} n
 */
function branches(ladder, n) {
  return ladder ? { branches: branchesOn(ladder, n) } : { n };
}

/**
 * @param {Record<string, any>} settings
 * @param {Record<string, unknown>} defaults
 */
function samplingOf(settings, defaults) {
  const wanted = SAMPLERS.map(({ name }) => [name, settings[name]]);
  return {
    ...Object.fromEntries(wanted.filter(([name, value]) => isSet(value) && value !== defaults[name])),
    ...(settings.dry_multiplier > 0 ? { dry_sequence_breakers: PHRASE_ENDS } : {}),
  };
}

/**
 * @param {Record<string, any>} settings
 * @param {{max_tokens?: number}} server
 */
function lengthOf({ max_tokens, stop_at, stop_after }, server) {
  return {
    ...(isSet(max_tokens) && max_tokens !== server.max_tokens ? { max_tokens } : {}),
    ...(stop_at ? { stop_at } : {}),
    ...(stop_at && stop_after > 1 ? { stop_after } : {}),
  };
}
