/** The header: the story's title, whether it is saved, its words, one button that begins a round, and a menu of all else. */

import { countsCharacters } from "../keep/describe.js";
import { characterCount, msg, wordCount } from "../languages.js";
import { html } from "../vendor/lit.js";
import { icon } from "./header_icons.js";
import { Part } from "./part.js";

/** @typedef {import("../desk.js").Desk} Desk */

/** Where a round's texts stop, as the button that begins it says: "Continue, 8 paragraphs". */
const STOPS = [
  ["", msg`full lengths`],
  ["word", msg`words`],
  ["line", msg`lines`],
  ["sentence", msg`sentences`],
  ["paragraph", msg`paragraphs`],
];
const MENU = [
  ["chapters", msg`Chapters`],
  ["ask", msg`Ask the story`],
  ["goals", msg`Goals`],
  ["grow", msg`Let it grow`],
  ["map", msg`Map of the story`],
  ["formats", msg`Import and export`],
  ["settings", msg`Settings`],
  ["palette", msg`All actions`],
  ["help", msg`Keys and help`],
];

/** Cards, and branches of which they are chosen. */
const COUNTS = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64].map((each) => [each]);
const CHOICES = [4, 6, 8, 12, 16].map((each) => [each, 4 * each]);
const CROWDED = 0.6; // share of the model's context from which it is shown
/** Parts of the prompt of which an end may be left out. @type {Record<string, string>} */
const SHORTENED = { memory: msg`memory cut`, note: msg`note cut` };
const TYPING = 400; // ms after which the words of a text that is being typed are counted: each time costs its length
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });

class Header extends Part {
  constructor() {
    super();
    this.shownGo = "";
  }

  listen() {
    this.on(TOPICS, ({ why }) => (why === "type" ? this.later(TYPING) : this.requestUpdate()));
    this.on("caret", () => this.goWords() !== this.shownGo && this.requestUpdate());
  }

  /** Focus the first control, for F6. */
  focus() {
    this.querySelector("button")?.focus();
  }

  render() {
    const { desk } = this;
    const { stop_at: stopAt } = desk.settings;
    this.shownGo = this.goWords();
    return html`<header>
      <div class="top">
        <button
          class="quiet side"
          aria-label=${msg`Memory and note`}
          title=${msg`Memory and author’s note (Alt+M)`}
          aria-expanded=${this.isSideOpen ? "true" : "false"}
          @click=${() => desk.tell("side")}
        >${icon("side")}</button>
        <h1><button class="title quiet" aria-haspopup="dialog" title=${msg`Stories`} @click=${() => this.open("stories")}>
          <span>${desk.title}</span> ${icon("down")}
        </button></h1>
        <div class="facts">
          <span class="saved" data-state=${desk.saved.state} title=${savedTitle(desk.saved)}>${savedWords(desk.saved)}</span>
          ${this.warming()} ${this.growing()}
          <span class="words">${countsCharacters(desk.text) ? characterCount(desk.words) : wordCount(desk.words)}</span>
          ${this.meter()}
        </div>
        <button class="quiet" aria-label=${msg`Undo`} title=${msg`Undo (Ctrl+Z)`} @click=${() => desk.undo()}>${icon("undo")}</button>
        <button class="quiet" aria-label=${msg`Redo`} title=${msg`Redo (Ctrl+Shift+Z)`} @click=${() => desk.redo()}>${icon("redo")}</button>
        <button class="quiet" title=${msg`More`} popovertarget="header-menu">${icon("more")}</button>
        <div id="header-menu" class="list" popover>
          ${this.model()}
          <button class="quiet narrow" aria-haspopup="dialog" @click=${() => this.choose("task")}>${msg`Say what happens next`}</button>
          <button class="quiet narrow" @click=${() => this.choose("outline")}>${msg`Outline`}</button>
          ${this.pictures("narrow")}
          ${desk.keeper.person ? html`<button class="quiet" aria-haspopup="dialog" @click=${() => this.choose("share")}>${msg`Share`}</button>` : null}
          ${MENU.map(([name = "", words]) => html`<button class="quiet" aria-haspopup="dialog" @click=${() => this.choose(name)}>${words}</button>`)}
        </div>
      </div>
      <div class="go">
        ${this.pictures()}
        <div class="split" role="group" aria-label=${msg`The next round`}>
          <button class="main" @click=${() => desk.next()} title=${msg`Ctrl+Enter`}>${this.shownGo}</button>
          <button class="quiet task" aria-haspopup="dialog" title=${msg`Say what happens next`} @click=${() => this.open("task")}>${icon("task")}</button>
          ${this.howMany()}
          <select class="stop" aria-label=${msg`Stop at`} title=${msg`Where they stop`} @change=${(/** @type {any} */ event) => desk.setSetting("stop_at", event.target.value)}>
            ${STOPS.map(([value, words]) => html`<option value=${value} ?selected=${value === stopAt}>${words}</option>`)}
          </select>
        </div>
      </div>
    </header>`;
  }

  /** What the next round does: it goes on where the caret is. */
  goWords() {
    return this.desk.selected ? msg`Revise …` : this.desk.isInside ? msg`Continue here` : msg`Continue`;
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
      ? html`<button class="quiet model" aria-haspopup="dialog" title=${msg`Choose the model`} @click=${choose}>${model}</button>`
      : model
        ? html`<span class="model" title=${msg`Model`}>${model}</span>`
        : null;
  }

  /** @param {string} [place] in the menu */
  pictures(place) {
    const { vision, audio } = this.desk.server.modalities ?? {};
    const what = vision ? msg`Add a picture` : msg`Add a sound`;
    return vision || audio
      ? html`<button class="quiet ${place ?? "pictures"}" aria-label=${what} title=${what} @click=${() => this.choose("pictures")}>${place ? what : icon(vision ? "picture" : "sound")}</button>`
      : null;
  }

  /** How much of the text is computed, where that takes long. */
  warming() {
    const percent = this.desk.rounds?.warming ?? null;
    const title = msg`The model reads the text, so that the first round begins at once.`;
    return percent === null ? null : html`<span class="warming" title=${title}>${msg`reading … ${percent} %`}</span>`;
  }

  /** How far a story is that grows by itself. */
  growing() {
    const { growth } = this.desk.rounds ?? {};
    if (!growth) return null;
    return html`<button class="quiet growing" aria-haspopup="dialog" title=${msg`Let it grow`} @click=${() => this.open("grow")}>${msg`grows: ${wordCount(growth.words)}`}</button>`;
  }

  meter() {
    const { used, limit, cut, parts } = this.desk.context;
    if (!limit || (used < CROWDED * limit && !cut && !parts.some((part) => part.cut > 0))) return null;
    const share = Math.min(1, used / limit);
    const percent = Math.round(share * 100);
    const words = cut
      ? msg`${used} of ${limit} tokens of the model's context; ${cut} characters at the beginning are not sent`
      : msg`${used} of ${limit} tokens of the model's context`;
    return html`<span class="context" title=${words}>
      <span class="name">${msg`context`}</span>
      <meter min="0" max="1" high="0.85" .value=${share} aria-label=${msg`Context used`}></meter> ${percent} %
      ${cut ? html`<span class="cut">${msg`beginning cut`}</span>` : null}
      ${parts.filter((part) => part.cut > 0 && SHORTENED[part.kind]).map(({ kind }) => html` <span class="cut">${SHORTENED[kind]}</span>`)}
    </span>`;
  }

  /** How many cards the next round shows, and of how many they are chosen. */
  howMany() {
    const { desk } = this;
    const { max_n: most = 64 } = desk.server;
    const { n, chosen_from: from } = desk.settings;
    const now = from !== null && from > n ? [n, from] : [n];
    const offered = (/** @type {number[][]} */ pairs) => {
      const fitting = pairs.filter((each) => Math.max(...each) <= most);
      const isLacking = now.length === pairs[0].length && !fitting.some((each) => `${each}` === `${now}`);
      const all = (isLacking ? [...fitting, now] : fitting).sort(([a], [b]) => a - b).map((each) => each.join("/"));
      return all.map((each) => html`<option ?selected=${each === now.join("/")}>${each}</option>`);
    };
    const choose = (/** @type {any} */ event) => {
      const [shown, written = null] = event.target.value.split("/").map(Number);
      if (shown !== n) desk.setSetting("n", shown);
      if (written !== from) desk.setSetting("chosen_from", written);
    };
    const title = now[1] ? msg`The ${n} that differ most, of ${now[1]} that are written` : msg`How many`;
    return html`<select class="count" aria-label=${msg`Branches`} title=${title} @change=${choose}>
      ${offered(COUNTS)}
      <optgroup label=${msg`shown / written`}>${offered(CHOICES)}</optgroup>
    </select>`;
  }

  /** @param {string} name */
  open(name) {
    this.desk.openDialog(name);
  }
}

const TOPICS = ["story", "head", "saved", "server", "round", "rounds", "side"];

/** @param {Desk["saved"]} saved */
function savedTitle({ state, at, message }) {
  return message ?? (state === "saved" && at ? msg`saved at ${CLOCK.format(at)}` : "");
}

/** @param {Desk["saved"]} saved */
function savedWords({ state }) {
  switch (state) {
    case "saved":
      return msg`saved`;
    case "saving":
      return msg`saving …`;
    case "outbox":
      return msg`kept in this browser until the server is back`;
    case "browser":
      return msg`kept in this browser only`;
    case "reader":
      return msg`to read only`;
    case "read_only":
      return msg`not saved: the server cannot write`;
    default:
      return msg`not saved`;
  }
}

customElements.define("srb-header", Header);
