// <srb-models>: the choice of a story's model, where the server has several.

import { html, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";

/** @typedef {{id: string, default?: boolean, status?: {value: string, failed?: boolean, reason?: string}}} Entry */

const WORDS =
  "belongs to this story. One that is not loaded is loaded when it is first asked, and another may have to give way to it";

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
      <label for="setting-model">Model</label>
      <select id="setting-model" aria-describedby="setting-model-words"
        @change=${(/** @type {any} */ event) => this.desk.setSetting("model", event.target.value)}>
        <option value="" .selected=${shown === ""}>the server's${first ? `: ${first}` : ""}</option>
        ${isMissing ? html`<option value=${model} .selected=${true}>${model}, which this server does not have</option>` : nothing}
        ${names.map((name) => html`<option value=${name} .selected=${name === shown}>${name}${this.stateOf(name)}</option>`)}
      </select>
      <p class="words" id="setting-model-words">${this.reason(shown) || WORDS}</p>
    </div>`;
  }

  /** @param {string} name */
  stateOf(name) {
    const status = this.entries.find(({ id }) => id === name)?.status;
    if (status?.failed) return " (cannot be loaded)";
    return status?.value === "loaded" ? " (loaded)" : status?.value === "loading" ? " (is being loaded)" : "";
  }

  /** Why a model cannot be loaded; empty if it can. @param {string} name */
  reason(name) {
    return this.entries.find(({ id }) => id === name)?.status?.reason ?? "";
  }
}

customElements.define("srb-models", Models);
