// <srb-grow>: the form that lets the story grow by itself, says how far it is, and ends it.

import { msg, wordCount } from "../languages.js";
import { html } from "../vendor/lit.js";
import { PlacePart } from "./place_part.js";

const MOST = 1_000_000;

class Grow extends PlacePart {
  constructor() {
    super("grow");
    this.amount = 2000;
    this.unit = "words";
    this.minutes = 0; // for which the window may be closed
  }

  listen() {
    super.listen();
    this.on(["rounds", "story"], () => this.requestUpdate());
  }

  get stays() {
    return true;
  }

  /** @param {Event} event */
  begin(event) {
    event.preventDefault();
    this.desk.grow({ [this.unit]: this.amount, closed: this.minutes });
    this.close();
  }

  render() {
    const growth = this.desk.rounds?.growth;
    return this.box(
      msg`Let it grow`,
      html`<p>${msg`The model writes on from the end of your text by itself, two ways from each end, the shortest line first. Your text stays as it is; all that grows is in the outline and on the map.`}</p>
      ${growth ? this.progress(growth) : this.budget()}
      <p class="words">${msg`Whatever you ask for goes before it. Begun again, it goes on from the ends that are there.`}</p>`,
    );
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
    const most = Math.floor(this.desk.server.max_linger / 60);
    const closed = [...new Set([0, 1, 5, most])].filter((each) => each <= most);
    return html`<form class="buttons" @submit=${this.begin}>
      <label>${msg`For`} <input type="number" autofocus required min="1" max=${MOST} .value=${String(this.amount)}
        @input=${(/** @type {any} */ event) => (this.amount = event.target.valueAsNumber)} /></label>
      <select aria-label=${msg`Words or minutes`} @change=${(/** @type {any} */ event) => (this.unit = event.target.value)}>
        ${units.map(([value, words]) => html`<option value=${value} ?selected=${value === this.unit}>${words}</option>`)}
      </select>
      <label>${msg`When this window is closed,`} <select @change=${(/** @type {any} */ event) => (this.minutes = Number(event.target.value))}>
        ${closed.map((each) => html`<option value=${each} ?selected=${each === this.minutes}>${closedWords(each)}</option>`)}
      </select></label>
      <button class="main">${msg`Let it grow`}</button>
    </form>`;
  }
}

/** @param {number} minutes */
function closedWords(minutes) {
  if (minutes === 0) return msg`it ends`;
  return minutes === 1 ? msg`it can be taken up for a minute` : msg`it can be taken up for ${minutes} minutes`;
}

customElements.define("srb-grow", Grow);
