// <srb-number>: a labelled number with plain words, and a slider where its range is small.

import { msg } from "../languages.js";
import { html, LitElement, live, nothing } from "../vendor/lit.js";
import { readNumber } from "./numbers.js";

/** @typedef {import("./numbers.js").NumberSetting} NumberSetting */

const SLIDER_STEPS = 320; // ranges of more steps get no slider

export class NumberField extends LitElement {
  static properties = {
    setting: { attribute: false },
    value: { attribute: false },
    fallback: { attribute: false },
    of: { attribute: false },
  };

  constructor() {
    super();
    /** @type {NumberSetting} */
    this.setting = { name: "", label: "", words: "", min: 0, max: 1, step: 1 };
    /** @type {number | null} */
    this.value = null;
    /** @type {number | null} the value that an empty field stands for */
    this.fallback = null;
    /** @type {string} a word that makes the ids of two fields of one setting differ */
    this.of = "setting";
    /** @type {string | null} the text that is being typed */
    this.typed = null;
  }

  createRenderRoot() {
    return this;
  }

  render() {
    const { setting, value, fallback, typed } = this;
    const id = `${this.of}-${setting.name}`;
    const read = typed === null ? null : readNumber(setting, typed);
    const wrong = typeof read === "string" ? read : "";
    const empty = fallback === null ? (setting.empty ?? "") : String(fallback);
    return html`
      <label for=${id}>${setting.label}</label>
      <input
        id=${id}
        inputmode=${setting.whole ? "numeric" : "decimal"}
        autocomplete="off"
        placeholder=${empty}
        .value=${live(typed ?? (value === null ? "" : String(value)))}
        aria-describedby="${id}-words ${id}-wrong"
        aria-invalid=${wrong === "" ? "false" : "true"}
        @input=${(/** @type {InputEvent} */ event) => this.#type(event)}
        @blur=${() => this.#leave()}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.#step(event)}
      />
      ${this.#slider()}
      <p class="words" id="${id}-words">${setting.words}</p>
      <p class="wrong" id="${id}-wrong" role="alert">${wrong}</p>
    `;
  }

  #slider() {
    const { min, max, step, label } = this.setting;
    if ((max - min) / step > SLIDER_STEPS) {
      return nothing;
    }
    return html`<input
      type="range"
      aria-label=${msg`${label}, as a slider`}
      min=${min}
      max=${max}
      step=${step}
      .value=${live(String(this.value ?? this.fallback ?? min))}
      @input=${(/** @type {InputEvent} */ event) => {
        this.typed = null;
        this.#set(Number(/** @type {HTMLInputElement} */ (event.target).value));
      }}
    />`;
  }

  /** @param {InputEvent} event */
  #type(event) {
    this.typed = /** @type {HTMLInputElement} */ (event.target).value;
    const read = readNumber(this.setting, this.typed);
    if (typeof read !== "string") {
      this.#set(read);
    }
    this.requestUpdate();
  }

  /** A right number is shown as it is read; a wrong one stays with its sentence until it is put right. */
  #leave() {
    if (this.typed !== null && typeof readNumber(this.setting, this.typed) !== "string") {
      this.typed = null;
      this.requestUpdate();
    }
  }

  /**
   * Arrow up and down change the number by a step.
   *
   * @param {KeyboardEvent} event
   */
  #step(event) {
    const sign = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (sign === undefined || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    const { min, max, step } = this.setting;
    const next = (this.value ?? this.fallback ?? min) + sign * step;
    this.typed = null;
    this.#set(Number(Math.min(max, Math.max(min, next)).toFixed(4)));
  }

  /** @param {number | null} value */
  #set(value) {
    if (value !== this.value) {
      this.value = value;
      this.dispatchEvent(new CustomEvent("number", { detail: value }));
    }
  }
}

customElements.define("srb-number", NumberField);
