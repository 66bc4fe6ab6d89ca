// The pointer over the cards: a click on a word takes up to it, a tap marks it, and pointing shows what a click would take.

import { wordEndAt } from "../../cuts.js";
import { mark } from "./gestures.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../round.js").Slot} Slot */

const DRAG = 5; // px; a longer way selects text

export class Pointer {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.pressed = { x: 0, y: 0 };
    this.previewed = "";
    /** @type {import("../card.js").Card|null} */
    this.previewOwner = null;
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const { pane } = this;
    pane.addEventListener("mousedown", (event) => this.onPress(event), { signal });
    pane.addEventListener("click", (event) => this.onClick(event), { signal });
    pane.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    pane.addEventListener("pointerleave", () => this.preview(null), { signal });
  }

  /** @param {MouseEvent} event */
  onPress(event) {
    this.pressed = { x: event.clientX, y: event.clientY };
    if (event.shiftKey && isInside(event, ".text")) event.preventDefault(); // it would select text
  }

  /** Whether the pointer moved since it was pressed, to select text. @param {MouseEvent} event */
  isDrag({ clientX, clientY }) {
    return Math.hypot(clientX - this.pressed.x, clientY - this.pressed.y) > DRAG;
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const { pane } = this;
    const button = event.target instanceof Element ? event.target.closest("button[data-act]") : null;
    const card = pane.cardOf(event);
    if (card) pane.board?.setCurrent(card.slot.number);
    if (button instanceof HTMLElement && button.dataset.card) {
      return pane.desk.take(Number(button.dataset.card), { at: null, go: !event.shiftKey });
    }
    if (button instanceof HTMLElement) {
      /** @type {HTMLDialogElement|null} */ (button.closest("dialog.menu"))?.close();
      return pane.run({ name: button.dataset.act ?? "" });
    }
    const slot = card?.slot ?? (isInside(event, ".reader-text") ? pane.reader?.slot : null);
    const at = slot ? this.wordAt(slot, event) : null;
    if (!slot || at === null || this.isDrag(event)) return;
    const isMouse = /** @type {PointerEvent} */ (event).pointerType === "mouse" || !("pointerType" in event);
    if (event.altKey || !isMouse) mark(pane, slot, at);
    else pane.desk.take(slot.number, { at, go: !event.shiftKey });
    pane.requestUpdate();
  }

  /** The end of the word at a point; null beside the text. @param {Slot} slot @param {MouseEvent} event */
  wordAt(slot, { clientX, clientY }) {
    const { pane } = this;
    const content = pane.reader?.isOpen ? pane.reader.content : pane.board?.cards.get(slot.number)?.content;
    const offset = content?.offsetAt(clientX, clientY) ?? null;
    return offset === null ? null : wordEndAt(slot.text, offset);
  }

  /** Show what a click would take. @param {PointerEvent} event */
  onMove(event) {
    const { pane } = this;
    if (event.pointerType !== "mouse" || event.buttons) return;
    const card = pane.cardOf(event);
    const at = card && isInside(event, ".body") ? this.wordAt(card.slot, event) : null;
    this.preview(card, at);
  }

  /** @param {import("../card.js").Card|null} card @param {number|null} [at] */
  preview(card, at = null) {
    const { highlights } = this.pane;
    if (this.previewed === `${card?.slot.number}/${at}`) return;
    this.previewed = `${card?.slot.number}/${at}`;
    if (this.previewOwner) highlights?.clear(this.previewOwner, "srb-preview");
    this.previewOwner = card;
    if (card && at !== null) highlights?.set("srb-preview", card, [card.content.range(0, at)]);
  }
}

/** @param {Event} event @param {string} selector */
export function isInside(event, selector) {
  return event.target instanceof Element && event.target.closest(selector) !== null;
}
