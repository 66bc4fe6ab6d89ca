/**
 * <srb-plan>: chapters, in the side panel, with their words, their goals and a line on each, and on the scenes of the one with the caret; and beats, of
 * which a round writes the next one. Each key applies at once.
 */

import {
  addBeats,
  beatsIn,
  beforeCaret,
  LONGEST as LONGEST_BEAT,
  MOST,
  moveBeat,
  tick,
  writeNextBeat,
} from "../desk/beats.js";
import { chapterGoalsOf, setChapterGoal } from "../desk/chapter_goals.js";
import { moveChapter, stepsOf } from "../desk/chapter_moves.js";
import { goalsOf, MOST_WORDS, wordsIn } from "../desk/goals.js";
import { emptyBefore, LONGEST, setSynopsis, toldParts } from "../desk/synopses.js";
import { changeAll } from "../desk/values.js";
import { firstWords } from "../formats/chapters.js";
import { countWords } from "../keep/describe.js";
import { isComposing } from "../keys.js";
import { msg, NUMBER, wordCount } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { html, live, nothing, repeat } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { msgHtml } from "./msg_html.js";
import { WritingPart } from "./writing_part.js";

/** @typedef {import("../desk/beats.js").Known} Beat */
/** @typedef {import("../desk/synopses.js").Told} Told */
/** @typedef {import("../formats/chapters.js").Chapter} Chapter */

const PAUSE = 400; // ms after which names that have changed are in the list: each time costs the length of the text

class PlanPart extends WritingPart {
  constructor() {
    super();
    /** @type {Told[]} */
    this.parts = [];
    /** @type {Chapter[]} */
    this.chapters = [];
    /** @type {ReturnType<typeof stepsOf>} where each chapter may go */
    this.steps = [];
    /** @type {ReturnType<typeof chapterGoalsOf>} */
    this.goals = new Map();
    /** Words by a chapter's text, of which most stay as they are. @type {Map<string, number>} */
    this.counts = new Map();
    /** @type {number | null} the index of the chapter of which the goal is being written */
    this.goalOf = null;
    this.isNested = false; // whether parts (`#`) hold chapters (`##`)
    this.names = ""; // of all chapters
    this.hadFocus = false; // before it was drawn anew
    this.said = "";
    /** @type {Beat[]} */
    this.beats = [];
    /** @type {unknown} a value before a person changed it */
    this.was = null;
    this.key = ""; // of the synopsis that is being written
    this.caret = 0; // up to which beats are told
  }

  listen() {
    this.on("caret", () => {
      const { at } = beforeCaret(this.desk);
      const isElsewhere = this.partAt(at) !== this.partAt(this.caret) || this.beats.some(({ ticks }) => ticks.length);
      if (at !== this.caret && isElsewhere) this.requestUpdate();
    });
    this.on("nodes", ({ isGrowth }) => !isGrowth && this.later(PAUSE)); // a branch's name begins a chapter
  }

  /** @param {number} caret */
  partAt(caret) {
    return this.parts.findLast(({ at }) => at <= caret);
  }

  /** Put the caret into a part, at its first word. @param {Told} part */
  jump({ at }) {
    const { manuscript } = this.desk;
    manuscript?.select(at, undefined, "start");
    manuscript?.focus();
    this.requestUpdate();
  }

  /** Focus the chapter with the caret, or where a beat is added. */
  focus() {
    const current = this.querySelector(".name[aria-current]") ?? this.querySelector(".add input");
    /** @type {HTMLElement | null} */ (current)?.focus();
  }

  /** Read chapters and beats from the story. */
  willUpdate() {
    const { desk } = this;
    this.caret = beforeCaret(desk).at;
    this.parts = toldParts(desk.story, desk.head);
    this.chapters = this.parts.filter(({ kind }) => kind === "chapter").map(({ chapter }) => chapter);
    this.steps = stepsOf(this.chapters);
    this.isNested = this.chapters.some(({ level, name }) => level === 1 && name !== "");
    const names = [desk.story.id, ...this.chapters.map(({ name }) => name)].join("\n");
    if (names !== this.names) this.goalOf = null; // what was asked for stood below another chapter
    this.names = names;
    this.hadFocus = this.querySelector(".parts")?.contains(document.activeElement) ?? false;
    this.goals = chapterGoalsOf(desk.story, this.chapters);
    this.beats = beatsIn(desk.story, beforeCaret(desk));
    const before = this.counts;
    this.counts = new Map(
      this.chapters.map(({ text, body }) => [text, before.get(text) ?? countWords(text.slice(body))]),
    );
  }

  updated() {
    if (this.hadFocus && document.activeElement === document.body) this.focus(); // its row has gone
  }

  render() {
    return html`<section aria-labelledby="plan-title">
      <h2 id="plan-title">${msg`Chapters`}</h2>
      ${this.hint()}
      <ol class="parts" @keydown=${this.onKey}>${this.rows()}</ol>
      <p class="hidden-words" role="status">${this.said}</p>
      ${this.filling()}
      <h3 id="beats-title">${msg`What happens next`}</h3>
      ${this.beats.length ? this.list() : html`<p class="hint">${msg`Some beats, one in a line. A round writes the first that has no tick: the model is told that it happens, and the text has no word of it.`}</p>`}
      ${this.adding()}
    </section>`;
  }

  // ---- Chapters and scenes

  /** How a chapter begins, where none has a name, else what a line is for, where none is written. */
  hint() {
    if (!this.chapters.some(({ name }) => name !== ""))
      return html`<p class="hint">${msgHtml`A chapter begins at a line with <code>##</code> before its title, as <code>## The Salt Road</code>, and at a branch with a name.`}</p>`;
    if (this.beats.length || this.parts.some(({ synopsis }) => synopsis)) return nothing;
    return html`<p class="hint">${msg`A line for each chapter and scene, which the model reads before its words, and where these no longer fit, in their place.`}</p>`;
  }

  rows() {
    const current = this.partAt(this.caret);
    const shown = this.parts.filter(({ kind, chapter }) => kind === "chapter" || chapter === current?.chapter);
    let chapters = 0;
    return repeat(
      shown,
      ({ kind, at }, place) => `${kind} ${place} ${at}`,
      (part) => {
        if (part.kind === "scene") return this.row(part, -1, part === current);
        chapters += 1;
        return this.row(part, chapters - 1, part.chapter === current?.chapter);
      },
    );
  }

  /** Let the model write the lines that are missing before the caret's part. */
  async write() {
    await this.letWrite(async (rounds, signal) => (await import("../desk/summarize.js")).writeLines(rounds, signal));
    this.requestUpdate();
    await this.updateComplete;
    this.focus();
  }

  /** What has the model write lines, or stops it; nothing where none is missing. */
  filling() {
    const { caret, parts, writing } = this;
    if (writing)
      return html`<p class="acts"><span role="status">${msg`The model reads and writes the lines …`}</span>
        <button @click=${() => this.writing?.abort()}>${msg`Stop`}</button></p>`;
    if (emptyBefore(parts, caret).length === 0) return nothing;
    return html`<p class="acts"><button @click=${() => this.write()} title=${msg`Of what is written before the chapter or scene with the caret`}>${msg`Let the model write the empty lines`}</button></p>`;
  }

  /** @param {Told} part @param {number} index of a chapter; -1: a scene @param {boolean} isCurrent */
  row(part, index, isCurrent) {
    const { kind, chapter, at, end, hasLine } = part;
    const name = part.name || firstWords(this.desk.text.slice(at, end));
    const isDeep = this.isNested && chapter.level > 1;
    return html`<li class="${kind} ${isDeep ? "deep" : ""}">
      <div class="line">
        <button class="quiet name" dir="auto" aria-current=${isCurrent ? "true" : nothing} @click=${() => this.jump(part)}>${name}</button>
        ${index < 0 ? nothing : this.acts(chapter, index, name)}
      </div>
      ${index >= 0 && this.goalOf === index ? this.goalForm(chapter, index) : nothing}
      ${hasLine ? this.line(part, name) : nothing}
    </li>`;
  }

  /** The synopsis of a part. @param {Told} part @param {string} name */
  line(part, name) {
    const { desk } = this;
    const { kind, key, synopsis } = part;
    return html`<textarea rows="1" dir="auto" maxlength=${LONGEST} placeholder=${msg`What happens here, in a line`}
      aria-label=${kind === "chapter" ? msg`What happens in “${name}”` : msg`What happens in the scene “${name}”`}
      .value=${live(synopsis)} @keydown=${stay}
      @focus=${() => {
        this.key = key;
        this.was = key ? desk.story.meta(key) : null;
      }}
      @input=${(/** @type {any} */ event) => {
        this.key = setSynopsis(desk, part, inOneLine(event.target.value)) || this.key;
      }}
      @change=${() => {
        if (this.key) desk.recordMeta(this.key, this.was);
      }}></textarea>`;
  }

  /** The words of a chapter, by which its goal is set, and its moves. @param {Chapter} chapter @param {number} index @param {string} name */
  acts(chapter, index, name) {
    const { goals, goalOf, steps } = this;
    const count = this.wordsOf(index);
    const isPart = chapter.name === "" || (this.isNested && chapter.level === 1);
    const goal = goals.get(chapter)?.words ?? (isPart ? 0 : goalsOf(this.desk.story).chapter); // parts have only a goal of their own
    const shown = goal ? msg`${NUMBER.format(count)} of ${NUMBER.format(goal)}` : NUMBER.format(count);
    const words = goal ? msg`${NUMBER.format(count)} of ${wordCount(goal)}` : wordCount(count);
    const step = (/** @type {"up" | "down"} */ way, /** @type {string} */ label) =>
      html`<button class="quiet step" aria-label=${`${label}: ${name}`} title=${label} ?disabled=${(steps[index]?.[way] ?? null) === null}
        @click=${() => this.move(index, way)}>${icon(way)}</button>`;
    return html`${step("up", msg`Move up`)}${step("down", msg`Move down`)}
      <button class="quiet goal" aria-label=${`${words}. ${msg`Goal of words: ${name}`}`} title=${msg`${words}: set a goal`} aria-expanded=${goalOf === index ? "true" : "false"}
        @click=${() => this.askGoal(index)}>${goal && count >= goal ? "✓ " : ""}${shown}
        ${goal ? html`<progress max=${goal} .value=${Math.min(count, goal)} aria-hidden="true"></progress>` : nothing}</button>`;
  }

  /** How many words a chapter has, with those below it. @param {number} index */
  wordsOf(index) {
    const { chapters, counts, steps } = this;
    const end = this.isNested && chapters[index]?.name !== "" ? steps[index]?.end : index + 1;
    return chapters.slice(index, end).reduce((sum, { text }) => sum + (counts.get(text) ?? 0), 0);
  }

  /** @param {number} index of a chapter @param {"up" | "down"} way */
  async move(index, way) {
    const { desk } = this;
    const name = nameOf(this.chapters[index]);
    const at = await desk.withRounds(() => {
      this.willUpdate(); // the text may be newer than the list
      const before = this.steps[index]?.[way] ?? null;
      return before === null || nameOf(this.chapters[index]) !== name
        ? null
        : moveChapter(desk, this.chapters, index, before);
    });
    if (at === null || at === undefined) return this.requestUpdate();
    this.goalOf = null;
    desk.manuscript?.select(at, undefined, "start");
    this.requestUpdate();
    await this.updateComplete;
    const now = this.chapters.findLastIndex((each) => each.at <= at);
    this.said = msg`“${name}” is ${now + 1} of ${this.chapters.length} now.`;
    this.requestUpdate();
    this.focusOn(".chapter .name", now);
  }

  /** @param {string} buttons @param {number} index */
  focusOn(buttons, index) {
    const all = /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll(buttons));
    all[Math.max(0, Math.min(index, all.length - 1))]?.focus();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { code, altKey, ctrlKey, metaKey } = event;
    const target = /** @type {Element} */ (event.target);
    if (ctrlKey || metaKey || !target.matches("button")) return;
    const row = target.closest("li");
    const place = [...this.querySelectorAll(".parts > li")].indexOf(/** @type {any} */ (row));
    const index = [...this.querySelectorAll(".parts > .chapter")].indexOf(/** @type {any} */ (row));
    const step = { ArrowUp: /** @type {const} */ (-1), ArrowDown: /** @type {const} */ (1) }[code];
    if (step && altKey && index >= 0) this.move(index, step < 0 ? "up" : "down");
    else if (altKey) return;
    else if (step) this.focusOn(".parts .name", place + step);
    else if (code === "Home") this.focusOn(".parts .name", 0);
    else if (code === "End") this.focusOn(".parts .name", Number.POSITIVE_INFINITY);
    else return;
    event.preventDefault();
  }

  /** Ask for a chapter's goal below it, or no more. @param {number} index */
  async askGoal(index) {
    this.goalOf = this.goalOf === index ? null : index;
    this.requestUpdate();
    await this.updateComplete;
    const field = /** @type {HTMLInputElement | null} */ (this.querySelector("[name=words]"));
    field?.focus();
    field?.select();
  }

  /** @param {Chapter} chapter @param {number} index */
  goalForm(chapter, index) {
    const { chapter: all } = goalsOf(this.desk.story);
    return html`<form novalidate @submit=${(/** @type {SubmitEvent} */ event) => this.setGoal(index, event)} @keydown=${this.onGoalKey}>
      <label>${msg`Words of this chapter`} <input name="words" type="number" min="0" max=${MOST_WORDS} step="50" inputmode="numeric"
        placeholder=${all || msg`no goal`} .value=${String(this.goals.get(chapter)?.words ?? "")}></label>
      <button>${msg`Set`}</button>
    </form>`;
  }

  /** @param {number} index @param {SubmitEvent} event */
  setGoal(index, event) {
    event.preventDefault();
    const { words } = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    this.willUpdate(); // the text may be newer than the list
    const chapter = this.chapters[index];
    if (!chapter || this.goalOf !== index) return this.requestUpdate();
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
    this.requestUpdate();
    await this.updateComplete;
    this.focusOn(".chapter .goal", index);
  }

  /** @param {KeyboardEvent} event */
  onGoalKey(event) {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.stopPropagation(); // the panel keeps the focus
    this.leaveGoal();
  }

  // ---- Beats

  list() {
    const next = this.beats.find(({ text, ticks }) => text.trim() && !ticks.length);
    return html`<ol class="beats" aria-labelledby="beats-title">${repeat(
      this.beats,
      ({ key }) => key,
      (beat, place) => this.beat(beat, place, beat === next),
    )}</ol>`;
  }

  /** @param {Beat} beat @param {number} place @param {boolean} isNext */
  beat(beat, place, isNext) {
    const { desk, beats } = this;
    const { key, text, order, ticks, from } = beat;
    const number = place + 1;
    const isDone = ticks.length > 0;
    const step = (/** @type {1 | -1} */ by, /** @type {string} */ sign, /** @type {string} */ words) =>
      html`<button class="quiet step" aria-label=${msg`${words}: beat ${number}`} title=${words} ?disabled=${!beats[place + by]}
        @click=${() => moveBeat(desk, beats, place, by)}>${icon(sign)}</button>`;
    return html`<li class=${isDone ? "done" : ""} aria-current=${isNext ? "step" : nothing}>
      <input type="checkbox" aria-label=${msg`Beat ${number} is written`} title=${isDone ? msg`Written in this text` : msg`Tick it when it is written`}
        .checked=${live(isDone)} @change=${() => tick(desk, beat)} />
      <textarea rows="1" dir="auto" maxlength=${LONGEST_BEAT} aria-label=${msg`Beat ${number}`} .value=${live(text)} @keydown=${stay}
        @focus=${() => {
          this.was = desk.story.meta(key);
        }}
        @input=${(/** @type {any} */ event) => desk.setMeta(key, { text: inOneLine(event.target.value), order })}
        @change=${() => desk.recordMeta(key, this.was)}></textarea>
      ${step(-1, "up", msg`Move up`)}${step(1, "down", msg`Move down`)}
      <button class="quiet step" aria-label=${msg`Take away beat ${number}`} title=${msg`Take it away`} @click=${() => this.takeAway(beat)}>${icon("prune")}</button>
      ${!isDone && from !== null ? html`<button class="offer" @click=${() => tick(desk, beat)}>${msg`A card for it is in the text: tick it`}</button>` : nothing}
    </li>`;
  }

  /** @param {Beat} beat */
  takeAway({ key }) {
    changeAll(this.desk, [[key, null]]);
    /** @type {HTMLElement | null} */ (this.querySelector(".add input"))?.focus();
  }

  adding() {
    const { desk, beats } = this;
    const isOpen = beats.some(({ text, ticks }) => text.trim() && !ticks.length);
    return html`<form class="add" @submit=${this.add}>
      <input dir="auto" name="beat" maxlength=${LONGEST_BEAT} ?disabled=${beats.length >= MOST} aria-label=${msg`Another beat`} placeholder=${msg`What else happens`} @paste=${this.paste} />
      <button>${msg`Add`}</button>
    </form>
    <p class="acts"><button class="main" ?disabled=${!isOpen} @click=${() => writeNextBeat(desk)}>${msg`Write the next beat`}</button></p>`;
  }

  /** @param {SubmitEvent} event */
  add(event) {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (
      /** @type {HTMLFormElement} */ (event.target).elements.namedItem("beat")
    );
    const text = field.value.trim();
    field.value = "";
    field.focus();
    if (text) addBeats(this.desk, [text]);
  }

  /** Make a beat of each line that is pasted. @param {ClipboardEvent} event */
  paste(event) {
    const lines = (event.clipboardData?.getData("text/plain") ?? "").split(/\r?\n/u).map((line) => line.trim());
    const texts = lines.filter(Boolean);
    if (texts.length < 2) return;
    event.preventDefault();
    addBeats(this.desk, texts);
  }
}

/** @param {Chapter} chapter */
const nameOf = ({ name, text }) => withoutMarkers(name) || firstWords(text);

/** @param {string} text */
const inOneLine = (text) => text.replace(/\s*\n\s*/gu, " ");

/** Keep a line one line: Enter ends it. @param {KeyboardEvent} event */
function stay(event) {
  if (event.key !== "Enter" || isComposing(event)) return;
  event.preventDefault();
  /** @type {HTMLElement} */ (event.target).blur();
}

customElements.define("srb-plan", PlanPart);
