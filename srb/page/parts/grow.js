// <srb-grow>: the dialog that lets the story grow by itself, says how far it is, and ends it.

import { msg, wordCount } from "../languages.js";
import { html } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { DialogPart } from "./part.js";

const MOST = 1_000_000;

class Grow extends DialogPart {
  constructor() {
    super("grow");
    this.amount = 2000;
    this.unit = "words";
  }

  listen() {
    super.listen();
    this.on(["rounds", "story"], () => this.requestUpdate());
  }

  /** @param {Event} event */
  begin(event) {
    event.preventDefault();
    this.desk.grow({ [this.unit]: this.amount });
    this.close();
  }

  render() {
    const growth = this.desk.rounds?.growth;
    return html`<dialog aria-labelledby="grow-title" closedby="any">
      <header class="dialog-head">
        <h2 id="grow-title">${msg`Let it grow`}</h2>
        ${closeButton(() => this.close())}
      </header>
      <p>${msg`The model writes on from the end of your text by itself, two ways from each end, the shortest line first. Your text stays as it is; all that grows is in the outline and on the map.`}</p>
      ${growth ? this.progress(growth) : this.budget()}
      <p class="words">${msg`Whatever you ask for goes before it. It ends with this window, and goes on from the ends that are there when you begin it again.`}</p>
    </dialog>`;
  }

  /** @param {import("../desk/growing.js").Growth} growth */
  progress(growth) {
    return html`<p class="buttons"><span role="status">${msg`Grown so far: ${wordCount(growth.words)}`}</span>
      <button class="main" autofocus @click=${() => growth.stop()}>${msg`Stop`}</button></p>`;
  }

  budget() {
    const units = [
      ["words", msg`words`],
      ["minutes", msg`minutes`],
    ];
    return html`<form class="buttons" @submit=${this.begin}>
      <label>${msg`For`} <input type="number" autofocus required min="1" max=${MOST} .value=${String(this.amount)}
        @input=${(/** @type {any} */ event) => (this.amount = event.target.valueAsNumber)} /></label>
      <select aria-label=${msg`Words or minutes`} @change=${(/** @type {any} */ event) => (this.unit = event.target.value)}>
        ${units.map(([value, words]) => html`<option value=${value} ?selected=${value === this.unit}>${words}</option>`)}
      </select>
      <button class="main">${msg`Let it grow`}</button>
    </form>`;
  }
}

customElements.define("srb-grow", Grow);
