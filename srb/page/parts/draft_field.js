/** What a field does whose words are kept with the story until they are sent: ↑ offers those that were sent last. */

import { draftOf, keepDraft, recalled, sentOf } from "../desk/drafts.js";

/** @typedef {HTMLTextAreaElement | HTMLInputElement} Field */

/**
 * The handlers of a field in a form.
 * @param {import("../desk.js").Desk} desk @param {() => string} nameOf @param {(text: string) => void} [set] hears of each change
 */
export function draftField(desk, nameOf, set = () => {}) {
  return {
    /** @param {Event} event */
    input({ target }) {
      const { value } = /** @type {Field} */ (target);
      keepDraft(desk, nameOf(), value);
      set(value);
    },
    /** @param {KeyboardEvent} event */
    keydown(event) {
      const field = /** @type {Field} */ (event.target);
      const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      const isRecalled = sentOf(desk, nameOf()).includes(field.value) && field.value !== draftOf(desk, nameOf());
      const isAtBeginning = way === 1 && field.selectionEnd === 0;
      if (!way || event.shiftKey || !(isRecalled || isAtBeginning)) return;
      event.preventDefault();
      field.value = recalled(desk, nameOf(), field.value, way === 1 ? 1 : -1);
      set(field.value);
    },
  };
}
