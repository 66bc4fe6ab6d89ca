// <srb-side-panel>: beside the text, what is not in the manuscript: memory, author's note, chapters with the plan, and lorebook, which the model reads, and comments.
//
// It is no dialog: text and cards stay in view and in use, and each key applies at once. Its place is at the text's left, since
// the memory stands before the text; on a phone it is a sheet in the place of the branches.

import { countWords } from "../keep/describe.js";
import { isComposing } from "../keys.js";
import { LANGUAGE, msg, NUMBER, wordCount } from "../languages.js";
import { frameOf, NOTE_PLACE } from "../prompt.js";
import { html, live, nothing } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { keepSide } from "./layout.js";
import { msgHtml } from "./msg_html.js";
import { Part } from "./part.js";
import { sentTable } from "./sent.js";
import { loadLists } from "./side_lists.js";

/** @typedef {import("../prompt.js").Note} Note */
/** @typedef {{name: string, title: string, hint: string, rows: number}} Field */

const MEMORY = {
  name: "memory",
  title: msg`Memory`,
  hint: msg`Who is who, where and when, and the tone. The model reads it before the story, however long that grows.`,
  rows: 6,
};
const NOTE = {
  name: "note",
  title: msg`Author’s note`,
  hint: msg`A hint for what comes next. The model reads it near the end of the text, where it works most.`,
  rows: 3,
};
const DEPTHS = [1, 2, 3, 4, 5, 8, 12, 20];
const WORD = 6; // characters of a word of English prose, with the space behind it
const ROUND = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 2 });
const TOPICS = ["story", "head", "server", "round", "rounds"];
const PAUSE = 400; // ms after which what was typed in the text is in the costs: each time costs the length of the text

class SidePanel extends Part {
  constructor() {
    super();
    this.root = /** @type {HTMLElement} */ (document.getElementById("desk")); // it has the panel's state, from the start on
    this.hasLists = false; // of chapters, the lorebook's entries and of comments
  }

  listen() {
    this.setAttribute("role", "complementary");
    this.setAttribute("aria-label", msg`Memory and note`);
    this.hidden = !this.isOpen;
    if (this.isOpen) this.loadLists();
    this.on(TOPICS, ({ why }) => this.isOpen && (why === "type" ? this.later(PAUSE) : this.requestUpdate()));
    this.on("side", ({ focus, comment, chapters }) =>
      chapters ? this.chapters() : comment ? this.comment(comment) : this.toggle(focus),
    );
    this.on("dialog", ({ name }) => name === "chapters" && this.desk.tell("side", { chapters: true }));
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
    this.loadLists();
    await this.updateComplete;
    if (focus) this.focus();
  }

  /** Show the chapters, with the focus at the one with the caret, in the open panel. */
  async chapters() {
    if (!this.isOpen) await this.toggle();
    this.tabIndex = -1;
    super.focus(); // what is typed until they are loaded is no text
    await this.loadLists();
    await this.updateComplete;
    const part = /** @type {Part | null} */ (this.querySelector("srb-plan"));
    await part?.updateComplete;
    if (this.contains(document.activeElement)) part?.focus(); // else somebody writes again
  }

  /** Begin a comment on a passage, in the open panel. @param {import("../desk/comments.js").Range} range  what was selected before anything was loaded */
  async comment(range) {
    if (!this.isOpen) await this.toggle();
    await this.loadLists();
    await this.updateComplete;
    await /** @type {any} */ (this.querySelector("srb-comments"))?.add(range);
  }

  async loadLists() {
    try {
      await loadLists();
      this.hasLists = true;
      this.requestUpdate();
    } catch {
      this.desk.sayNotLoaded();
    }
  }

  updated() {
    const lists = /** @type {NodeListOf<Part>} */ (this.querySelectorAll("srb-plan, srb-lorebook, srb-comments"));
    for (const list of lists) list.requestUpdate();
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
    if (event.key !== "Escape" || isComposing(event)) return;
    event.stopPropagation();
    this.toText();
  }

  render() {
    if (!this.isOpen) return nothing;
    const { desk, memory, note } = this;
    return html`
      ${closeButton(() => this.toggle())}
      ${field(MEMORY, memory, (text) => desk.setMemory(text))}
      ${field(NOTE, note.text, (text) => desk.setNote({ ...this.note, text }), [
        depth(note, (at) => desk.setNote({ ...this.note, depth: at })),
        frame(note, (around) => desk.setNote({ ...this.note, frame: around })),
      ])}
      ${this.hasLists ? html`<srb-plan .desk=${desk}></srb-plan><srb-lorebook .desk=${desk}></srb-lorebook><srb-comments .desk=${desk}></srb-comments>` : nothing}
      <div class="foot">${costs(desk, countWords(memory) + countWords(note.text))} ${sentTable(desk)}</div>`;
  }
}

/**
 * A text under its title, with the number of its words.
 * @param {Field} of @param {string} text @param {(text: string) => void} set @param {unknown} [more] what stands below the text
 */
function field({ name, title, hint, rows }, text, set, more = nothing) {
  const id = `side-${name}`;
  return html`<section>
    <h2><label for=${id}>${title}</label> <span class="count">${text.trim() === "" ? nothing : wordCount(countWords(text))}</span></h2>
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
  const choice = html`<select aria-label=${msg`Paragraphs behind the note`} @change=${(/** @type {any} */ event) => set(Number(event.target.value))}>
      ${all.map((each) => html`<option value=${each} ?selected=${each === now}>${each}</option>`)}
    </select>`;
  const paragraphs = now === 1 ? msg`paragraph` : msg`paragraphs`; // one template for both: the choice keeps its element, and the focus
  return html`<p class="depth">${msgHtml`stands before the last ${choice} ${paragraphs}`}</p>`;
}

/** What stands around the note in the prompt. @param {Note} note @param {(frame: string) => void} set */
function frame(note, set) {
  if (note.text.trim() === "") return nothing;
  const now = frameOf(note);
  const words = now.includes(NOTE_PLACE)
    ? msg`${NOTE_PLACE} is the note.`
    : msg`${NOTE_PLACE} is the note, which stands alone without it.`;
  const input = html`<input
        maxlength="1000"
        spellcheck="false"
        dir="auto"
        aria-describedby="side-frame-words"
        .value=${live(now)}
        @input=${(/** @type {any} */ event) => set(event.target.value)}
      />`;
  return html`<p class="frame"><label>${msgHtml`is read as ${input}`}</label></p>
    <p class="words" id="side-frame-words">${words}</p>`;
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
  const beside = wordCount(Math.max(0, left), ROUND);
  return html`<p>${msgHtml`About <b>${wordCount(own, ROUND)}</b> of every prompt.`}
      ${limit ? msg`That is ${share} % of what the model can read; about ${beside} of the story fit beside it.` : nothing}</p>
    ${cut ? html`<p class="cut">${msg`Not all of it fits: ${NUMBER.format(cut)} characters at the end are not read.`}</p>` : nothing}`;
}

customElements.define("srb-side-panel", SidePanel);
