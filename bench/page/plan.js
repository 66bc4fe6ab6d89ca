/**
 * What a plan costs each round: the tokens that the server computes, of the prompt and of the cards.
 *
 *     node bench/page/plan.js http://127.0.0.1:9090 16384
 *
 * A book of some ten thousand tokens goes on for ten rounds, in each of which the first card is taken: without a plan, with a line for each
 * chapter, and with beats, each of which is written in two rounds. Run it against a server that does nothing else.
 */

import { lastParagraph, planPrompt, trimmedLength } from "../../srb/page/prompt.js";

const [url = "http://127.0.0.1:9090", context = "16384", wanted = "10000"] = process.argv.slice(2);
const WARMED = 5000; // characters that a call has computed before the first round
const ROUNDS = 10;
const EACH = 2; // rounds of a beat
const SETTINGS = { n: 8, max_tokens: 128, mode: "text" };
const BEATS = [
  "a stranger arrives",
  "somebody tells a lie",
  "a letter is found",
  "the boat is gone",
  "they make peace",
];

/** @param {number} number */
const paragraph = (number) =>
  `It was the ${number}th evening and the lamp was late. On the stairs the woman counted the steps, as one does who has counted them before, and stopped at ${number + 40}. Below in the yard the boy was calling something that the wind took away over the wall. They had agreed on nothing, and yet the boat lay ready, with bread for ${number} days, two blankets and the old chart, on which somebody had drawn a line in red and crossed it out again. Nobody asked who. When the bell went, the woman put out the light and the boy let go of the rope.\n\n`;

/** @param {string} path @param {object} body */
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${url}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${response.status}: ${answer.error?.message}`);
  return answer;
}

/** A book whose chapters have a line each. @param {number} rate  characters of a token */
function bookOf(rate, title) {
  let text = "";
  const lines = [];
  for (let number = 1; text.length < rate * Number(wanted); number += 1) {
    const at = text.length;
    text += `## ${title} ${number}\n\n`;
    for (let each = 0; each < 8; each += 1) text += paragraph(8 * number + each);
    lines.push({
      kind: "chapter",
      name: `${title} ${number}`,
      at,
      end: text.length,
      text: `On evening ${number} the two get the boat ready and do not leave.`,
    });
  }
  lines[lines.length - 1].end = Number.POSITIVE_INFINITY;
  return { text: text.trimEnd(), plan: { lines, untold: Number.POSITIVE_INFINITY } };
}

const { tokens } = await post("tokenize", { content: paragraph(1) });
const rate = paragraph(1).length / tokens.length;

/** Have a long prompt computed a part after the other: a slow machine takes longer for all of it than a call may. @param {string} prompt */
async function warm(prompt) {
  for (let at = WARMED; at < prompt.length; at += WARMED)
    await post("v1/srb/completions", { prompt: prompt.slice(0, at), n: 1, max_tokens: 1, stream: false });
}

for (const [title, { isPlanned, isDirected }] of Object.entries({
  "without a plan": {},
  "a line for each chapter": { isPlanned: true },
  "lines, and beats": { isPlanned: true, isDirected: true },
})) {
  const book = bookOf(rate, isPlanned ? "Evening" : "Night"); // no round finds what is another's

  let { text } = book;
  const { lines, untold } = isPlanned ? book.plan : { lines: [], untold: 0 };
  /** @type {any[]} */
  const written = [];
  const counts = [];
  for (let number = 0; number <= ROUNDS; number += 1) {
    const direction = isDirected && number > 0 ? BEATS[Math.floor((number - 1) / EACH)] : null;
    const known = written.find(({ text: beat }) => beat === direction);
    const directedAt = direction === null ? null : (known?.at ?? -1);
    const plan = { untold, lines: [...lines, ...written.filter((line) => line !== known)] };
    const given = { text, settings: SETTINGS, n_ctx: Number(context), rate, directedAt, plan };
    const { prompt, place, keep } = planPrompt(given);
    if (direction !== null && !known) {
      const at = lastParagraph(text.slice(0, trimmedLength(text)));
      const gap = text[at - 1] === "\n" ? "" : "\n\n";
      written.push({ kind: "beat", name: "", at, end: at + 1, text: direction, gap });
    }
    const directed = direction && {
      directions: Array(SETTINGS.n).fill(direction),
      direction_place: { at: prompt.length - place.tail, before: place.before, rest: place.rest },
    };
    const body = {
      prompt,
      n: SETTINGS.n,
      max_tokens: number ? SETTINGS.max_tokens : 1,
      ignore_eos: true,
      seed: number,
      stream: false,
      ...directed,
    };
    if (number === 0) await warm(prompt);
    const { completions, timings } = await post("v1/srb/completions", body);
    counts.push([timings.prompt_n, timings.predicted_n]);
    if (number) text = text.slice(0, keep) + completions[0].text;
  }
  const [, ...later] = counts;
  const sum = later.flat().reduce((all, each) => all + each, 0);
  console.log(
    `${title.padEnd(24)} ${later.map(([prompt, cards]) => `${prompt}+${cards}`).join(" ")}: ${sum} in ${ROUNDS} rounds`,
  );
}
