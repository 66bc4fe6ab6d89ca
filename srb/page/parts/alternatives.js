// Alternatives: the words that the model thought likely at a place, with their probabilities, in a small list at the word.

import { msg, TENTHS } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { spaced, visible } from "../visible.js";
import { PlacePart } from "./place_part.js";

/** @typedef {{text: string, logprob: number, probability: number}} Rival */

/** A place to ask about: a card's (by slot number) or, with null, the manuscript's; `word` stands there now.
 * `lines`: of its sentence on the screen.
 * @typedef {{number: number|null, at: number, word: string, lines: DOMRect|null}} Asked */

export class Alternatives extends PlacePart {
  static properties = {
    asked: { state: true },
    rivals: { state: true },
    problem: { state: true },
  };

  constructor() {
    super("alternatives");
    /** @type {Asked|null} */
    this.asked = null;
    /** Null while the server is asked. @type {Rival[]|null} */
    this.rivals = null;
    this.problem = "";
  }

  get anchor() {
    return { lines: this.asked?.lines };
  }

  /** Ask for the words that are likely at a place, and show them there. @param {any} asked */
  async open(asked) {
    this.asked = /** @type {Asked} */ (asked);
    this.rivals = null;
    this.problem = "";
    await super.open();
    try {
      const rivals = await this.desk.alternatives(asked.number, asked.at);
      if (this.asked === asked) this.rivals = rivals;
    } catch (error) {
      if (this.asked === asked) this.problem = /** @type {Error} */ (error).message;
    }
    await this.updateComplete;
    if (this.asked !== asked || !this.isShown) return;
    this.place();
    this.choices[0]?.focus();
  }

  /** @param {Rival} rival */
  choose({ text }) {
    const { asked } = this;
    this.close();
    if (asked) this.desk.choose(asked.number, asked.at, text);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { code, ctrlKey, altKey, metaKey, shiftKey } = event;
    const digit = /^(?:Digit|Numpad)([0-9])$/.exec(code)?.[1];
    const rival = digit === undefined || shiftKey ? undefined : this.rivals?.[(Number(digit) + 9) % 10];
    if (this.step(event) || !rival || ctrlKey || altKey || metaKey || this.desk.settings.single_keys === false) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(rival);
  }

  render() {
    const { asked, rivals, problem } = this;
    return this.box(
      msg`In place of “${visible(asked?.word.trim() ?? "")}”`,
      html`${problem ? html`<p role="alert">${problem}</p>` : nothing}
      ${!rivals && !problem ? html`<p role="status">${msg`The model is asked …`}</p>` : nothing}
      ${rivals?.length === 0 ? html`<p>${msg`No other word is likely here.`}</p>` : nothing}
      ${rivals?.length ? html`<ol>${rivals.map((rival, place) => this._item(rival, place))}</ol>` : nothing}`,
    );
  }

  /** @param {Rival} rival @param {number} place */
  _item(rival, place) {
    const isThere = this.asked?.word.trim().startsWith(rival.text.trim()) && rival.text.trim() !== "";
    const isAlike = this.rivals?.some((each) => each !== rival && each.text.trim() === rival.text.trim());
    const { before, words, after } = spaced(rival.text, isAlike);
    return html`<li><button @click=${() => this.choose(rival)} @pointermove=${focusThis}>
      <kbd aria-hidden="true">${place < 10 ? (place + 1) % 10 : nothing}</kbd>
      <span class="rival" dir="auto"><span class="space">${before}</span>${words}<span class="space">${after}</span></span>
      ${isThere ? html`<span class="there">${msg`as it is`}</span>` : nothing}
      <meter max="1" value=${rival.probability} aria-hidden="true"></meter>
      <span class="percent">${percent(rival.probability)}</span>
    </button></li>`;
  }
}

/** The row that is pointed at is the one that Enter chooses. @param {PointerEvent} event */
function focusThis({ currentTarget }) {
  if (currentTarget !== document.activeElement)
    /** @type {HTMLElement} */ (currentTarget).focus({ preventScroll: true });
}

/** @param {number} probability */
function percent(probability) {
  const value = 100 * probability;
  return `${value >= 10 ? Math.round(value) : value >= 0.1 ? TENTHS.format(value) : `< ${TENTHS.format(0.1)}`} %`;
}

customElements.define("srb-alternatives", Alternatives);
