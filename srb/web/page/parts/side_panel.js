// <srb-side-panel>: beside the text, what the model reads and is not in the manuscript: memory, author's note and lorebook.
//
// It is no dialog: text and cards stay in view and in use, and each key applies at once. Its place is at the text's left, since
// the memory stands before the text; on a phone it is a sheet in the place of the branches.

import { countWords } from "../keep/describe.js";
import { frameOf, NOTE_PLACE } from "../prompt.js";
import { html, live, nothing } from "../vendor/lit.js";
import { keepSide } from "./layout.js";
import { Part } from "./part.js";
import { sentTable } from "./sent.js";
import { addStyle } from "./styles.js";

/** @typedef {import("../prompt.js").Note} Note */
/** @typedef {{name: string, title: string, hint: string, rows: number}} Field */

const MEMORY = {
  name: "memory",
  title: "Memory",
  hint: "Who is who, where and when, and the tone. The model reads it before the story, however long that grows.",
  rows: 6,
};
const NOTE = {
  name: "note",
  title: "Author’s note",
  hint: "A hint for what comes next. The model reads it near the end of the text, where it works most.",
  rows: 3,
};
const DEPTHS = [1, 2, 3, 4, 5, 8, 12, 20];
const WORD = 6; // characters of a word of English prose, with the space behind it
const NUMBER = new Intl.NumberFormat("en");
const ROUND = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const TOPICS = ["story", "head", "server", "round", "rounds"];
const PAUSE = 400; // ms after which what was typed in the text is in the costs: each time costs the length of the text

class SidePanel extends Part {
  constructor() {
    super();
    this.root = /** @type {HTMLElement} */ (document.getElementById("desk")); // it has the panel's state, from the start on
    this.timer = 0;
    /** @type {Promise<unknown> | null} */
    this.loading = null;
    this.hasLorebook = false;
  }

  listen() {
    this.setAttribute("role", "complementary");
    this.setAttribute("aria-label", "Memory and note");
    this.hidden = !this.isOpen;
    if (this.isOpen) this.loadLorebook();
    this.on(TOPICS, ({ why }) => this.isOpen && (why === "type" ? this.updateLater() : this.requestUpdate()));
    this.on("side", ({ focus }) => this.toggle(focus));
    this.addEventListener("keydown", (event) => this.onKey(event), { signal: this.listeners.signal });
  }

  get isOpen() {
    return this.root.dataset.side === "open";
  }

  get memory() {
    return /** @type {string | undefined} */ (this.desk.story.meta("memory")) ?? "";
  }

  /** @returns {Note} */
  get note() {
    return { text: "", depth: 3, .../** @type {Partial<Note> | undefined} */ (this.desk.story.meta("note")) };
  }

  updateLater() {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.requestUpdate();
    }, PAUSE);
  }

  /** Open or close it; with `focus`, one that is open without the focus gets it instead. @param {boolean} [focus] */
  async toggle(focus = false) {
    const hadFocus = this.contains(document.activeElement);
    const opens = !this.isOpen || (focus && !hadFocus);
    keepSide(this.root, opens);
    this.hidden = !opens;
    if (!opens) {
      if (hadFocus) this.toText();
      return;
    }
    this.requestUpdate();
    this.loadLorebook();
    await this.updateComplete;
    if (focus) this.focus();
  }

  /** Load the lorebook's part: nobody needs it before the panel is first open. */
  async loadLorebook() {
    try {
      this.loading ??= Promise.all([import("./lorebook.js"), addStyle(new URL("./lorebook.css", import.meta.url))]);
      await this.loading;
      this.hasLorebook = true;
      this.requestUpdate();
    } catch {
      this.loading = null; // the next opening tries again
      this.desk.sayNotLoaded();
    }
  }

  updated() {
    /** @type {Part | null} */ (this.querySelector("srb-lorebook"))?.requestUpdate();
  }

  /** Focus the first field, for F6 too. */
  focus() {
    this.querySelector("textarea")?.focus();
  }

  toText() {
    /** @type {HTMLElement | null} */ (document.querySelector("srb-manuscript"))?.focus();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    this.toText();
  }

  render() {
    if (!this.isOpen) return nothing;
    const { desk, memory, note } = this;
    return html`
      <button class="quiet close" aria-label="Close" @click=${() => this.toggle()}><span aria-hidden="true">×</span></button>
      ${field(MEMORY, memory, (text) => desk.setMemory(text))}
      ${field(NOTE, note.text, (text) => desk.setNote({ ...this.note, text }), [
        depth(note, (at) => desk.setNote({ ...this.note, depth: at })),
        frame(note, (around) => desk.setNote({ ...this.note, frame: around })),
      ])}
      ${this.hasLorebook ? html`<srb-lorebook .desk=${desk}></srb-lorebook>` : nothing}
      <footer>${costs(desk, countWords(memory) + countWords(note.text))} ${sentTable(desk)}</footer>`;
  }
}

/**
 * A text under its title, with the number of its words.
 * @param {Field} of @param {string} text @param {(text: string) => void} set @param {unknown} [more] what stands below the text
 */
function field({ name, title, hint, rows }, text, set, more = nothing) {
  const id = `side-${name}`;
  return html`<section>
    <h2><label for=${id}>${title}</label> <span class="count">${text.trim() === "" ? nothing : words(countWords(text))}</span></h2>
    <textarea
      id=${id}
      rows=${rows}
      dir="auto"
      placeholder=${hint}
      .value=${live(text)}
      @input=${(/** @type {any} */ event) => set(event.target.value)}
    ></textarea>
    ${more}
  </section>`;
}

/** Where the note stands, as half a sentence. @param {Note} note @param {(depth: number) => void} set */
function depth({ text, depth: now }, set) {
  if (text.trim() === "") return nothing;
  const all = DEPTHS.includes(now) ? DEPTHS : [...DEPTHS, now].sort((a, b) => a - b);
  return html`<p class="depth">
    stands before the last
    <select aria-label="Paragraphs behind the note" @change=${(/** @type {any} */ event) => set(Number(event.target.value))}>
      ${all.map((each) => html`<option value=${each} ?selected=${each === now}>${each}</option>`)}
    </select>
    ${now === 1 ? "paragraph" : "paragraphs"}
  </p>`;
}

/** What stands around the note in the prompt. @param {Note} note @param {(frame: string) => void} set */
function frame(note, set) {
  if (note.text.trim() === "") return nothing;
  const now = frameOf(note);
  return html`<p class="frame">
      <label>is read as <input
        maxlength="1000"
        spellcheck="false"
        dir="auto"
        aria-describedby="side-frame-words"
        .value=${live(now)}
        @input=${(/** @type {any} */ event) => set(event.target.value)}
      /></label>
    </p>
    <p class="words" id="side-frame-words">${NOTE_PLACE} is the note${now.includes(NOTE_PLACE) ? "" : ", which stands alone without it"}.</p>`;
}

/** What memory and note cost of each prompt, and what they leave. @param {import("../desk.js").Desk} desk @param {number} own words */
function costs({ context: { limit, parts } }, own) {
  if (own === 0) return nothing;
  const of = (/** @type {string} */ wanted) => parts.find(({ kind }) => kind === wanted);
  const tokens = (/** @type {string[]} */ kinds) => kinds.reduce((sum, kind) => sum + (of(kind)?.tokens ?? 0), 0);
  const cut = (of("memory")?.cut ?? 0) + (of("note")?.cut ?? 0);
  const room = of("room");
  const share = Math.ceil((100 * tokens(["memory", "note"])) / limit);
  const left =
    ((limit - tokens(["memory", "lore", "note", "system", "room"])) * (room?.characters ?? 0)) /
    (room?.tokens || 1) /
    WORD;
  return html`<p>About <b>${words(own, ROUND)}</b> of every prompt.
      ${limit ? `That is ${share} % of what the model can read; about ${words(Math.max(0, left), ROUND)} of the story fit beside it.` : nothing}</p>
    ${cut ? html`<p class="cut">Not all of it fits: ${NUMBER.format(cut)} characters at the end are not read.</p>` : nothing}`;
}

/** @param {number} count @param {Intl.NumberFormat} [format] */
function words(count, format = NUMBER) {
  return `${format.format(count)} ${count === 1 ? "word" : "words"}`;
}

customElements.define("srb-side-panel", SidePanel);
