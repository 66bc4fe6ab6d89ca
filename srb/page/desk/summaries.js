/** The summary of the text's beginning, for where the model no longer reads that: kept with the story, written by the model or by a
 * person. It stands in for words of the prompt, and never for words of the text. */

import { NEXT, placeOf } from "../prompt.js";

/** @typedef {{text: string, at: number, next: string}} Summary   it tells of the text up to `at`; `next`: the first characters there */

/** @type {Readonly<Summary>} */
export const NO_SUMMARY = Object.freeze({ text: "", at: 0, next: "" });

/** @param {import("../story.js").Story} story @returns {Summary} */
export function summaryOf(story) {
  const { text, at, next } = /** @type {Partial<Summary>} */ (story.meta("summary") ?? {});
  if (typeof text !== "string") return NO_SUMMARY;
  const isPlaced = Number.isSafeInteger(at) && typeof next === "string" && next !== "";
  return isPlaced ? { text, at: Number(at), next: String(next) } : { ...NO_SUMMARY, text };
}

/** A summary of a text up to a place. @param {string} summary @param {string} text @param {number} at @returns {Summary} */
export const summaryUpTo = (summary, text, at) => ({ text: summary, at, next: text.slice(at, at + NEXT) });

/** How far into a text a summary tells of it, also where words before that were mended; 0 if it is of another beginning.
 * @param {Summary} summary @param {string} text */
export function toldOf({ at, next }, text) {
  return next === "" ? 0 : Math.max(0, placeOf(text, { at, next }));
}

/** The summary for a round behind a text: none that tells of what comes later. @param {import("../story.js").Story} story @param {string} text */
export function summaryFor(story, text) {
  const summary = summaryOf(story);
  return summary.at > text.length ? "" : summary.text;
}
