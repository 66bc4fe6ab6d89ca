// <srb-chapters>: the dialog that lists the chapters: what one jumps to, how many words each has, and where it stands.

import { chapterGoalsOf, setChapterGoal } from "../desk/chapter_goals.js";
import { endOfBlock, moveChapter, placeAfterStep } from "../desk/chapter_moves.js";
import { goalsOf, MOST_WORDS, wordsIn } from "../desk/goals.js";
import { chaptersOf, firstWords } from "../formats/chapters.js";
import { countWords } from "../keep/describe.js";
import { msg, NUMBER, wordCount } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { icon } from "./icons.js";
import { msgHtml } from "./msg_html.js";
import { DialogPart } from "./part.js";

/** @typedef {import("../formats/chapters.js").Chapter} Chapter */

class Chapters extends DialogPart {
  constructor() {
    super("chapters");
    /** @type {Chapter[]} */
    this.chapters = [];
    /** @type {ReturnType<typeof chapterGoalsOf>} */
    this.goals = new Map();
    /** @type {number | null} the index of the chapter of which the goal is being written */
    this.goalOf = null;
    this.said = "";
  }

  listen() {
    super.listen();
    this.on(["head", "nodes", "story"], () => this.dialog?.open && this.read());
  }

  async open() {
    this.said = "";
    this.goalOf = null;
    this.read();
    await super.open();
    this.focusOn(this.current);
  }

  read() {
    this.chapters = chaptersOf(this.desk.story).chapters.filter(({ text }) => text.trim() !== "");
    this.goals = chapterGoalsOf(this.desk.story, this.chapters);
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
    this.said = msg`“${nameOf(chapter)}” is ${now + 1} of ${this.chapters.length} now.`;
    this.requestUpdate();
    this.focusOn(now);
  }

  /** Ask for a chapter's goal beside it, or no more. @param {number} index */
  async askGoal(index) {
    this.goalOf = this.goalOf === index ? null : index;
    this.requestUpdate();
    await this.updateComplete;
    const field = /** @type {HTMLInputElement | null} */ (this.querySelector("input"));
    field?.focus();
    field?.select();
  }

  /** @param {number} index @param {SubmitEvent} event */
  setGoal(index, event) {
    event.preventDefault();
    const { words } = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    const chapter = this.chapters[index];
    if (!chapter) return;
    const count = wordsIn(words);
    setChapterGoal(this.desk, this.chapters, chapter, count);
    const { chapter: all } = goalsOf(this.desk.story);
    const name = nameOf(chapter);
    const none = all ? msg`“${name}” has the goal of all chapters now.` : msg`“${name}” has no goal now.`;
    this.said = count ? msg`“${name}” is to have ${wordCount(count)}.` : none;
    return this.leaveGoal();
  }

  async leaveGoal() {
    const index = this.goalOf ?? 0;
    this.goalOf = null;
    this.read();
    await this.updateComplete;
    /** @type {HTMLElement | undefined} */ (this.querySelectorAll("button.goal")[index])?.focus();
  }

  /** @param {KeyboardEvent} event */
  onGoalKey(event) {
    event.stopPropagation(); // the list's keys are the field's own here
    if (event.key !== "Escape") return;
    event.preventDefault(); // the dialog stays open
    this.leaveGoal();
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
      ${dialogHead(this, msg`Chapters`)}
      <ol>${repeat(
        chapters,
        ({ name }, index) => `${index} ${name}`,
        (chapter, index) => this.row(chapter, index, { isNested, current }),
      )}</ol>
      ${
        chapters.some(({ name }) => name !== "")
          ? html`<p class="hint">${msgHtml`<kbd>Enter</kbd> goes there, <kbd>Alt</kbd>+<kbd>↑</kbd> <kbd>↓</kbd> moves the chapter.`}</p>`
          : html`<p class="hint">${msgHtml`A chapter begins at a line with <code>##</code> before its title, as <code>## The Salt Road</code>, and at a branch with a name.`}</p>`
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
      >${icon(sign)}</button>`;
    const isDeep = isNested && chapter.level > 1;
    return html`<li class=${isDeep ? "deep" : ""}>
      <button class="quiet jump" aria-current=${index === current ? "true" : nothing} @click=${() => this.jump(chapter)}>
        <span class="name" dir="auto">${name}</span> ${this.count(chapter, this.wordsOf(index, isNested), isNested)}
      </button>
      <button class="quiet goal" aria-label=${msg`Goal of words: ${name}`} aria-expanded=${this.goalOf === index ? "true" : "false"}
        @click=${() => this.askGoal(index)}>${msg`Goal`}</button>
      ${step(-1, "up", msg`Move up`)}${step(1, "down", msg`Move down`)}
      ${this.goalOf === index ? this.goalForm(chapter, index) : nothing}
    </li>`;
  }

  /** The words of a chapter, beside those that it is to have; parts of several chapters have only a goal of their own. @param {Chapter} chapter @param {number} count @param {boolean} isNested */
  count(chapter, count, isNested) {
    const isPart = chapter.name === "" || (isNested && chapter.level === 1);
    const goal = this.goals.get(chapter)?.words ?? (isPart ? 0 : goalsOf(this.desk.story).chapter);
    if (goal === 0) return html`<span class="count">${wordCount(count)}</span>`;
    return html`<span class="count">${count >= goal ? "✓ " : ""}${msg`${NUMBER.format(count)} of ${wordCount(goal)}`}
      <progress max=${goal} .value=${Math.min(count, goal)} aria-hidden="true"></progress></span>`;
  }

  /** @param {Chapter} chapter @param {number} index */
  goalForm(chapter, index) {
    const { chapter: all } = goalsOf(this.desk.story);
    return html`<form novalidate @submit=${(/** @type {SubmitEvent} */ event) => this.setGoal(index, event)} @keydown=${this.onGoalKey}>
      <label>${msg`Words of this chapter`} <input name="words" type="number" min="0" max=${MOST_WORDS} step="50" inputmode="numeric"
        placeholder=${all || msg`no goal`} .value=${String(this.goals.get(chapter)?.words ?? "")}></label>
      <button class="main">${msg`Set`}</button>
      <button type="button" @click=${() => this.leaveGoal()}>${msg`Cancel`}</button>
    </form>`;
  }

  /** How many words a chapter has, with those below it. @param {number} index @param {boolean} isNested */
  wordsOf(index, isNested) {
    const end = isNested && this.chapters[index]?.name !== "" ? endOfBlock(this.chapters, index) : index + 1;
    return this.chapters.slice(index, end).reduce((sum, { text, body }) => sum + countWords(text.slice(body)), 0);
  }
}

/** @param {Chapter} chapter */
const nameOf = ({ name, text }) => withoutMarkers(name) || firstWords(text);

customElements.define("srb-chapters", Chapters);
