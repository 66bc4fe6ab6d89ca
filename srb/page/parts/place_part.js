// The base of what stands at a place of the page and hides nothing else: a list of choices, a form, answers. A click beside it closes
// it, unless it stays; so does Escape, and the focus goes back.

import { quoted } from "../desk/moves.js";
import { isComposing } from "../keys.js";
import { wordsOf } from "../markdown.js";
import { html } from "../vendor/lit.js";
import { besideLines } from "./beside_lines.js";
import { dialogHead } from "./dialog_head.js";
import { DialogPart } from "./part.js";

/** @typedef {{lines: DOMRect | null | undefined, isBelow?: boolean}} Anchor   lines on the screen, and whether it rather stands below them */

const MOST = 496; // px, of its height
const OPEN = ".at-place:popover-open";

export class PlacePart extends DialogPart {
  /** @param {string} dialogName */
  constructor(dialogName) {
    super(dialogName);
    this.passage = ""; // that is selected, if it is about that
    /** @type {Element | null} that had the focus before it */
    this.from = null;
  }

  listen() {
    super.listen();
    addEventListener("resize", () => this.dialog && this.isShown && this.place(), { signal: this.listeners.signal });
    this.on("head", ({ why }) => why === "load" && this.dialog && this.close()); // another story
  }

  /** What has grown beyond the window stands anew. */
  updated() {
    if (this.isShown && this.dialog.getBoundingClientRect().bottom > innerHeight) this.place();
  }

  /** What it stands at: the passage, or the button that continues. @returns {Anchor} */
  get anchor() {
    const { manuscript } = this.desk;
    if (!this.passage || !manuscript) {
      const lines = document.querySelector("srb-header .split")?.getBoundingClientRect();
      return { lines: lines?.height ? lines : null, isBelow: true }; // the focus mode has no header
    }
    const { from, to } = manuscript.selection;
    return { lines: manuscript.box(from, to) ?? manuscript.rect(to) };
  }

  /** The passage, as a title has it. */
  get quote() {
    return quoted(this.passage.split("\n").map(wordsOf).join("\n"));
  }

  /** Whether it stays while a person goes on beside it. */
  get stays() {
    return false;
  }

  get isShown() {
    return this.dialog.matches(":popover-open");
  }

  appear() {
    let from = document.activeElement;
    for (const other of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(OPEN))) {
      if (other === this.dialog) continue;
      if (other.contains(from)) from = /** @type {PlacePart | null} */ (other.parentElement)?.from ?? from;
      other.hidePopover();
    }
    if (!this.isShown) {
      this.from = from;
      this.dialog.showPopover();
    }
    this.place();
  }

  close() {
    if (!this.isShown) return;
    const { activeElement: active, body } = document;
    const isLeft = this.stays && (active === body || this.contains(active)); // others give the focus back themselves
    this.dialog.hidePopover();
    if (isLeft) /** @type {HTMLElement | null} */ (this.from)?.focus();
  }

  /** It was closed, by whatever. */
  closed() {}

  /** @param {KeyboardEvent} _event pressed in it */
  onKey(_event) {}

  /** Stand beside the lines, never over them. */
  place() {
    const { dialog, anchor } = this;
    const lines = anchor.lines ?? new DOMRect(innerWidth / 2, innerHeight / 3, 0, 0);
    dialog.style.maxHeight = "";
    const window = { width: innerWidth, height: innerHeight };
    const { left, top, most } = besideLines(lines, dialog.getBoundingClientRect(), MOST, window, anchor.isBelow);
    Object.assign(dialog.style, { left: `${left}px`, top: `${top}px`, maxHeight: `${most}px` });
  }

  /** Its box, with a head. @param {unknown} title @param {unknown} content */
  box(title, content) {
    const key = (/** @type {KeyboardEvent} */ event) => {
      const form = this.querySelector("form");
      const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey) && form !== null;
      const closes = event.key === "Escape" && this.stays;
      if (isComposing(event) || !(sends || closes)) return this.onKey(event);
      event.preventDefault();
      event.stopPropagation();
      return sends ? form.requestSubmit() : this.close();
    };
    return html`<dialog popover=${this.stays ? "manual" : "auto"} class="at-place" tabindex="-1" aria-labelledby="${this.dialogName}-title"
      @keydown=${key} @toggle=${(/** @type {any} */ { newState }) => newState === "closed" && this.closed()}>
      ${dialogHead(this, title)}
      ${content}
    </dialog>`;
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
