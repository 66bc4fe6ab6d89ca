// <srb-note>: the name of a branch, or the note on it, written at its card or its row.

import { draftOf, keepDraft } from "../desk/drafts.js";
import { msg } from "../languages.js";
import { html, live } from "../vendor/lit.js";
import { draftField } from "./draft_field.js";
import { PlacePart } from "./place_part.js";

/** @typedef {{id: string, key: "name" | "note", lines: DOMRect | null}} Noted   `id`: of a node; `lines`: where it is on the screen */

class NotePart extends PlacePart {
  constructor() {
    super("note");
    /** @type {Noted} */
    this.noted = { id: "", key: "note", lines: null };
    this.words = "";
  }

  get anchor() {
    return { lines: this.noted.lines };
  }

  get draft() {
    return `${this.noted.key}.${this.noted.id}`;
  }

  /** @param {any} noted */
  async open(noted) {
    this.noted = noted;
    this.words = draftOf(this.desk, this.draft) || (this.desk.story.mark(noted.id)[this.noted.key] ?? "");
    await super.open();
    this.querySelector("textarea")?.focus();
  }

  /** @param {Event} event */
  keep(event) {
    event.preventDefault();
    const { id, key } = this.noted;
    this.close();
    this.desk.setNodeMark(id, key, this.words.trim() || null);
    keepDraft(this.desk, this.draft, "");
  }

  drop() {
    this.close();
    keepDraft(this.desk, this.draft, "");
  }

  render() {
    const isName = this.noted.key === "name";
    const set = (/** @type {string} */ words) => {
      this.words = words;
    };
    const { input, keydown } = draftField(this.desk, () => this.draft, set);
    const key = (/** @type {KeyboardEvent} */ event) =>
      isName && event.key === "Enter" ? this.keep(event) : keydown(event);
    return this.box(
      isName ? msg`Name (a chapter, a version)` : msg`Note on this branch`,
      html`<form @submit=${(/** @type {Event} */ event) => this.keep(event)}>
        <textarea aria-labelledby="note-title" rows=${isName ? 1 : 4} maxlength="2000" dir="auto" .value=${live(this.words)}
          @input=${input} @keydown=${key}></textarea>
        <p class="buttons"><button class="main">${msg`Keep`}</button>
          <button type="button" @click=${() => this.drop()}>${msg`Cancel`}</button></p>
      </form>`,
    );
  }
}

customElements.define("srb-note", NotePart);
