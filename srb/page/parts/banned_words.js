// <srb-banned>: the words and phrases that never come in a branch, one in a line.

import { msg } from "../languages.js";
import { html, LitElement, live } from "../vendor/lit.js";

const MOST = 64; // as the server allows
const LONGEST = 256; // characters

export class BannedWords extends LitElement {
  static properties = { value: { attribute: false } };

  constructor() {
    super();
    /** @type {string[]} */
    this.value = [];
    /** @type {string | null} the text that is being typed */
    this.typed = null;
  }

  createRenderRoot() {
    return this;
  }

  render() {
    const text = this.typed ?? this.value.join("\n");
    const wrong = problemOf(linesOf(text));
    return html`
      <label for="setting-banned">${msg`Banned words and phrases`}</label>
      <textarea
        id="setting-banned"
        rows="3"
        dir="auto"
        aria-describedby="setting-banned-words setting-banned-wrong"
        aria-invalid=${wrong === "" ? "false" : "true"}
        .value=${live(text)}
        @input=${(/** @type {any} */ event) => this.#type(event.target.value)}
        @blur=${() => this.#leave()}
      ></textarea>
      <p class="words" id="setting-banned-words">${msg`one in a line; they never come in a branch, in capitals or not`}</p>
      <p class="wrong" id="setting-banned-wrong" role="alert">${wrong}</p>
    `;
  }

  /** @param {string} text */
  #type(text) {
    this.typed = text;
    const lines = linesOf(text);
    if (problemOf(lines) === "") {
      this.dispatchEvent(new CustomEvent("banned", { detail: lines }));
    }
    this.requestUpdate();
  }

  #leave() {
    if (this.typed !== null && problemOf(linesOf(this.typed)) === "") {
      this.typed = null;
      this.requestUpdate();
    }
  }
}

/** @param {string} text */
function linesOf(text) {
  return [...new Set(text.split("\n").filter((line) => line.trim() !== ""))];
}

/** @param {string[]} lines */
function problemOf(lines) {
  if (lines.length > MOST) {
    return msg`At most ${MOST} words and phrases can be banned; these are ${lines.length}.`;
  }
  return lines.some((line) => [...line].length > LONGEST)
    ? msg`A banned phrase has at most ${LONGEST} characters.`
    : "";
}

customElements.define("srb-banned", BannedWords);
