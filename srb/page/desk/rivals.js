/** The words that the model thought likely at a place: one token, asked for at a prompt that the server knows already. */

/** @typedef {import("../api.js").Api} Api */
/** @typedef {{text: string, logprob: number, probability: number}} Rival */

const RIVALS = 12;

/**
 * Return the likeliest tokens after a prompt, likeliest first.
 * @param {Api} api @param {import("./media.js").Prompt} prompt
 * @param {{model?: string}} voice fields of the request that choose who is asked
 * @returns {Promise<Rival[]>}
 */
export async function likelyTokens(api, prompt, { model, ...voice }) {
  const body = { ...(model ? { model } : {}), ...voice, prompt, n: 1, max_tokens: 1, logprobs: RIVALS, stream: false };
  const said = await api.post("v1/srb/completions", body);
  const [first] = said.completions[0].logprobs ?? [];
  /** @type {{token: string, logprob: number}[]} */
  const tokens = first?.top_logprobs ?? [];
  return tokens
    .filter(({ token }) => token && !token.includes("\ufffd"))
    .map(({ token, logprob }) => ({ text: token, logprob, probability: Math.exp(logprob) }));
}
