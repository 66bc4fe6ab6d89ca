// <srb-chapters>: the dialog that lists the chapters: what one jumps to, how many words each has, and where it stands.

import { endOfBlock, moveChapter, placeAfterStep } from "../desk/chapter_moves.js";
import { chaptersOf, firstWords } from "../formats/chapters.js";
import { countWords } from "../keep/describe.js";
import { withoutMarkers } from "../markers.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { DialogPart } from "./part.js";

/** @typedef {import("../formats/chapters.js").Chapter} Chapter */

const NUMBER = new Intl.NumberFormat("en");

class Chapters extends DialogPart {
  constructor() {
    super("chapters");
    /** @type {Chapter[]} */
    this.chapters = [];
    this.said = "";
  }

  listen() {
    super.listen();
    this.on(["head", "nodes", "story"], () => this.dialog?.open && this.read());
  }

  async open() {
    this.said = "";
    this.read();
    await super.open();
    this.focusOn(this.current);
  }

  read() {
    this.chapters = chaptersOf(this.desk.story).chapters.filter(({ text }) => text.trim() !== "");
    this.requestUpdate();
  }

  /** The index of the chapter with the caret. */
  get current() {
    const caret = this.desk.manuscript?.caret() ?? 0;
    return Math.max(
      0,
      this.chapters.findLastIndex(({ at }) => at <= caret),
    );
  }

  /** @param {number} index */
  focusOn(index) {
    const buttons = /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("button.jump"));
    buttons[Math.max(0, Math.min(index, buttons.length - 1))]?.focus();
  }

  /** Put the caret into a chapter, at its first word. @param {Chapter} chapter */
  jump({ at, text }) {
    const { manuscript } = this.desk;
    this.close();
    manuscript?.select(at + text.length - text.trimStart().length, undefined, "start");
    manuscript?.focus();
  }

  /** Move a chapter up or down. @param {number} index @param {1 | -1} step */
  async move(index, step) {
    const { desk, chapters } = this;
    const before = placeAfterStep(chapters, index, step);
    const chapter = chapters[index];
    if (before === null || !chapter) return;
    const at = await desk.withRounds(() => moveChapter(desk, chapters, index, before));
    if (at === null) return;
    desk.manuscript?.select(at, undefined, "start");
    this.read();
    await this.updateComplete;
    const now = this.chapters.findLastIndex((each) => each.at <= at);
    this.said = `“${nameOf(chapter)}” is ${now + 1} of ${this.chapters.length} now.`;
    this.requestUpdate();
    this.focusOn(now);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { key, altKey, ctrlKey, metaKey } = event;
    const buttons = [...this.querySelectorAll("button.jump")];
    const row = /** @type {Element} */ (event.target).closest("li");
    const index = row ? [...this.querySelectorAll("li")].indexOf(row) : -1;
    if ((ctrlKey || metaKey) && key.toLowerCase() === "z") {
      if (event.shiftKey) this.desk.redo();
      else this.desk.undo();
    } else if (ctrlKey || metaKey || index < 0) return;
    else if (key === "ArrowUp" || key === "ArrowDown") {
      const step = key === "ArrowUp" ? -1 : 1;
      if (altKey) this.move(index, step);
      else this.focusOn(index + step);
    } else if (key === "Home") this.focusOn(0);
    else if (key === "End") this.focusOn(buttons.length - 1);
    else return;
    event.preventDefault();
  }

  render() {
    const { chapters, current } = this;
    const isNested = chapters.some(({ level, name }) => level === 1 && name !== "");
    return html`<dialog class="chapters" aria-labelledby="chapters-title" closedby="any" @keydown=${this.onKey}>
      <header class="dialog-head">
        <h2 id="chapters-title">Chapters</h2>
        <button class="quiet" aria-label="Close" @click=${() => this.close()}><span aria-hidden="true">×</span></button>
      </header>
      <ol>${repeat(
        chapters,
        ({ name }, index) => `${index} ${name}`,
        (chapter, index) => this.row(chapter, index, { isNested, current }),
      )}</ol>
      ${
        chapters.some(({ name }) => name !== "")
          ? html`<p class="hint"><kbd>Enter</kbd> goes there, <kbd>Alt</kbd>+<kbd>↑</kbd> <kbd>↓</kbd> moves the chapter.</p>`
          : html`<p class="hint">A chapter begins at a line with <code>##</code> before its title, as <code>## The Salt Road</code>,
              and at a branch with a name.</p>`
      }
      <p class="hidden-words" role="status">${this.said}</p>
    </dialog>`;
  }

  /** @param {Chapter} chapter @param {number} index @param {{isNested: boolean, current: number}} list */
  row(chapter, index, { isNested, current }) {
    const name = nameOf(chapter);
    const step = (/** @type {1 | -1} */ by, /** @type {string} */ sign, /** @type {string} */ words) =>
      html`<button
        class="quiet step"
        aria-label=${`${words}: ${name}`}
        title=${words}
        ?disabled=${placeAfterStep(this.chapters, index, by) === null}
        @click=${() => this.move(index, by)}
      ><span aria-hidden="true">${sign}</span></button>`;
    const isDeep = isNested && chapter.level > 1;
    return html`<li class=${isDeep ? "deep" : ""}>
      <button class="quiet jump" aria-current=${index === current ? "true" : nothing} @click=${() => this.jump(chapter)}>
        <span class="name" dir="auto">${name}</span> <span class="count">${words(this.wordsOf(index, isNested))}</span>
      </button>
      ${step(-1, "▴", "Move up")}${step(1, "▾", "Move down")}
    </li>`;
  }

  /** How many words a chapter has, with those below it. @param {number} index @param {boolean} isNested */
  wordsOf(index, isNested) {
    const end = isNested && this.chapters[index]?.name !== "" ? endOfBlock(this.chapters, index) : index + 1;
    return this.chapters.slice(index, end).reduce((sum, { text, body }) => sum + countWords(text.slice(body)), 0);
  }
}

/** @param {Chapter} chapter */
const nameOf = ({ name, text }) => withoutMarkers(name) || firstWords(text);

/** @param {number} count */
const words = (count) => `${NUMBER.format(count)} ${count === 1 ? "word" : "words"}`;

customElements.define("srb-chapters", Chapters);
