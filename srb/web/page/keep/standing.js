/**
 * The standing of a story's saving, as a person sees it: a word and a sentence.
 *
 * @import {Trouble} from "./server.js"
 *
 * @typedef {"saved" | "saving" | "outbox" | "browser" | "failed" | "read_only"} State
 *
 * @typedef {object} Facts
 * @property {boolean} isOn  whether the server keeps stories
 * @property {boolean} keepsHere  whether this browser does
 * @property {boolean} isUnsaved  whether anything is on its way
 * @property {Trouble | null} trouble  of the last post
 * @property {string} unread  why the stories could not be read, or ""
 * @property {Map<string, string>} stuck  nodes that the server refuses for good
 */

const OFF = "This server keeps no stories: they are kept in this browser only.";
const NOT_HERE = "This browser keeps nothing either: export the story before you close this page.";

/**
 * @param {Facts} facts
 * @returns {State}
 */
export function stateOf({ isOn, keepsHere, isUnsaved, trouble, unread, stuck }) {
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
export function messageOf({ isOn, keepsHere, trouble, unread, stuck }) {
  if (stuck.size > 0) {
    const [why] = stuck.values();
    const pieces = stuck.size === 1 ? "A piece" : `${stuck.size} pieces`;
    return `${pieces} of the text could not be saved: ${why}. This browser keeps them; export the story to keep them elsewhere.`;
  }
  const problem = trouble?.message ?? (isOn ? unread : OFF);
  if (problem === "") return "";
  if (!keepsHere) return `${problem} ${NOT_HERE}`;
  return isOn ? `${problem} Your words are kept in this browser until the server has them.` : problem;
}

/**
 * Say where stories are kept.
 * @param {boolean} isOn
 * @param {boolean} keepsHere
 * @param {string} host  of the server
 */
export function whereKept(isOn, keepsHere, host) {
  if (isOn) return `Stories are kept by the server at ${host}. Every browser that reaches it finds them.`;
  if (!keepsHere)
    return "Neither the server nor this browser keeps stories: export a story before you close this page.";
  return "This server keeps no stories: they are in this browser only, and go with its data. Export those that matter.";
}

/** The answer to a person who asks whether all is saved. @param {{state: string, at: number, message: string}} saved */
export function sentenceOf({ state, at, message }) {
  if (state !== "saved" && state !== "browser") return message || "Not saved yet.";
  const time = at ? ` at ${new Date(at).toLocaleTimeString()}` : "";
  return `Saved ${state === "browser" ? "in this browser" : "on the server"}${time}.`;
}
