// <srb-banned>: the words and phrases that never come in a branch, or seldom, one in a line.

import { patternOf } from "../bans.js";
import { msg } from "../languages.js";
import { html, LitElement, live } from "../vendor/lit.js";

const MOST = 1024; // as the server allows
const LONGEST = 256; // characters of a pattern

/** By the settings' names: the field's label, and what its lines do. @type {Record<string, [string, string]>} */
const WORDS = {
  banned_strings: [
    msg`Banned words and phrases`,
    msg`one in a line; they never come in a branch, in capitals or not; * stands for any ending, and /…/ is a regular expression`,
  ],
  seldom_strings: [
    msg`Words and phrases that come seldom`,
    msg`one in a line, as above; of five times that one would come, it comes once`,
  ],
};

export class BannedWords extends LitElement {
  static properties = { value: { attribute: false }, name: {} };

  constructor() {
    super();
    /** @type {string[]} */
    this.value = [];
    this.name = "banned_strings";
    /** @type {string | null} the text that is being typed */
    this.typed = null;
  }

  createRenderRoot() {
    return this;
  }

  render() {
    const text = this.typed ?? this.value.join("\n");
    const wrong = problemOf(linesOf(text));
    const id = `setting-${this.name}`;
    const [label, words] = WORDS[this.name];
    return html`
      <label for=${id}>${label}</label>
      <textarea
        id=${id}
        rows="3"
        dir="auto"
        aria-describedby="${id}-words ${id}-wrong"
        aria-invalid=${wrong === "" ? "false" : "true"}
        .value=${live(text)}
        @input=${(/** @type {any} */ event) => this.#type(event.target.value)}
        @blur=${() => this.#leave()}
      ></textarea>
      <p class="words" id="${id}-words">${words}</p>
      <p class="wrong" id="${id}-wrong" role="alert">${wrong}</p>
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
  const patterns = lines.map(patternOf);
  if (patterns.some((pattern) => [...pattern].length > LONGEST))
    return msg`A banned phrase has at most ${LONGEST} characters.`;
  const wrong = lines.find((_, place) => !isPattern(patterns[place]));
  return wrong === undefined ? "" : msg`“${wrong}” is no regular expression that the server takes.`;
}

/** Whether the server takes a pattern, as far as the browser can tell. @param {string} pattern */
function isPattern(pattern) {
  try {
    return !new RegExp(pattern, "iu").test("") && !/\(\?<?[=!]|(?<!\\)\\[1-9k]/u.test(pattern);
  } catch {
    return false;
  }
}

customElements.define("srb-banned", BannedWords);
