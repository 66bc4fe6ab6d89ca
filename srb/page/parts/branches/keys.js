// The keys of the branches' pane, by `event.code`, so that they are at the same places on every keyboard.

import { isComposing } from "../../keys.js";

/** @typedef {{name: string, value?: number}} Act */

/** Keys that are letters or signs; a setting switches them off. @type {Record<string, Act>} */
const SINGLE = {
  KeyX: { name: "prune" },
  KeyR: { name: "refill" },
  KeyE: { name: "extend" },
  KeyV: { name: "vary" },
  KeyG: { name: "more" },
  KeyD: { name: "roll" },
  KeyT: { name: "alternatives" },
  KeyL: { name: "filter" },
  KeyO: { name: "sort" },
  KeyP: { name: "pin" },
  KeyF: { name: "fold" },
  KeyB: { name: "star" },
  KeyN: { name: "note" },
  KeyC: { name: "compare" },
  KeyS: { name: "put" },
  KeyI: { name: "write" },
  Period: { name: "markSentence" },
  NumpadDecimal: { name: "markSentence" },
};

/** @type {Record<string, Act>} */
const OTHERS = {
  ArrowLeft: { name: "left" },
  ArrowRight: { name: "right" },
  ArrowUp: { name: "up" },
  ArrowDown: { name: "down" },
  Home: { name: "first" },
  End: { name: "last" },
  PageDown: { name: "window", value: 1 },
  PageUp: { name: "window", value: -1 },
  Enter: { name: "take" },
  NumpadEnter: { name: "take" },
  Space: { name: "read" },
  Backspace: { name: "unmark" },
  ContextMenu: { name: "menu" },
};

/** @type {Record<string, Act>} */
const SHIFTED = {
  Enter: { name: "takeOnly" },
  ArrowRight: { name: "beginNext" },
  ArrowLeft: { name: "beginPrevious" },
};

/** What a key does in the pane; null: it is not the pane's. @param {KeyboardEvent} event @param {boolean} singleKeys @returns {Act|null} */
export function actOf(event, singleKeys) {
  const { code, shiftKey, ctrlKey, altKey, metaKey } = event;
  if (altKey || isComposing(event)) return null;
  if (ctrlKey || metaKey) {
    if (shiftKey) return null;
    return code === "ArrowRight" ? { name: "markNext" } : code === "ArrowLeft" ? { name: "markPrevious" } : null;
  }
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(code)?.[1];
  if (digit !== undefined)
    return singleKeys ? { name: shiftKey ? "takeOnlyDigit" : "takeDigit", value: Number(digit) } : null;
  if (shiftKey) return SHIFTED[code] ?? null;
  return OTHERS[code] ?? (singleKeys ? (SINGLE[code] ?? null) : null);
}

/** Whether a key belongs to the element that has the focus: a field takes all, a button those that press it.
 * @param {KeyboardEvent} event */
export function isTaken(event) {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches("input, textarea, select") || target.isContentEditable) return true;
  return target.matches("button, a, summary") && ["Enter", "NumpadEnter", "Space"].includes(event.code);
}
