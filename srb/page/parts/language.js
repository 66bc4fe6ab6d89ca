// <srb-language>: the field for a story's language, by which its spelling is checked, its text read aloud and its exports made.

import { languageTag } from "../formats/chapters.js";
import { LANGUAGE, msg } from "../languages.js";
import { html, live, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";

/** @typedef {import("../desk.js").Desk} Desk */

const LANGUAGES = [
  "de",
  "en",
  "en-GB",
  "es",
  "fr",
  "it",
  "ja",
  "ko",
  "nl",
  "pl",
  "pt-BR",
  "ru",
  "sv",
  "tr",
  "uk",
  "zh-Hans",
];

/** The language that a story has, or else the browser's; "" where a person has emptied the field. @param {Desk} desk */
export function languageOf({ story }) {
  const kept = story.meta("language");
  return typeof kept === "string" ? kept : navigator.language;
}

class Language extends Part {
  constructor() {
    super();
    this.wrong = "";
    /** @type {string | null} what is being written, which a change of the story must not replace */
    this.typed = null;
    /** @type {unknown} the story for which it is written */
    this.story = null;
  }

  listen() {
    this.story = this.desk.story;
    this.on("story", () => {
      if (this.story !== this.desk.story) Object.assign(this, { story: this.desk.story, typed: null, wrong: "" });
      this.requestUpdate();
    });
  }

  render() {
    const [id, tag] = [`${this.dataset.place}-language`, languageOf(this.desk)];
    return html`<label for=${id}>${msg`Language`}</label>
      <input id=${id} maxlength="80" spellcheck="false" list="${id}-list" aria-describedby="${id}-name ${id}-wrong"
        aria-invalid=${this.wrong === "" ? "false" : "true"} .value=${live(this.typed ?? tag)}
        @input=${(/** @type {any} */ event) => {
          this.typed = event.target.value;
        }}
        @change=${(/** @type {any} */ event) => this.#keep(event.target.value.trim())}>
      <span id="${id}-name" class="size">${nameOf(tag)}</span>
      ${this.wrong ? html`<p class="wrong" id="${id}-wrong" role="alert">${this.wrong}</p>` : nothing}
      <datalist id="${id}-list">${LANGUAGES.map((each) => html`<option value=${each}>${nameOf(each)}</option>`)}</datalist>`;
  }

  /** @param {string} typed */
  #keep(typed) {
    const tag = languageTag(typed);
    this.wrong =
      typed !== "" && tag === null
        ? msg`“${typed}” is no language that programs know: write it as en, de or pt-BR, or leave it empty.`
        : "";
    if (!this.wrong) {
      this.typed = null;
      this.desk.setMeta("language", tag ?? "");
    }
    this.requestUpdate();
  }
}

/** @param {string} tag */
function nameOf(tag) {
  return languageTag(tag) === null ? "" : (new Intl.DisplayNames([LANGUAGE], { type: "language" }).of(tag) ?? "");
}

customElements.define("srb-language", Language);
