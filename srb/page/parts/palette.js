/** <srb-palette>: all actions of the page in one list, to be found by words, done, and given keys of one's own. */

import { isComposing } from "../keys.js";
import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { keyName } from "./key_names.js";
import { ACTIONS } from "./palette/actions.js";
import { chordOf, conflictOf, ownKeys, setOwnKey } from "./palette/own_keys.js";
import { DialogPart } from "./part.js";

/** @typedef {import("./palette/actions.js").Action} Action */

class Palette extends DialogPart {
  constructor() {
    super("palette");
    this.wanted = "";
    /** @type {string | null} the action for which keys are being pressed */
    this.keyOf = null;
    this.said = "";
  }

  async open() {
    Object.assign(this, { wanted: "", keyOf: null, said: "" });
    await super.open();
    this.querySelector("input")?.focus();
  }

  get found() {
    const words = this.wanted.toLocaleLowerCase().split(/\s+/u);
    return ACTIONS.filter(
      ({ label, can }) => can?.(this.desk) !== false && words.every((word) => label.toLocaleLowerCase().includes(word)),
    );
  }

  /** @param {Action} action */
  run(action) {
    this.close(); // the focus goes back to where it was, and the action acts there
    action.run(this.desk);
  }

  /** Move through the actions, and do the first one from the field. @param {KeyboardEvent} event */
  onKey(event) {
    if (this.keyOf !== null) return this.onNewKey(event, this.keyOf);
    const buttons = /** @type {HTMLElement[]} */ ([...this.querySelectorAll("button.action")]);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const row = document.activeElement?.closest("li")?.querySelector("button.action");
      const next = buttons.indexOf(/** @type {HTMLElement} */ (row)) + step;
      (next < 0 ? this.querySelector("input") : buttons[next])?.focus();
    } else if (
      event.key === "Enter" &&
      event.target instanceof HTMLInputElement &&
      !isComposing(event) &&
      this.found[0]
    ) {
      event.preventDefault();
      this.run(this.found[0]);
    }
  }

  /** @param {KeyboardEvent} event @param {string} id */
  onNewKey(event, id) {
    const chord = chordOf(event);
    if (chord === "Tab" || chord === "Shift+Tab") return;
    event.preventDefault();
    event.stopPropagation();
    if (!chord) return;
    if (chord !== "Escape") {
      const isNone = chord === "Backspace" || chord === "Delete";
      this.said = isNone ? "" : conflictOf(id, chord);
      if (!this.said && !setOwnKey(id, isNone ? "" : chord)) this.said = msg`This browser keeps no keys.`;
      if (this.said) return this.requestUpdate();
    }
    Object.assign(this, { keyOf: null, said: "" });
    this.requestUpdate();
  }

  /** @param {string} id */
  askKey(id) {
    Object.assign(this, { keyOf: this.keyOf === id ? null : id, said: "" });
    this.requestUpdate();
  }

  leaveKey() {
    if (this.keyOf === null) return;
    Object.assign(this, { keyOf: null, said: "" });
    this.requestUpdate();
  }

  render() {
    const own = [...ownKeys()];
    const found = this.found;
    return html`<dialog aria-labelledby="palette-title" closedby="any" @keydown=${(/** @type {KeyboardEvent} */ event) => this.onKey(event)}>
      ${dialogHead(this, msg`All actions`)}
      <input type="search" aria-label=${msg`Find an action`} placeholder=${msg`Find an action`} .value=${this.wanted}
        @input=${(/** @type {any} */ event) => {
          this.wanted = event.target.value.trim();
          this.requestUpdate();
        }}>
      <p class="said" role="status">${this.keyOf === null ? (found.length ? "" : msg`No action has these words.`) : this.said || msg`Press the keys; Backspace: none; Esc: as before.`}</p>
      <ul>${found.map((action) => this.row(action, own))}</ul>
    </dialog>`;
  }

  /** @param {Action} action @param {[chord: string, id: string][]} own */
  row(action, own) {
    const { id, label, keys } = action;
    const all = [...own.flatMap(([chord, of]) => (of === id ? [chord] : [])), ...keys];
    return html`<li>
      <button class="action quiet" @click=${() => this.run(action)}><span>${label}</span>${all.map((each) => html` <kbd>${keyName(each)}</kbd>`)}</button>
      <button class="key quiet" aria-label=${msg`Key of one’s own for “${label}”`} aria-pressed=${this.keyOf === id ? "true" : "false"}
        @click=${() => this.askKey(id)} @blur=${() => this.leaveKey()}>${this.keyOf === id ? "…" : msg`Key`}</button>
    </li>`;
  }
}

customElements.define("srb-palette", Palette);
