/**
 * The standing of a story's saving, as a person sees it: a word and a sentence.
 *
 * @import {Share, Trouble} from "./server.js"
 *
 * @typedef {"saved" | "saving" | "outbox" | "browser" | "failed" | "read_only" | "reader"} State
 *
 * @typedef {object} Facts
 * @property {boolean} isOn  whether the server keeps stories
 * @property {boolean} keepsHere  whether this browser does
 * @property {boolean} isUnsaved  whether anything is on its way
 * @property {Trouble | null} trouble  of the last post
 * @property {string} unread  why the stories could not be read, or ""
 * @property {Map<string, string>} stuck  nodes that the server refuses for good
 * @property {Share | undefined} share  if the story is another's
 */
import { msg } from "../languages.js";

const OFF = msg`This server keeps no stories: they are kept in this browser only.`;
const NOT_HERE = msg`This browser keeps nothing either: export the story before you close this page.`;

/**
 * @param {Facts} facts
 * @returns {State}
 */
export function stateOf({ isOn, keepsHere, isUnsaved, trouble, unread, stuck, share }) {
  if (isOn && share && share.access !== "write") return "reader";
  const isAway = trouble !== null || !isOn;
  if (stuck.size > 0 || trouble?.kind === "refused" || (isAway && !keepsHere)) return "failed";
  if (trouble !== null) return trouble.kind === "read_only" ? "read_only" : "outbox";
  if (unread !== "") return "outbox";
  if (isUnsaved) return "saving";
  return isOn ? "saved" : "browser";
}

/**
 * @param {Facts} facts
 * @returns {string} a sentence, "" if all is well
 */
export function messageOf({ isOn, keepsHere, trouble, unread, stuck, share }) {
  if (isOn && share && share.access !== "write") return ofReader(share, keepsHere);
  if (stuck.size > 0) {
    const [why] = stuck.values();
    return stuck.size === 1
      ? msg`A piece of the text could not be saved: ${why}. This browser keeps them; export the story to keep them elsewhere.`
      : msg`${stuck.size} pieces of the text could not be saved: ${why}. This browser keeps them; export the story to keep them elsewhere.`;
  }
  const problem = trouble?.message ?? (isOn ? unread : OFF);
  if (problem === "") return "";
  if (!keepsHere) return `${problem} ${NOT_HERE}`;
  return isOn ? `${problem} ${msg`Your words are kept in this browser until the server has them.`}` : problem;
}

/** @param {Share} share @param {boolean} keepsHere */
function ofReader({ owner }, keepsHere) {
  const name = owner || msg`Its owner`;
  return keepsHere
    ? msg`${name} lets you read this story, and does not get what you change: it stays in this browser.`
    : msg`${name} lets you read this story, and does not get what you change: nothing keeps it.`;
}

/**
 * Say where stories are kept.
 * @param {boolean} isOn
 * @param {boolean} keepsHere
 * @param {string} host  of the server
 */
export function whereKept(isOn, keepsHere, host) {
  if (isOn) return msg`Stories are kept by the server at ${host}. Every browser that reaches it finds them.`;
  if (!keepsHere)
    return msg`Neither the server nor this browser keeps stories: export a story before you close this page.`;
  return msg`This server keeps no stories: they are in this browser only, and go with its data. Export those that matter.`;
}

/** The answer to a person who asks whether all is saved. @param {{state: string, at: number, message: string}} saved */
export function sentenceOf({ state, at, message }) {
  if (state !== "saved" && state !== "browser") return message || msg`Not saved yet.`;
  const isHere = state === "browser";
  if (!at) return isHere ? msg`Saved in this browser.` : msg`Saved on the server.`;
  const time = new Date(at).toLocaleTimeString();
  return isHere ? msg`Saved in this browser at ${time}.` : msg`Saved on the server at ${time}.`;
}
