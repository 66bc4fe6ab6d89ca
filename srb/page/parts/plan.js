/**
 * <srb-plan>: the plan, in the side panel: a line for each chapter, and for the scenes of the one with the caret; and beats, of which a round
 * writes the next one. Each key applies at once.
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
import { emptyBefore, LONGEST, setSynopsis, toldParts } from "../desk/synopses.js";
import { changeAll } from "../desk/values.js";
import { firstWords } from "../formats/chapters.js";
import { isComposing } from "../keys.js";
import { msg } from "../languages.js";
import { html, live, nothing, repeat } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { WritingPart } from "./writing_part.js";

/** @typedef {import("../desk/beats.js").Known} Beat */
/** @typedef {import("../desk/synopses.js").Told} Told */

class PlanPart extends WritingPart {
  constructor() {
    super();
    /** @type {Told[]} */
    this.parts = [];
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

  /** Focus the first field. */
  focus() {
    /** @type {HTMLElement | null} */ (this.querySelector("textarea, input"))?.focus();
  }

  render() {
    const { desk } = this;
    this.caret = beforeCaret(desk).at;
    this.parts = toldParts(desk.story, desk.head);
    this.beats = beatsIn(desk.story, beforeCaret(desk));
    const isPlanned = this.beats.length > 0 || this.parts.some(({ synopsis }) => synopsis);
    return html`<section aria-labelledby="plan-title">
      <h2 id="plan-title">${msg`Plan`}</h2>
      ${isPlanned ? nothing : html`<p class="hint">${msg`A line for each chapter and scene, which the model reads before its words, and where these no longer fit, in their place.`}</p>`}
      <ol class="parts">${this.rows()}</ol>
      ${this.filling()}
      <h3 id="beats-title">${msg`What happens next`}</h3>
      ${this.beats.length ? this.list() : html`<p class="hint">${msg`Some beats, one in a line. A round writes the first that has no tick: the model is told that it happens, and the text has no word of it.`}</p>`}
      ${this.adding()}
    </section>`;
  }

  // ---- Chapters and scenes

  rows() {
    const current = this.partAt(this.caret);
    /** @param {Told} part */
    const chapterOf = (part) =>
      this.parts.findLast((each) => each.kind === "chapter" && each.at <= part.at && part.end <= each.end);
    const open = current && chapterOf(current);
    const shown = this.parts.filter((part) => part.kind === "chapter" || chapterOf(part) === open);
    return repeat(
      shown,
      ({ kind, at }, place) => `${kind} ${place} ${at}`,
      (part) => this.row(part, part === current),
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

  /** @param {Told} part @param {boolean} isCurrent */
  row(part, isCurrent) {
    const { desk } = this;
    const { kind, key, at, end, synopsis } = part;
    const name = part.name || firstWords(desk.text.slice(at, end));
    return html`<li class=${kind}>
      <button class="quiet name" dir="auto" aria-current=${isCurrent ? "true" : nothing} title=${msg`Go there`} @click=${() => this.jump(part)}>${name}</button>
      <textarea rows="1" dir="auto" maxlength=${LONGEST} placeholder=${msg`What happens here, in a line`}
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
        }}></textarea>
    </li>`;
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

/** @param {string} text */
const inOneLine = (text) => text.replace(/\s*\n\s*/gu, " ");

/** Keep a line one line: Enter ends it. @param {KeyboardEvent} event */
function stay(event) {
  if (event.key !== "Enter" || isComposing(event)) return;
  event.preventDefault();
  /** @type {HTMLElement} */ (event.target).blur();
}

customElements.define("srb-plan", PlanPart);
