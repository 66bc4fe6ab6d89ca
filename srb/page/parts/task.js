// <srb-task>: what the next round is asked to do: what happens next, or what becomes of the passage that is selected.

import { DEFAULTS } from "../desk/defaults.js";
import { draftOf, sendDraft, sentOf } from "../desk/drafts.js";
import { quoted } from "../desk/moves.js";
import { msg } from "../languages.js";
import { GO_ON, SENSES, VERBS } from "../tasks.js";
import { html, live, nothing } from "../vendor/lit.js";
import { draftField } from "./draft_field.js";
import { closeButton } from "./icons.js";
import { msgHtml } from "./msg_html.js";
import { DialogPart } from "./part.js";

/** @type {Record<string, string>} by what the instruction calls them */
const SENSE_WORDS = { seen: msg`seen`, heard: msg`heard`, smelled: msg`smelled`, tasted: msg`tasted`, felt: msg`felt` };
const FILL = "fill"; // the gap that the passage leaves: a round at its place, without an instruction

class TaskDialog extends DialogPart {
  constructor() {
    super("task");
    this.passage = "";
    this.verb = ""; // until one was chosen
    this.instruction = "";
  }

  /** The name of what is written: an instruction is kept for each verb. */
  get draft() {
    return this.passage ? `revise.${this.verb}` : "wish";
  }

  async open() {
    this.passage = this.desk.selected;
    const isBegun = (/** @type {{name: string}} */ { name }) => draftOf(this.desk, `revise.${name}`) !== "";
    this.choose(this.verb || (VERBS.find(isBegun) ?? VERBS[0]).name);
    await super.open();
    /** @type {HTMLElement | null} */ (this.querySelector(this.passage ? "input:checked" : "textarea"))?.focus();
  }

  /** @param {string} name of a verb */
  choose(name) {
    this.verb = name;
    const usual = this.passage ? (VERBS.find((verb) => verb.name === name)?.instruction ?? "") : "";
    this.instruction = draftOf(this.desk, this.draft) || usual;
    this.requestUpdate();
  }

  /** @param {Event} event */
  go(event) {
    event.preventDefault();
    this.close();
    const instruction = this.instruction.trim();
    const verb = this.passage ? this.verb : GO_ON;
    sendDraft(this.desk, this.draft, instruction);
    this.desk.go(verb === FILL ? { isFilling: true } : instruction ? { task: { verb, instruction } } : {});
    this.desk.manuscript?.focus();
  }

  render() {
    const { desk, passage, verb } = this;
    const { n } = desk.settings;
    const title = passage ? msg`Revise ${quoted(passage)}` : msg`What happens next`;
    return html`<dialog aria-labelledby="task-title" closedby="any">
      <form @submit=${this.go}>
        <header class="dialog-head">
          <h2 id="task-title">${title}</h2>
          ${closeButton(() => this.close())}
        </header>
        ${passage ? this.verbs() : nothing}
        ${passage && verb === FILL ? html`<p class="words">${msg`The passage is written anew from what stands before it and behind it.`}</p>` : this.words()}
        ${passage || desk.settings.mode === "chat" ? nothing : this.frame()}
        <p><button class="main">${passage ? msg`Revise, ${n} ways` : msg`Continue, ${n} ways`}</button>
          <button type="button" @click=${this.each}>${msg`For each card …`}</button></p>
      </form>
    </dialog>`;
  }

  /** Say it for each card by itself. */
  each() {
    this.close();
    this.desk.openDialog("directions", { isFilling: this.passage !== "" && this.verb === FILL });
  }

  verbs() {
    const all = [...VERBS, { name: FILL, label: msg`Fill the gap` }];
    return html`<fieldset><legend class="hidden-words">${msg`How`}</legend>${all.map(
      ({ name, label }) => html`<label><input
          type="radio"
          name="task-verb"
          value=${name}
          .checked=${live(name === this.verb)}
          @change=${() => this.choose(name)}
        /><span>${label}</span></label>`,
    )}</fieldset>
    ${this.verb === "describe" ? this.senses() : nothing}`;
  }

  senses() {
    const set = (/** @type {string} */ sense) => {
      this.instruction = this.instruction.replace(new RegExp(`\\b(${SENSES.join("|")})\\b`), sense);
      this.requestUpdate();
    };
    const choice = html`<select @change=${(/** @type {any} */ event) => set(event.target.value)}>${SENSES.map(
      (sense) => html`<option value=${sense}>${SENSE_WORDS[sense]}</option>`,
    )}</select>`;
    return html`<p><label>${msgHtml`Tell more of what is ${choice}`}</label></p>`;
  }

  words() {
    const set = (/** @type {string} */ text) => {
      this.instruction = text;
    };
    const { input, keydown } = draftField(this.desk, () => this.draft, set);
    const hint = this.passage ? "" : msg`Tom refuses; Mara leaves`;
    return html`<p><label>${this.passage ? msg`Instruction` : msg`For this round`}
      <textarea
        rows="3"
        dir="auto"
        placeholder=${hint}
        .value=${live(this.instruction)}
        @input=${input}
        @keydown=${keydown}
      ></textarea></label></p>
      ${sentOf(this.desk, this.draft).length ? html`<p class="words">${msg`↑ at the beginning: what was asked for before`}</p>` : nothing}`;
  }

  /** What stands around the instruction in the prompt of a model that takes none. */
  frame() {
    const { desk } = this;
    const input = html`<input
        maxlength="1000"
        spellcheck="false"
        dir="auto"
        .value=${live(desk.settings.wish_frame)}
        @change=${(/** @type {any} */ event) => desk.setSetting("wish_frame", event.target.value || DEFAULTS.wish_frame)}
      />`;
    return html`<p><label>${msgHtml`is read as ${input}`}</label></p>`;
  }
}

customElements.define("srb-task", TaskDialog);
