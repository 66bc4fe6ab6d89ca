/** What could happen next, as the model itself sees it: one question, for all cards. */

import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { beginningAfter, forTemplate } from "../prompt.js";

const READ = 2000; // characters at the text's end
const LONGEST = 80; // characters of an idea
const TOKENS = 48; // of each: more than such a text and what JSON puts around it

/**
 * Ask a chat model for so many events, all different; it may have fewer.
 * @param {import("../desk.js").Desk} desk @param {number} count @param {AbortSignal} signal @returns {Promise<string[]>}
 */
export async function ideasOf({ api, settings, text }, count, signal) {
  const from = text.length - READ;
  const end = withoutMarkers(text.slice(from > 0 ? beginningAfter(text, from, text.length) : 0)).trim();
  const asked = `Name ${count} events that could happen next, each very different from the others. Each is one short sentence of at most eight words, in the language of the story.`;
  const body = {
    ...forTemplate(settings),
    messages: [{ role: "user", content: end ? `The story so far:\n\n${end}\n\n${asked}` : asked }],
    max_tokens: TOKENS * count,
    json_schema: {
      type: "array",
      items: { type: "string", minLength: 3, maxLength: LONGEST },
      minItems: count,
      maxItems: count,
    },
  };
  const { choices } = await api.post("v1/chat/completions", body, { signal });
  const ideas = listOf(choices?.[0]?.message?.content);
  if (!ideas.length) throw new Error(msg`The model has named nothing: deal instead, or ask again.`);
  return ideas.slice(0, count);
}

/** The different ideas of an answer, each in one line. @param {unknown} content */
function listOf(content) {
  /** @type {unknown} */
  let value;
  try {
    value = JSON.parse(`${content}`);
  } catch {
    return []; // it was cut off
  }
  if (!Array.isArray(value)) return [];
  const lines = value.map((each) => (typeof each === "string" ? each.replace(/\s+/gu, " ").trim() : ""));
  return [...new Set(lines.map((line) => line.slice(0, LONGEST).replace(/\.$/u, "")))].filter(Boolean);
}
