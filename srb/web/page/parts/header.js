/** The header: the story's title, whether it is saved, its words, one button that begins a round, and a menu of all else. */

import { html } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { Part } from "./part.js";

/** @typedef {import("../desk.js").Desk} Desk */

/** Where a round's texts stop, as the button that begins it says: "Continue, 8 paragraphs". */
const STOPS = [
  ["", "full lengths"],
  ["word", "words"],
  ["line", "lines"],
  ["sentence", "sentences"],
  ["paragraph", "paragraphs"],
];
const MENU = [
  ["chapters", "Chapters"],
  ["map", "Map of the story"],
  ["formats", "Import and export"],
  ["settings", "Settings"],
  ["help", "Keys and help"],
];

const CROWDED = 0.6; // share of the model's context from which it is shown
const SHORTENED = new Set(["memory", "note"]); // parts of the prompt of which an end may be left out
const TYPING = 400; // ms after which the words of a text that is being typed are counted
const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });

class Header extends Part {
  constructor() {
    super();
    this.timer = 0;
    this.shownGo = "";
  }

  listen() {
    this.on(TOPICS, ({ why }) => (why === "type" ? this.updateLater() : this.requestUpdate()));
    this.on("caret", () => this.goWords() !== this.shownGo && this.requestUpdate());
  }

  /** Show what was typed: some times a second, since each time costs the length of the text. */
  updateLater() {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.requestUpdate();
    }, TYPING);
  }

  /** Focus the first control, for F6. */
  focus() {
    this.querySelector("button")?.focus();
  }

  render() {
    const { desk } = this;
    const { n, stop_at: stopAt } = desk.settings;
    this.shownGo = this.goWords();
    return html`<header>
      <div class="top">
        <button
          class="quiet side"
          aria-label="Memory and note"
          title="Memory and author’s note (Alt+M)"
          aria-expanded=${this.isSideOpen ? "true" : "false"}
          @click=${() => desk.tell("side")}
        >${icon("side")}</button>
        <button class="title quiet" aria-haspopup="dialog" title="Stories" @click=${() => this.open("stories")}>
          <span>${desk.title}</span> ${icon("down")}
        </button>
        <div class="facts">
          <span class="saved" data-state=${desk.saved.state} title=${savedTitle(desk.saved)}>${savedWords(desk.saved)}</span>
          <span class="words">${count(desk.words, "word")}</span>
          ${this.meter()}
        </div>
        <button class="quiet" aria-label="More" title="More" popovertarget="header-menu">${icon("more")}</button>
        <div id="header-menu" popover>
          ${this.model()}
          <button class="quiet narrow" aria-haspopup="dialog" @click=${() => this.choose("task")}>Say what happens next</button>
          ${MENU.map(([name = "", words]) => html`<button class="quiet" aria-haspopup="dialog" @click=${() => this.choose(name)}>${words}</button>`)}
        </div>
      </div>
      <div class="go">
        ${this.pictures()}
        <button class="quiet" aria-label="Undo" title="Undo (Ctrl+Z)" @click=${() => desk.undo()}>${icon("undo")}</button>
        <button class="quiet" aria-label="Redo" title="Redo (Ctrl+Shift+Z)" @click=${() => desk.redo()}>${icon("redo")}</button>
        <div class="split" role="group" aria-label="The next round">
          <button class="main" @click=${() => desk.next()} title="Ctrl+Enter">${this.shownGo}</button>
          <button class="quiet task" aria-haspopup="dialog" aria-label="Say what happens next" title="Say what happens next" @click=${() => this.open("task")}>${icon("task")}</button>
          <select aria-label="Branches" title="How many" @change=${(/** @type {any} */ event) => desk.setSetting("n", Number(event.target.value))}>
            ${this.counts().map((each) => html`<option value=${each} ?selected=${each === n}>${each}</option>`)}
          </select>
          <select class="stop" aria-label="Stop at" title="Where they stop" @change=${(/** @type {any} */ event) => desk.setSetting("stop_at", event.target.value)}>
            ${STOPS.map(([value, words]) => html`<option value=${value} ?selected=${value === stopAt}>${words}</option>`)}
          </select>
        </div>
      </div>
    </header>`;
  }

  /** What the next round does: it goes on where the caret is. */
  goWords() {
    return this.desk.selected ? "Revise …" : this.desk.isInside ? "Continue here" : "Continue";
  }

  get isSideOpen() {
    return document.getElementById("desk")?.dataset.side === "open";
  }

  /** Open a dialog of the menu, which gives the focus back to the menu's button. @param {string} name @param {object} [detail] */
  choose(name, detail) {
    /** @type {any} */ (this.querySelector("[popover]"))?.hidePopover();
    this.desk.openDialog(name, detail);
  }

  /** The model's name; where the server has several, it leads to their choice. */
  model() {
    const { model, models = [] } = this.desk.server;
    const choose = () => this.choose("settings", { section: "model" });
    return models.length > 1
      ? html`<button class="quiet model" aria-haspopup="dialog" title="Choose the model" @click=${choose}>${model}</button>`
      : model
        ? html`<span class="model" title="Model">${model}</span>`
        : null;
  }

  pictures() {
    const { vision, audio } = this.desk.server.modalities ?? {};
    const what = vision ? "Add a picture" : "Add a sound";
    return vision || audio
      ? html`<button class="quiet pictures" aria-label=${what} title=${what} @click=${() => this.open("pictures")}>${icon(vision ? "picture" : "sound")}</button>`
      : null;
  }

  meter() {
    const { used, limit, cut, parts } = this.desk.context;
    if (!limit || (used < CROWDED * limit && !cut && !parts.some((part) => part.cut > 0))) return null;
    const share = Math.min(1, used / limit);
    const percent = Math.round(share * 100);
    const words =
      `${used} of ${limit} tokens of the model's context` +
      (cut ? `; ${cut} characters at the beginning are not sent` : "");
    return html`<span class="context" title=${words}>
      <span class="name">context</span>
      <meter min="0" max="1" high="0.85" .value=${share} aria-label="Context used"></meter> ${percent} %
      ${cut ? html`<span class="cut">beginning cut</span>` : null}
      ${parts.filter((part) => part.cut > 0 && SHORTENED.has(part.kind)).map(({ kind }) => html` <span class="cut">${kind} cut</span>`)}
    </span>`;
  }

  counts() {
    const { max_n: most = 64 } = this.desk.server;
    const shown = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64].filter((each) => each <= most);
    const { n } = this.desk.settings;
    return shown.includes(n) ? shown : [...shown, n].sort((a, b) => a - b);
  }

  /** @param {string} name */
  open(name) {
    this.desk.openDialog(name);
  }
}

const TOPICS = ["story", "head", "saved", "server", "round", "rounds", "side"];

/** @param {number} number @param {string} word */
function count(number, word) {
  return `${NUMBER.format(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** @param {Desk["saved"]} saved */
function savedTitle({ state, at, message }) {
  return message ?? (state === "saved" && at ? `saved at ${CLOCK.format(at)}` : "");
}

/** @param {Desk["saved"]} saved */
function savedWords({ state }) {
  switch (state) {
    case "saved":
      return "saved";
    case "saving":
      return "saving …";
    case "outbox":
      return "kept in this browser until the server is back";
    case "browser":
      return "kept in this browser only";
    case "read_only":
      return "not saved: the server cannot write";
    default:
      return "not saved";
  }
}

customElements.define("srb-header", Header);
