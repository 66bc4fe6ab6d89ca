// Alternatives: the words that the model thought likely at a place, with their probabilities, in a small list at the word.

import { msg, TENTHS } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { spaced, visible } from "../visible.js";
import { besideLines } from "./beside_lines.js";
import { Part } from "./part.js";

/** @typedef {{text: string, logprob: number, probability: number}} Rival */

/** A place to ask about: a card's (by slot number) or, with null, the manuscript's; `word` stands there now.
 * `lines`: of its sentence on the screen.
 * @typedef {{number: number|null, at: number, word: string, lines: DOMRect|null, back?: () => void}} Asked */

const MOST = 496; // px, of the list's height

export class Alternatives extends Part {
  static properties = {
    asked: { state: true },
    rivals: { state: true },
    problem: { state: true },
  };

  constructor() {
    super();
    /** @type {Asked|null} */
    this.asked = null;
    /** Null while the server is asked. @type {Rival[]|null} */
    this.rivals = null;
    this.problem = "";
  }

  listen() {
    this.on("dialog", ({ name, ...asked }) => name === "alternatives" && this.open(asked));
  }

  get dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  /** Ask for the words that are likely at a place, and show them there. @param {Asked} asked */
  async open(asked) {
    this.asked = asked;
    this.rivals = null;
    this.problem = "";
    await this.updateComplete;
    if (!this.dialog.open) this.dialog.showModal();
    this._place();
    try {
      const rivals = await this.desk.alternatives(asked.number, asked.at);
      if (this.asked === asked) this.rivals = rivals;
    } catch (error) {
      if (this.asked === asked) this.problem = /** @type {Error} */ (error).message;
    }
    await this.updateComplete;
    this._place();
    if (this.asked === asked) this._choices()[0]?.focus();
  }

  close() {
    if (this.dialog.open) this.dialog.close();
  }

  /** Put the list beside the word's sentence, never over it. */
  _place() {
    const { dialog, asked } = this;
    const lines = asked?.lines ?? new DOMRect(innerWidth / 2, innerHeight / 3, 0, 0);
    dialog.style.maxHeight = "";
    const window = { width: innerWidth, height: innerHeight };
    const { left, top, most } = besideLines(lines, dialog.getBoundingClientRect(), MOST, window);
    dialog.style.left = `${left}px`;
    dialog.style.top = `${top}px`;
    dialog.style.maxHeight = `${most}px`;
  }

  /** @returns {HTMLButtonElement[]} */
  _choices() {
    return [...this.querySelectorAll("li button")].map((each) => /** @type {HTMLButtonElement} */ (each));
  }

  /** @param {Rival} rival */
  choose({ text }) {
    const { asked } = this;
    this.close();
    if (asked) this.desk.choose(asked.number, asked.at, text);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const choices = this._choices();
    const now = choices.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: now + 1,
      ArrowUp: now - 1,
      Home: 0,
      End: choices.length - 1,
    });
    const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1];
    const rival = digit === undefined || event.shiftKey ? undefined : this.rivals?.[(Number(digit) + 9) % 10];
    const next = steps[event.code];
    if (rival && this.desk.settings.single_keys !== false) this.choose(rival);
    else if (next !== undefined && choices.length) choices[(next + choices.length) % choices.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    if (event.target === this.dialog) this.close(); // beside the list
  }

  onClose() {
    if (this.dialog.open) return; // opened again before the event of its closing came
    const back = this.asked?.back;
    this.asked = null;
    this.rivals = null;
    back?.();
  }

  render() {
    const { asked, rivals, problem } = this;
    return html`<dialog aria-labelledby="alternatives-title" @keydown=${this.onKey} @click=${this.onClick} @close=${this.onClose}>
      <h2 id="alternatives-title">${msg`In place of “${visible(asked?.word.trim() ?? "")}”`}</h2>
      ${problem ? html`<p role="alert">${problem}</p>` : nothing}
      ${!rivals && !problem ? html`<p role="status">${msg`The model is asked …`}</p>` : nothing}
      ${rivals?.length === 0 ? html`<p>${msg`No other word is likely here.`}</p>` : nothing}
      ${rivals?.length ? html`<ol>${rivals.map((rival, place) => this._item(rival, place))}</ol>` : nothing}
      <button class="quiet" @click=${this.close}>${msg`Close`}</button>
    </dialog>`;
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
