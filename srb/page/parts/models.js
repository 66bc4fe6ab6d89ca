// <srb-models>: the choice of a story's model, where the server has several.

import { msg } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";

/** @typedef {{id: string, default?: boolean, status?: {value: string, failed?: boolean, reason?: string}}} Entry */

const WORDS = msg`belongs to this story. One that is not loaded is loaded when it is first asked, and another may have to give way to it`;

class Models extends Part {
  constructor() {
    super();
    /** @type {Entry[]} as the server told them last */
    this.entries = [];
  }

  listen() {
    this.on("story", () => this.requestUpdate());
    this.on("server", () => this.ask());
    this.ask();
  }

  async ask() {
    try {
      this.entries = (await this.desk.api.get("v1/models")).data;
    } catch {
      this.entries = []; // the server is away; its state is told in the banner
    }
    this.requestUpdate();
  }

  render() {
    const { settings, server } = this.desk;
    const names = server.models ?? [];
    const { model } = settings;
    const isMissing = model !== "" && !names.includes(model) && server.state === "missing";
    const first = this.entries.find((each) => each.default)?.id;
    const shown = isMissing || names.includes(model) || model === "" ? model : server.model;
    return html`<div class="field">
      <label for="setting-model">${msg`Model`}</label>
      <select id="setting-model" aria-describedby="setting-model-words"
        @change=${(/** @type {any} */ event) => this.desk.setSetting("model", event.target.value)}>
        <option value="" .selected=${shown === ""}>${first ? msg`the server's: ${first}` : msg`the server's`}</option>
        ${isMissing ? html`<option value=${model} .selected=${true}>${msg`${model}, which this server does not have`}</option>` : nothing}
        ${names.map((name) => html`<option value=${name} .selected=${name === shown}>${this.labelOf(name)}</option>`)}
      </select>
      <p class="words" id="setting-model-words">${this.reason(shown) || WORDS}</p>
    </div>`;
  }

  /** A model's name, and its state. @param {string} name */
  labelOf(name) {
    const status = this.entries.find(({ id }) => id === name)?.status;
    if (status?.failed) return msg`${name} (cannot be loaded)`;
    if (status?.value === "loaded") return msg`${name} (loaded)`;
    return status?.value === "loading" ? msg`${name} (is being loaded)` : name;
  }

  /** Why a model cannot be loaded; empty if it can. @param {string} name */
  reason(name) {
    return this.entries.find(({ id }) => id === name)?.status?.reason ?? "";
  }
}

customElements.define("srb-models", Models);
