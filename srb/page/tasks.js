// Tasks: what a round is asked to do beside going on. An instruction says what happens next, or what becomes of a passage of the text.

import { msg } from "./languages.js";
import { beginningAfter } from "./prompt.js";
import { stretch } from "./reading.js";

/** A round's task, as it is kept with the round. @typedef {{verb: string, instruction: string}} Task */
/** @typedef {{name: string, label: string, instruction: string, length: number}} Verb   `length`: of the new passage, by that of the old one */
/** @typedef {import("./prompt.js").Message} Message */

/** What happens next: the task of a round that goes on. */
export const GO_ON = "continue";

/** What may become of a passage. @type {Verb[]} */
export const VERBS = [
  { name: "rewrite", label: msg`Rewrite`, instruction: "Rewrite the passage in other words.", length: 1.5 },
  { name: "shorter", label: msg`Shorter`, instruction: "Rewrite the passage so that it is shorter.", length: 1 },
  { name: "longer", label: msg`Longer`, instruction: "Rewrite the passage so that it is longer.", length: 3 },
  { name: "plainer", label: msg`Plainer`, instruction: "Rewrite the passage in plainer words.", length: 1.5 },
  { name: "vivid", label: msg`More vivid`, instruction: "Rewrite the passage so that it is more vivid.", length: 2 },
  { name: "tense", label: msg`Other tense`, instruction: "Rewrite the passage in the present tense.", length: 1.5 },
  {
    name: "viewpoint",
    label: msg`Other viewpoint`,
    instruction: "Rewrite the passage in the first person.",
    length: 1.5,
  },
  { name: "dialogue", label: msg`As dialogue`, instruction: "Rewrite the passage as a dialogue.", length: 3 },
  {
    name: "expand",
    label: msg`Expand`,
    instruction: "Rewrite the passage at more length, moment by moment.",
    length: 4,
  },
];

/** What is described, by sense. */
export const SENSES = ["seen", "heard", "smelled", "tasted", "felt"];
const DESCRIBE = "describe";

/** @param {string} sense @returns {Task} */
export const describing = (sense) => ({
  verb: DESCRIBE,
  instruction: `Rewrite the passage and describe what is ${sense} in it.`,
});

/** What becomes of a passage by an instruction that is nobody's but the person's. */
export const OWN = "own";

/** What becomes of a passage in a card of a round whose cards have words of their own, if this one has none. @type {Task} */
export const EACH = { verb: "each", instruction: "Rewrite the passage in other words." };
const BEFORE_OWN = "Rewrite the passage: "; // a card's own words
const LONGEST = Math.max(...VERBS.map(({ length }) => length)); // they may ask for any length
/** @type {Record<string, number>} of new passages, by verb */
const LENGTHS = {
  ...Object.fromEntries(VERBS.map(({ name, length }) => [name, length])),
  [DESCRIBE]: 3,
  [OWN]: LONGEST,
};

const MORE = 24; // tokens beside those of the passage
const MOST_BEFORE = 2000; // characters that are sent of what stands before a passage
const ALONE = "Answer with the new passage alone.";

/**
 * Return the messages that ask a chat model for a new passage.
 * @param {Task} task @param {{before: string, passage: string, system: string}} texts
 * @returns {Message[]}
 */
export function messagesOf({ instruction }, { before, passage, system }) {
  const context = endOf(before);
  const parts = [
    context && `This stands before the passage:\n\n${context}`,
    `The passage:\n\n${passage}`,
    `${instruction.trim()} ${ALONE}`,
  ];
  /** @type {Message[]} */
  const messages = [{ role: "user", content: parts.filter(Boolean).join("\n\n") }];
  return system ? [{ role: "system", content: system }, ...messages] : messages;
}

/**
 * Return the prompt that makes a base model write a new passage: it goes on behind the old one and a note.
 * @param {Task} task @param {{before: string, passage: string, system: string}} texts
 */
export function draftOf({ instruction }, { before, passage, system }) {
  return [system, endOf(before), `[First draft]\n\n${passage}`, `[${instruction.trim()}]\n\n`]
    .filter(Boolean)
    .join("\n\n");
}

/**
 * Return where a card's own words stand in such a prompt, in the place of the round's instruction; null: the chat template has changed that.
 * @param {string} prompt @param {Task} task @param {boolean} isChat @returns {import("./round.js").Directing | null}
 */
export function ownWordsIn(prompt, { instruction }, isChat) {
  const told = instruction.trim();
  const at = prompt.lastIndexOf(told + (isChat ? ` ${ALONE}` : "]\n\n"));
  if (at < 0) return null;
  const rest = prompt.slice(at + told.length);
  return { tail: prompt.length - at, before: BEFORE_OWN, rest: isChat ? `\n\n${rest.slice(1)}` : rest };
}

const LABEL =
  /^\s*(?:here is )?(?:\[first draft\]|(?:the|this) (?:(?:original|old|new|revised|rewritten) )?passage(?: (?:was|is)(?: as follows)?| begins| reads| can be \w+ as)?\s*:)\s*/iu;
const REMARK =
  /\n\s*(?=(?:\(?note:|explanation:|in this (?:new|revised|rewritten|updated) (?:version|passage|sentence|paragraph)\b|this (?:new |revised )?(?:version|revision|rewrit(?:e|ing)) (?:is|has|keeps|uses|adds|makes|maintains|removes|focuses|aims|captures)\b|the (?:original|old|new|revised|rewritten) (?:passage|version)\b[^\n.!?]*:|i(?:['’]ve| have)? (?:rewrote|rewritten|revised|rephrased|reworded|replaced|removed|changed|edited|kept|made|tried|used|added|shortened|expanded|condensed|adjusted|improved|simplified) (?:the|this|your) (?:original |new )?(?:passage|sentence|paragraph)\b))/iu;

/**
 * Return where a new passage stands in a card: behind blanks and a label of the prompt that the model has repeated, before what it remarks on its work.
 * @param {string} card
 */
export function passageIn(card) {
  const from = LABEL.exec(card)?.[0].length ?? Math.max(0, card.search(/\S/u));
  const length = card.slice(from).search(REMARK);
  return { from, to: length > 0 ? from + length : card.length };
}

/** Return of what either prompt is made. @param {Task} task @param {{before: string, passage: string, system: string}} texts */
export function blocksOf({ instruction }, { before, passage, system }) {
  const origins = /** @type {const} */ ([
    ["memory", system],
    ["text", endOf(before)],
    ["text", passage],
    ["instruction", instruction],
  ]);
  return origins.map(([origin, text]) => [stretch(origin, text)]);
}

/** The end of a text that is sent, from the beginning of a paragraph, a sentence or a word on. @param {string} text */
function endOf(text) {
  const from = text.length - MOST_BEFORE;
  return text.slice(from > 0 ? beginningAfter(text, from, text.length) : 0).trim();
}

/**
 * Return the fields of a request for a new passage: its length, and for a base model its last paragraph, behind which it would go on.
 * @param {Task} task @param {string} passage @param {{rate: number, isChat: boolean, isDirected: boolean}} options `rate`: characters per
 *   token; `isDirected`: whether cards have words of their own
 */
export function fieldsOf({ verb }, passage, { rate, isChat, isDirected }) {
  const length = isDirected ? LONGEST : (LENGTHS[verb] ?? 2);
  const max_tokens = Math.ceil((length * passage.length) / rate) + MORE;
  const paragraphs = passage.trim().split(/\n\s*\n/u).length;
  if (isChat) return { max_tokens };
  return { max_tokens, stop_at: "paragraph", ...(paragraphs > 1 ? { stop_after: paragraphs } : {}) };
}
