// The pointer over the cards: a click or a tap on a word marks it, one with Shift marks where what is taken begins, a double click takes up to it, and pointing shows the mark
// that a click would set.

import { wordEndAt, wordStartAt } from "../../cuts.js";
import { put } from "../clipboard.js";
import { begin, mark } from "./gestures.js";

/** @typedef {import("../branches.js").Branches} Pane */

const BEAT = 500; // ms for which a card is pointed at before the text shows it
const DRAG = 5; // px; a longer way selects text

export class Pointer {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.pressed = { x: 0, y: 0 };
    this.hasOpened = false; // whether the first of two quick taps opened the card: the second one only marks
    this.previewed = "";
    /** @type {import("../card.js").Card|null} */
    this.previewOwner = null;
    /** @type {import("../card.js").Card|null} the card that is pointed at */
    this.looked = null;
    this.beat = 0; // timer
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const { pane } = this;
    pane.addEventListener("mousedown", (event) => this.onPress(event), { signal });
    pane.addEventListener("click", (event) => this.onClick(event), { signal });
    pane.addEventListener("dblclick", (event) => this.onDoubleClick(event), { signal });
    pane.addEventListener("copy", (event) => this.onCopy(event), { signal });
    pane.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    pane.addEventListener("pointerleave", () => this.preview(null), { signal });
    pane.addEventListener("pointerleave", () => this.look(null), { signal });
  }

  /** @param {MouseEvent} event */
  onPress(event) {
    this.pressed = { x: event.clientX, y: event.clientY };
    if ((event.shiftKey || event.detail > 1) && isInside(event, ".text")) event.preventDefault(); // it would select text
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
    if (card) pane.board?.setCurrent(card.slot.number, { focus: button !== null }); // the button may go, or be hidden
    if (button instanceof HTMLElement && button.dataset.card) {
      pane.desk.take(Number(button.dataset.card), { at: null, go: !event.shiftKey });
      return;
    }
    if (button instanceof HTMLElement) {
      /** @type {HTMLDialogElement|null} */ (button.closest("dialog.menu"))?.close();
      /** @type {HTMLElement|null} */ (button.closest("[popover]"))?.hidePopover();
      pane.run({ name: button.dataset.act ?? "" });
      return;
    }
    if (this.isDrag(event)) return;
    const opens = card !== null && pane.board?.open(card.slot.number) === true;
    if (event.detail < 2) this.hasOpened = opens;
    if (opens) return pane.requestUpdate();
    const word = this.wordAt(event);
    if (!word) return;
    const start = wordStartAt(word.slot.text, word.end);
    if (event.shiftKey && event.detail < 2) begin(pane, word.slot, word.slot.start === start ? 0 : start);
    if (event.shiftKey) return pane.requestUpdate();
    const isAgain = event.detail < 2 && word.slot.mark === word.end; // the second click on a word takes its mark away
    mark(pane, word.slot, isAgain ? 0 : word.end);
    pane.requestUpdate();
  }

  /** @param {MouseEvent} event */
  onDoubleClick(event) {
    const word = this.hasOpened ? null : this.wordAt(event);
    if (word && event.shiftKey) begin(this.pane, word.slot, 0); // the first of the two clicks has set it
    if (word) this.pane.desk.take(word.slot.number, { at: word.end, go: !event.shiftKey });
  }

  /** The word at which an event happens: its branch, and its end; null beside the text. @param {MouseEvent} event */
  wordAt(event) {
    const card = isInside(event, ".body") ? this.pane.cardOf(event) : null;
    const offset = card?.content.offsetAt(event.clientX, event.clientY) ?? null;
    return card && offset !== null ? { slot: card.slot, end: wordEndAt(card.slot.text, offset) } : null;
  }

  /** Copy the branch's own characters, not the signs that stand for hidden ones. @param {ClipboardEvent} event */
  onCopy(event) {
    const card = this.pane.cardOf(event);
    const selection = getSelection();
    if (!card || !selection?.rangeCount) return;
    const { from, to } = card.content.offsetsOf(selection.getRangeAt(0));
    if (from < to) put(event, card.slot.text, from, to);
  }

  /** Show the mark that a click would set. @param {PointerEvent} event */
  onMove(event) {
    const { pane } = this;
    if (event.pointerType !== "mouse" || event.buttons) return;
    const card = pane.cardOf(event);
    this.preview(card, card ? (this.wordAt(event)?.end ?? null) : null);
    this.look(card);
  }

  /** Show the card that is pointed at in the text, after a beat, unless one is shown that a person has asked for. @param {import("../card.js").Card|null} card */
  look(card) {
    const { desk } = this.pane;
    if (card === this.looked) return;
    this.looked = card;
    clearTimeout(this.beat);
    if (desk.ghost && !desk.ghost.moves) desk.showGhost(null);
    if (!card || !desk.settings.shows_pointed) return;
    this.beat = window.setTimeout(() => desk.ghost ?? desk.showGhost({ number: card.slot.number, moves: false }), BEAT);
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
