// Which cards of a round are shown, and which ones the person takes, in one line.

import { tasteOf } from "../../desk/taken.js";
import { msg } from "../../languages.js";
import { SAMPLERS } from "../../sampling.js";
import { html, nothing } from "../../vendor/lit.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../round.js").Slot} Slot */

export class Filters {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.isOpen = false;
    this.words = "";
    this.voice = "";
    this.isStarred = false;
    this.isNew = false; // only what the text does not have
    /** @type {import("../../desk/taken.js").Taste | null} null: the text has changed since */
    this.taste = null;
  }

  clear() {
    Object.assign(this, { words: "", voice: "", isStarred: false, isNew: false });
  }

  get isOn() {
    return this.isOpen && (this.words.trim() !== "" || this.voice !== "" || this.isStarred || this.isNew);
  }

  /** Show the line, or hide it and show all cards. */
  async toggle() {
    const { pane } = this;
    this.isOpen = !this.isOpen;
    if (!this.isOpen) this.clear();
    this.apply();
    await pane.updateComplete;
    if (this.isOpen) pane.find(".filters input").focus();
    else pane.focus();
  }

  /** Let the shown round have those cards that pass. */
  apply() {
    const { pane } = this;
    if (pane.round) pane.round.passes = this.isOn ? (slot) => this.passes(slot) : null;
    pane.board?.refresh();
    pane.requestUpdate();
  }

  /** @param {Slot} slot */
  passes(slot) {
    const { desk, inText, round } = this.pane;
    const words = this.words.trim().toLocaleLowerCase();
    return (
      (!this.isStarred || desk.story.mark(slot.node ?? "").star === true) &&
      (!this.isNew || !inText.has(slot.node ?? "")) &&
      (!this.voice || round?.voiceOf(slot) === this.voice) &&
      slot.text.toLocaleLowerCase().includes(words)
    );
  }

  /** Texts have grown: other cards may have the words. */
  grown() {
    if (this.isOn && this.words) this.pane.board?.refresh();
  }

  render() {
    const { round } = this.pane;
    if (!this.isOpen || !round) return nothing;
    const set = (/** @type {Partial<Filters>} */ changed) => {
      Object.assign(this, changed);
      this.apply();
    };
    const voices = round.isShared && !this.pane.isBlind ? round.voices : [];
    return html`<div class="filters" role="group" aria-label=${msg`Which cards are shown`}>
      <label>${msg`Has`} <input type="search" .value=${this.words} @input=${(/** @type {any} */ { target }) => set({ words: target.value })}></label>
      <button aria-pressed=${this.isStarred} @click=${() => set({ isStarred: !this.isStarred })}>★ ${msg`Starred`}</button>
      <button aria-pressed=${this.isNew} @click=${() => set({ isNew: !this.isNew })}>${msg`Not in the text`}</button>
      ${voices.map((name) => html`<button aria-pressed=${this.voice === name} @click=${() => set({ voice: this.voice === name ? "" : name })}>${name}</button>`)}
      <span class="shown" role="status">${this.isOn ? msg`${round.shown.length} of ${round.slots.length} cards` : ""}</span>
      <p class="taste">${this.tasteWords()}</p>
    </div>`;
  }

  /** Which cards were taken, and what would bring more of them. */
  tasteWords() {
    const { desk } = this.pane;
    const { ladder } = desk.settings;
    this.taste ??= tasteOf(desk.story, ladder);
    const { taken, cards, steps, model } = this.taste;
    if (taken === 0) return nothing;
    if (!steps || !ladder)
      return model
        ? msg`You took ${model.count} of ${taken} from ${model.name}.`
        : msg`You took ${taken} of ${cards} cards.`;
    const { count, of, first, last, from, to } = steps;
    const label = SAMPLERS.find(({ name }) => name === ladder.name)?.label ?? ladder.name;
    const words =
      first === last
        ? msg`You took ${count} of ${of} from step ${first} (${label} ${from}):`
        : msg`You took ${count} of ${of} from steps ${first} to ${last} (${label} ${from} to ${to}):`;
    const isSo = ladder.from === from && ladder.to === to;
    return html`${words} <button ?disabled=${isSo} @click=${() => this.use({ name: ladder.name, from, to })}>${msg`use these`}</button>`;
  }

  /** Let the next rounds climb other steps; one step of undo. @param {import("../../sampling.js").Ladder} ladder */
  use(ladder) {
    const { desk } = this.pane;
    const before = desk.story.meta("settings.ladder");
    desk.setSetting("ladder", ladder);
    desk.recordMeta("settings.ladder", before);
    this.pane.say(msg`The next rounds go from ${ladder.from} to ${ladder.to}.`);
  }
}
