/** What is left of a story that grows by itself, for when its window is opened again: this browser keeps it, and when it was last at work. */

import { isCount, isRecord } from "../story/check.js";

/** @typedef {import("../story/types.js").Place} Place */
/**
 * @typedef {object} Left
 * @property {string} story
 * @property {Place} root  the text's end, behind which it grows
 * @property {number | null} words  that are left; null: however many
 * @property {number | null} until  the time at which it ends; null: whenever
 * @property {number} closed  seconds for which its window may be closed
 * @property {number} seen  the time at which it was last at work
 * @property {string | null} run  of the part that was being written
 */

const KEY = "srb.growth";
export const BEAT = 5000; // ms between two notes that it is at work
const SILENT = 2.5 * BEAT; // after which no window is at work any more

/** @param {Left} left */
export function keepGrowth(left) {
  try {
    localStorage.setItem(KEY, JSON.stringify(left));
  } catch {
    // storage is full or switched off: it ends with its window
  }
}

export function forgetGrowth() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
}

/**
 * What is left in a story, and the ms until this window may take it up; null if nothing is, or its window was closed for too long.
 * @param {string} story @param {number} [now]
 */
export function growthLeft(story, now = Date.now()) {
  const left = kept();
  if (left?.story !== story) return null;
  const silent = now - left.seen;
  if (silent > 1000 * left.closed || (left.until ?? now) < now) return null;
  return { left, wait: Math.max(0, SILENT - silent) };
}

/** @returns {Left | null} */
function kept() {
  try {
    const left = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return isLeft(left) ? left : null;
  } catch {
    return null; // switched off, or another program's
  }
}

/** @param {unknown} value @returns {value is Left} */
function isLeft(value) {
  if (!isRecord(value) || !isRecord(value.root)) return false;
  const { story, root, words, until, closed, seen, run } = value;
  const isNumber = (/** @type {unknown} */ each) => typeof each === "number" && Number.isFinite(each);
  return (
    [story, root.node].every((each) => typeof each === "string") &&
    isCount(root.at) &&
    [closed, seen].every(isNumber) &&
    [words, until].every((each) => each === null || isNumber(each)) &&
    (run === null || typeof run === "string")
  );
}
