// <srb-task>: what the next round is asked to do: what happens next, or what becomes of the passage that is selected. It stands at the
// passage, or below the button that continues.

import { DEFAULTS } from "../desk/defaults.js";
import { draftOf, sendDraft, sentOf } from "../desk/drafts.js";
import { passageAt } from "../desk/gap.js";
import { msg } from "../languages.js";
import { describing, GO_ON, OWN, SENSES, VERBS } from "../tasks.js";
import { html, live, nothing } from "../vendor/lit.js";
import { draftField } from "./draft_field.js";
import { msgHtml } from "./msg_html.js";
import { PlacePart } from "./place_part.js";

/** @typedef {import("../tasks.js").Task} Task */

/** @type {Record<string, string>} by what the instruction calls them */
const SENSE_WORDS = { seen: msg`seen`, heard: msg`heard`, smelled: msg`smelled`, tasted: msg`tasted`, felt: msg`felt` };
const ANEW = msg`The passage is written anew from what stands before it and behind it.`;

class TaskPart extends PlacePart {
  constructor() {
    super("task");
    this.instruction = ""; // of her own
  }

  /** The name of what is written. */
  get draft() {
    return this.passage ? "revise" : "wish";
  }

  async open() {
    const { desk } = this;
    this.passage = desk.selected;
    this.instruction = draftOf(desk, this.draft);
    await super.open();
    const { at, until } = passageAt(desk.text, desk.manuscript?.selection ?? { from: 0, to: 0 }) ?? { at: 0, until: 0 };
    desk.tell("asked", this.passage ? { at, to: until } : undefined);
    (this.instruction || !this.passage ? this.field : this.choices[0])?.focus();
  }

  get field() {
    return this.querySelector("textarea");
  }

  /** Let a round begin. @param {import("../desk/rounds.js").Going} [going] */
  go(going) {
    this.close();
    this.desk.go(going);
    this.desk.manuscript?.focus();
  }

  /** Send what she has written; nothing of it asks for other words. @param {Event} event */
  send(event) {
    event.preventDefault();
    const instruction = this.instruction.trim();
    sendDraft(this.desk, this.draft, instruction);
    const task = this.passage
      ? { verb: OWN, instruction: instruction || VERBS[0].instruction }
      : { verb: GO_ON, instruction };
    this.go(task.instruction ? { task } : {});
  }

  /** A letter that is pressed at a choice begins an instruction of her own. @param {KeyboardEvent} event */
  onKey(event) {
    const { key, target, ctrlKey, altKey, metaKey } = event;
    if (target === this.field) return;
    if (!this.step(event) && key.length === 1 && key !== " " && !ctrlKey && !altKey && !metaKey) this.field?.focus();
  }

  render() {
    const { desk, passage } = this;
    const { n } = desk.settings;
    const title = passage ? msg`Revise ${this.quote}` : msg`What happens next`;
    return this.box(
      title,
      html`<form @submit=${(/** @type {Event} */ event) => this.send(event)}>
        ${passage ? this.verbs() : nothing}
        ${this.words()}
        ${passage || desk.settings.mode === "chat" ? nothing : this.frame()}
        <p class="buttons"><button class="main">${passage ? msg`Revise, ${n} ways` : msg`Continue, ${n} ways`}</button>
          <button type="button" @click=${this.each}>${msg`For each card …`}</button></p>
      </form>`,
    );
  }

  closed() {
    this.desk.tell("asked");
  }

  /** Say it for each card by itself. */
  each() {
    this.close();
    this.desk.openDialog("directions");
  }

  verbs() {
    const item = (/** @type {string} */ label, /** @type {Task} */ task) =>
      html`<li><button type="button" class="quiet" title=${task.instruction} @click=${() => this.go({ task })}>${label}</button></li>`;
    return html`<ul class="verbs" aria-label=${msg`How`}>
      ${VERBS.map(({ label, name, instruction }) => item(label, { verb: name, instruction }))}
      <li><button type="button" class="quiet" title=${ANEW} @click=${() => this.go({ isFilling: true })}>${msg`Fill the gap`}</button></li>
      <li class="senses">${msg`Tell more of what is`} ${SENSES.map(
        (sense) =>
          html`<button type="button" class="quiet" @click=${() => this.go({ task: describing(sense) })}>${SENSE_WORDS[sense]}</button>`,
      )}</li>
    </ul>`;
  }

  words() {
    const set = (/** @type {string} */ text) => {
      this.instruction = text;
    };
    const { input, keydown } = draftField(this.desk, () => this.draft, set);
    return html`<label>${this.passage ? msg`In your own words` : msg`For this round`}
      <textarea
        rows="2"
        dir="auto"
        placeholder=${this.passage ? msg`as a letter to her sister` : msg`Tom refuses; Mara leaves`}
        .value=${live(this.instruction)}
        @input=${input}
        @keydown=${keydown}
      ></textarea></label>
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
    return html`<details class="words"><summary>${msg`Wording for the model`}</summary><label>${msgHtml`is read as ${input}`}</label></details>`;
  }
}

customElements.define("srb-task", TaskPart);
