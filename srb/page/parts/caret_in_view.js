// The caret's line stays in view when the manuscript gets another size: when the outline or the side panel opens, a name is asked
// for, or a phone shows its keyboard. A line that a person has scrolled away from stays where it is.

import { EditorView, ViewPlugin } from "../vendor/codemirror.js";

/** @typedef {{isSeen: boolean, width: number, height: number}} Look   at the caret's line, and at the size of the view */

const BELOW = 1 / 3; // of the view is left below the line

class CaretInView {
  /** @type {boolean | null} null: not looked yet */
  isSeen = null;
  isAwaited = false; // the editor has yet to scroll to the line
  width = 0;
  height = 0;
  isGone = false;
  #look;
  #observer;

  /** @param {EditorView} view */
  constructor(view) {
    this.view = view;
    const { scrollDOM } = view;
    const { clientWidth, clientHeight } = scrollDOM;
    [this.width, this.height] = [clientWidth, clientHeight];
    this.#look = { key: this, read: () => this.read(), write: (/** @type {Look} */ look) => this.follow(look) };
    const look = () => view.requestMeasure(this.#look);
    this.onScroll = look;
    scrollDOM.addEventListener("scroll", look, { passive: true });
    this.#observer = new ResizeObserver(look);
    this.#observer.observe(scrollDOM);
  }

  /** @param {import("../vendor/codemirror.js").ViewUpdate} update */
  update({ transactions, selectionSet, docChanged }) {
    if (transactions.some(({ scrollIntoView }) => scrollIntoView)) this.isSeen = this.isAwaited = true;
    if (selectionSet || docChanged) this.view.requestMeasure(this.#look);
  }

  destroy() {
    this.isGone = true;
    this.view.scrollDOM.removeEventListener("scroll", this.onScroll);
    this.#observer.disconnect();
  }

  /** @returns {Look} */
  read() {
    const { scrollDOM, state } = this.view;
    const { clientWidth: width, clientHeight: height } = scrollDOM;
    const line = this.view.coordsAtPos(state.selection.main.head);
    const { top } = scrollDOM.getBoundingClientRect();
    return { isSeen: line !== null && line.top >= top - 1 && line.bottom <= top + height + 1, width, height };
  }

  /** Bring the line back that a new size has put out of view, and note what is in view. @param {Look} look */
  follow({ isSeen, width, height }) {
    if (width === 0 || height === 0) return; // not shown
    const isResized = width !== this.width || height !== this.height;
    [this.width, this.height] = [width, height];
    if (isSeen) this.isAwaited = false;
    if (!isResized || this.isSeen === null) this.isSeen = isSeen || this.isAwaited;
    else if (this.isSeen && !isSeen) queueMicrotask(() => this.show()); // no transaction is allowed in a measure
  }

  show() {
    if (this.isGone) return;
    const { head } = this.view.state.selection.main;
    const yMargin = Math.round(this.height * BELOW);
    this.view.dispatch({ effects: EditorView.scrollIntoView(head, { y: "end", yMargin }) });
  }
}

/** An extension of the editor. */
export const caretInView = ViewPlugin.fromClass(CaretInView);
