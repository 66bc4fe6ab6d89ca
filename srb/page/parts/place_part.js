// The base of what stands at a place of the page and hides nothing else: a list of choices, a small form. A click beside it closes it.

import { besideLines } from "./beside_lines.js";
import { DialogPart } from "./part.js";

const MOST = 496; // px, of its height

export class PlacePart extends DialogPart {
  listen() {
    super.listen();
    addEventListener("resize", () => this.dialog && this.isShown && this.place(), { signal: this.listeners.signal });
  }

  /** The lines on the screen that it stands beside; null if they are not in view. @returns {DOMRect | null | undefined} */
  get lines() {
    return null;
  }

  /** Whether it rather stands below them. */
  get isBelow() {
    return false;
  }

  get isShown() {
    return this.dialog.matches(":popover-open");
  }

  showModal() {
    if (!this.isShown) this.dialog.showPopover();
    this.place();
  }

  close() {
    if (this.isShown) this.dialog.hidePopover();
  }

  /** Stand beside the lines, never over them. */
  place() {
    const { dialog } = this;
    const lines = this.lines ?? new DOMRect(innerWidth / 2, innerHeight / 3, 0, 0);
    dialog.style.maxHeight = "";
    const window = { width: innerWidth, height: innerHeight };
    const { left, top, most } = besideLines(lines, dialog.getBoundingClientRect(), MOST, window, this.isBelow);
    Object.assign(dialog.style, { left: `${left}px`, top: `${top}px`, maxHeight: `${most}px` });
  }

  /** @returns {HTMLButtonElement[]} */
  get choices() {
    return [...this.querySelectorAll("li button")].map((each) => /** @type {HTMLButtonElement} */ (each));
  }

  /** Go through the choices by the arrow keys; returns whether the key did that. @param {KeyboardEvent} event */
  step(event) {
    const { choices } = this;
    const now = choices.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: now + 1,
      ArrowUp: now < 0 ? -1 : now - 1,
      Home: 0,
      End: choices.length - 1,
    });
    const next = steps[event.key];
    if (next === undefined || !choices.length || event.ctrlKey || event.altKey || event.metaKey) return false;
    event.preventDefault();
    event.stopPropagation();
    choices[(next + choices.length) % choices.length].focus();
    return true;
  }
}
