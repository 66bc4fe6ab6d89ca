/** What comes too often in a text, counted by a worker with the lists of its language. */

import { newWorker } from "../formats/workers.js";
import { LANGUAGE } from "../languages.js";

/** @import {Found, Frequencies, Line} from "./overused.js" */

const LANGUAGES = ["en", "de"];
/** @type {Map<string, any>} by the lists' names */
const known = new Map();

/** @param {string} name @returns {Promise<any>} */
async function list(name) {
  const found = known.get(name) ?? (await (await fetch(new URL(`./${name}.json`, import.meta.url))).json());
  known.set(name, found);
  return found;
}

/** What models overuse; nothing in a language without a list. @param {unknown} tag of the text @returns {Promise<Line[]>} */
export async function linesFor(tag) {
  /** @type {(string | Line)[]} */
  const lines = languageOf(tag) === "en" ? await list("models") : [];
  return lines.map((line) => (typeof line === "string" ? { line, words: line.replaceAll("*", "…") } : line));
}

/** @param {unknown} tag such as "de-CH" */
const languageOf = (tag) => String(tag || LANGUAGE).split("-")[0];

/** @param {string} text @param {unknown} tag @param {AbortSignal} signal @returns {Promise<Found>} */
export async function countOveruse(text, tag, signal) {
  const language = languageOf(tag);
  /** @type {Frequencies | null} */
  const frequencies = LANGUAGES.includes(language) ? await list(language) : null;
  const lines = await linesFor(tag);
  signal.throwIfAborted();
  const worker = newWorker("counting");
  try {
    return await new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.onmessage = ({ data }) => resolve(data);
      worker.postMessage({ text, frequencies, lines });
    });
  } finally {
    worker.terminate();
  }
}
