/**
 * The gap of a round: the place in the text where its cards go. They begin at one offset, and what stands behind another one stays
 * behind them. At the end of a text nothing does.
 */

import { wordEndAt, wordStartAt } from "../cuts.js";
import { trimmedLength } from "../prompt.js";

/** @typedef {import("../story/types.js").Stretch} Stretch */
/** @typedef {{at: number, until: number}} Gap   cards stand in the place of what lies between the two */

/**
 * Return the gap at a caret: behind the word that it is in, and before the blanks there, which stay with what follows.
 * @param {string} text @param {number} caret @returns {Gap}
 */
export function gapAt(text, caret) {
  const end = wordEndAt(text, caret);
  const at = trimmedLength(text.slice(0, wordStartAt(text, end) < caret && caret < end ? end : caret));
  return /\S/u.test(text.slice(at)) ? { at, until: at } : { at: trimmedLength(text), until: text.length };
}

/**
 * Return the gap that a selected passage leaves: it has no blanks at its ends. Null if nothing else is selected.
 * @param {string} text @param {{from: number, to: number}} selection @returns {Gap | null}
 */
export function passageAt(text, { from, to }) {
  const passage = text.slice(from, to);
  const at = from + passage.length - passage.trimStart().length;
  return passage.trim() === "" ? null : { at, until: at + passage.trim().length };
}

/**
 * Return the stretches of a card that join the words before them: they bring their own space, or need one.
 * @param {string} before
 * @param {Stretch[]} stretches
 * @returns {Stretch[]}
 */
export function joined(before, stretches) {
  const [first, ...others] = stretches;
  if (first === undefined || before === "") return stretches;
  const blank = /^[^\S\n]*/u.exec(first.text)?.[0].length ?? 0;
  if (/\s$/u.test(before)) {
    const of = first.of && { ...first.of, at: first.of.at + blank };
    const rest = { ...first, text: first.text.slice(blank), ...(of ? { of } : {}) };
    return rest.text ? [rest, ...others] : others;
  }
  const needsSpace = blank === 0 && /^[\p{L}\p{N}]/u.test(first.text) && /[\p{L}\p{N}.,;:!?…]$/u.test(before);
  return needsSpace ? [{ text: " ", by: first.by }, ...stretches] : stretches;
}

/**
 * Return what has to stand between a card and the words behind it: a space, the break of a paragraph that they began, or nothing.
 * @param {string} before  the text before the card @param {string} card @param {string} behind
 */
export function between(before, card, behind) {
  if (card === "" || behind === "" || /\s$/u.test(card) || /^\s/u.test(behind)) return "";
  const paragraph = /\n\s*$/u.exec(before);
  if (paragraph) return paragraph[0];
  return /^[\p{L}\p{N}"'“‘«(*_]/u.test(behind) ? " " : "";
}
