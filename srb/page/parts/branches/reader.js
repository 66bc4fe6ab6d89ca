// The reader: one branch's whole text in the manuscript's width, over the cards. It grows with the branch.

import { msg } from "../../languages.js";
import { endWord } from "../../round.js";
import { BranchText } from "./branch_text.js";

/** @typedef {import("../../round.js").Slot} Slot */
/** @typedef {import("./highlights.js").Highlights} Highlights */

export class Reader {
  /** @param {{dialog: HTMLDialogElement, highlights: Highlights}} given `dialog` holds .reader-head and .reader-text */
  constructor({ dialog, highlights }) {
    this.dialog = dialog;
    this.highlights = highlights;
    this.head = /** @type {HTMLElement} */ (dialog.querySelector(".reader-head"));
    this.scroller = /** @type {HTMLElement} */ (dialog.querySelector(".reader-text"));
    const text = document.createElement("div");
    text.className = "text";
    this.scroller.append(text);
    this.content = new BranchText(text);
    /** @type {Slot|null} */
    this.slot = null;
    this.label = "";
    this.stopAt = "";
    this.frame = 0;
    this.lastWrite = 0;
  }

  get isOpen() {
    return this.dialog.open;
  }

  /** Show a branch; a reader that is open stays at the same place of the text. @param {Slot} slot @param {string} label @param {string} stopAt */
  show(slot, label, stopAt) {
    const { scrollTop } = this.scroller;
    if (this.slot !== slot) this._clear();
    this.slot = slot;
    this.label = label;
    this.stopAt = stopAt;
    this._write();
    if (!this.isOpen) this.dialog.showModal();
    this.scroller.scrollTop = scrollTop;
    this.mark();
    this._schedule();
  }

  close() {
    this.dialog.close();
  }

  /** The dialog has closed. */
  closed() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this._clear();
    this.slot = null;
  }

  _clear() {
    this.content.clear();
    this.highlights.clear(this);
  }

  /** Show the mark anew, and scroll to it if it is out of view. @param {{reveal?: boolean}} [options] */
  mark({ reveal = false } = {}) {
    const mark = this.slot?.mark ?? null;
    this.highlights.set("srb-kept", this, [mark === null ? null : this.content.range(0, mark)]);
    const rect = reveal && mark ? this.content.rect(mark - 1, mark) : null;
    const box = this.scroller.getBoundingClientRect();
    if (rect && (rect.bottom > box.bottom || rect.top < box.top))
      this.scroller.scrollTop += rect.top - box.top - box.height / 2;
  }

  _write() {
    const { slot, content } = this;
    if (!slot) return;
    if (slot.text.length < content.written) content.clear();
    const { version } = content;
    while (content.write(slot.text));
    if (content.version !== version) this.mark(); // its nodes were replaced
    const { words } = endWord(slot, this.stopAt);
    const branch = msg`Branch ${this.label}`;
    const title = words ? `${branch} · ${words}` : branch;
    if (this.head.textContent !== title) this.head.textContent = title;
  }

  _schedule() {
    this.frame ||= requestAnimationFrame((now) => {
      this.frame = 0;
      if (!this.slot || !this.isOpen) return;
      if (now - this.lastWrite >= this.content.interval) {
        this.lastWrite = now;
        this._write();
      }
      this._schedule();
    });
  }
}
