// <srb-presets>: sampling settings under a name. Five are ours; a writer's own ones are kept in this browser.

import { msg } from "../languages.js";
import { PRESETS, presetOf, presetSettings } from "../sampling.js";
import { isRecord } from "../story/check.js";
import { html, LitElement, nothing, repeat } from "../vendor/lit.js";
import { closeButton } from "./icons.js";

/** @typedef {import("../sampling.js").Preset} Preset */

const KEY = "srb.presets";
const OURS = [
  { name: "usual", label: msg`Usual`, words: msg`as the server, without repeats` },
  { name: "going_on", label: msg`Going on`, words: msg`for instruct models, which end early` },
  { name: "steady", label: msg`Steady`, words: msg`keeps to likely words` },
  { name: "lively", label: msg`Lively`, words: msg`surprises now and then` },
  { name: "wild", label: msg`Wild`, words: msg`odder words; the stories stay much the same` },
];

/** @returns {[name: string, preset: Preset][]} */
function ownPresets() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each?.[0] === "string" && isRecord(each[1])) : [];
  } catch {
    return []; // unreadable, or storage is switched off: ours are there
  }
}

export class Presets extends LitElement {
  static properties = { settings: { attribute: false } };

  constructor() {
    super();
    /** @type {Record<string, any>} */
    this.settings = {};
    this.own = ownPresets();
    this.said = "";
  }

  createRenderRoot() {
    return this;
  }

  render() {
    const now = JSON.stringify(presetSettings(presetOf(this.settings)));
    const isNow = (/** @type {Preset} */ preset) => JSON.stringify(presetSettings(preset)) === now;
    return html`
      <div class="row">
        ${this.#button(msg`The server's`, msg`every value as the server has it`, {}, isNow)}
        ${OURS.map(({ name, label, words }) => this.#button(label, words, PRESETS[name] ?? {}, isNow))}
      </div>
      <div class="row">
        ${repeat(
          this.own,
          ([name]) => name,
          ([name, preset]) => html`<span class="own">
            ${this.#button(name, "", preset, isNow)}
            ${closeButton(() => this.#remove(name), msg`Remove the preset ${name}`)}
          </span>`,
        )}
      </div>
      <form class="row" @submit=${(/** @type {SubmitEvent} */ event) => this.#keep(event)}>
        <label for="preset-name">${msg`Keep these values as`}</label>
        <input id="preset-name" name="name" maxlength="40" autocomplete="off" aria-describedby="preset-said" />
        <button>${msg`Keep`}</button>
      </form>
      <p class="words" id="preset-said" role="status">${this.said}</p>
    `;
  }

  /**
   * @param {string} label
   * @param {string} words
   * @param {Preset} preset
   * @param {(preset: Preset) => boolean} isNow
   */
  #button(label, words, preset, isNow) {
    return html`<button
      type="button"
      class="preset"
      aria-pressed=${isNow(preset) ? "true" : "false"}
      @click=${() => this.dispatchEvent(new CustomEvent("preset", { detail: presetSettings(preset) }))}
    >
      <b>${label}</b>${words === "" ? nothing : html`<small>${words}</small>`}
    </button>`;
  }

  /** @param {SubmitEvent} event */
  #keep(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const name = String(new FormData(form).get("name")).trim();
    if (name === "") {
      this.#say(msg`Give the preset a name.`);
      return;
    }
    const others = this.own.filter(([each]) => each !== name);
    if (this.#store([...others, [name, presetOf(this.settings)]])) {
      this.#say(msg`“${name}” is kept in this browser.`);
      form.reset();
    }
  }

  /** @param {string} name */
  #remove(name) {
    if (this.#store(this.own.filter(([each]) => each !== name))) {
      this.#say(msg`“${name}” is removed.`);
    }
  }

  /**
   * @param {[name: string, preset: Preset][]} presets
   * @returns {boolean} whether this browser keeps them
   */
  #store(presets) {
    try {
      localStorage.setItem(KEY, JSON.stringify(presets));
    } catch {
      this.#say(msg`This browser does not let the page keep presets.`);
      return false;
    }
    this.own = presets;
    return true;
  }

  /** @param {string} sentence */
  #say(sentence) {
    this.said = sentence;
    this.requestUpdate();
  }
}

customElements.define("srb-presets", Presets);
