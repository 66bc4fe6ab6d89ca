/** <srb-stories>: the dialog that lists the stories, to open, begin, rename, bin and restore them. */

import { openSample } from "../desk/sample.js";
import { countsCharacters } from "../keep/describe.js";
import { characterCount, msg, wordCount } from "../languages.js";
import { html } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { DialogPart } from "./part.js";
import { age, daysLeft, moment } from "./stories/age.js";
import { FEWEST, findPlaces, MOST, openPlace, placesFound } from "./stories/places.js";

/**
 * @typedef {import("../keep/listing.js").Entry} Entry
 * @typedef {{text: string, undo?: () => Promise<unknown>}} Report
 */

const LONGEST_TITLE = 200;
const TYPING = 250; // ms without a key, after which the texts are searched

class Stories extends DialogPart {
  constructor() {
    super("stories");
    /** @type {Entry[] | null} null while they are read */
    this.stories = null;
    /** @type {Set<string>} names that several of them have */
    this.shared = new Set();
    this.where = "";
    this.search = "";
    /** @type {import("./stories/places.js").Places | null} what the texts have of the words searched for */
    this.places = null;
    this.searching = new AbortController();
    this.inBin = false;
    /** @type {string | null} the story of which the title is being written */
    this.renaming = null;
    /** @type {Report | null} */
    this.report = null;
    this.error = "";
  }

  /** Share a story: that has a dialog of its own, which is before this one. @param {Entry} story */
  share(story) {
    this.desk.openDialog("share", { id: story.id, title: nameOf(story) });
  }

  async open() {
    this.forgetPlaces();
    Object.assign(this, { search: "", inBin: false, renaming: null, report: null, error: "", stories: null });
    await super.open();
    await this.act(async () => {
      await this.desk.keeper.flush();
      await this.read();
    });
  }

  /** Close, and go to the text. */
  leave() {
    this.dialog.close();
    this.desk.manuscript?.focus();
  }

  async read() {
    const { stories, where, fault } = await this.desk.keeper.list({ binned: this.inBin });
    this.stories = stories;
    this.where = where;
    this.error = fault;
    this.requestUpdate();
  }

  /**
   * Do something, and show an error of it as a sentence.
   * @param {() => Promise<unknown>} what
   */
  async act(what) {
    this.error = "";
    try {
      await what();
    } catch (error) {
      this.error = /** @type {Error} */ (error).message;
      this.stories ??= [];
    }
    this.requestUpdate();
  }

  // ---- What a person does

  /** @param {Entry} story */
  openStory({ id }) {
    if (id === this.desk.story.id) return this.leave();
    return this.act(async () => {
      await this.desk.openStory(id);
      this.leave();
    });
  }

  begin() {
    this.desk.newStory();
    this.leave();
  }

  /** Open a copy of the sample story. */
  openSample() {
    return this.act(async () => {
      await openSample(this.desk);
      this.leave();
    });
  }

  /** @param {import("./stories/places.js").Place} place */
  openPlace(place) {
    return this.act(async () => {
      await openPlace(this.desk, place);
      this.leave();
    });
  }

  importFile() {
    this.dialog.close();
    this.desk.openDialog("formats");
  }

  /** @param {Entry} story */
  async startRenaming({ id }) {
    this.renaming = id;
    this.requestUpdate();
    await this.focusOn("input[name=title]");
    /** @type {HTMLInputElement | null} */ (this.querySelector("input[name=title]"))?.select();
  }

  /** @param {Entry} story @param {SubmitEvent} event */
  rename({ id }, event) {
    event.preventDefault();
    const title = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("title") ?? "").trim();
    return this.act(async () => {
      if (id === this.desk.story.id) this.desk.setTitle(title);
      else await this.desk.keeper.rename(id, title);
      this.stopRenaming(id);
      await this.desk.keeper.flush();
      await this.read();
    });
  }

  /** @param {string} id */
  stopRenaming(id) {
    this.renaming = null;
    this.requestUpdate();
    this.focusOn(`[data-story="${id}"] button.rename`);
  }

  /** @param {KeyboardEvent} event @param {string} id */
  onTitleKey(event, id) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the dialog stays open
    this.stopRenaming(id);
  }

  /** @param {Entry} story */
  bin(story) {
    return this.act(async () => {
      await this.desk.removeStory(story.id);
      this.report = { text: msg`“${nameOf(story)}” is in the bin.`, undo: () => this.desk.restoreStory(story.id) };
      await this.read();
      this.focusOn(".report button");
    });
  }

  /** @param {Entry} story */
  restore(story) {
    return this.act(async () => {
      await this.desk.restoreStory(story.id);
      this.report = { text: msg`“${nameOf(story)}” is back among the stories.` };
      await this.read();
      this.focusOn("button.bin-switch");
    });
  }

  undo() {
    const { report } = this;
    this.report = null;
    return this.act(async () => {
      await report?.undo?.();
      await this.read();
      this.focusOn("input[type=search]");
    });
  }

  switchBin() {
    this.forgetPlaces();
    Object.assign(this, { inBin: !this.inBin, stories: null, report: null, search: "" });
    return this.act(() => this.read());
  }

  /** @param {string} selector */
  async focusOn(selector) {
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(selector))?.focus();
  }

  // ---- What it looks like

  render() {
    return html`<dialog aria-labelledby="stories-title">
      ${dialogHead(this, this.inBin ? msg`The bin` : msg`Stories`)}
      <div class="tools">
        ${
          this.inBin
            ? null
            : html`<button class="main" @click=${() => this.begin()}>${msg`New story`}</button>
          <button @click=${() => this.openSample()}>${msg`Open a sample`}</button>
          <button aria-haspopup="dialog" @click=${() => this.importFile()}>${msg`Import…`}</button>`
        }
        <button class="bin-switch" @click=${() => this.switchBin()}>${this.inBin ? msg`Back to the stories` : msg`Bin`}</button>
        <label class="search"><span class="hidden-words">${this.inBin ? msg`Search by title` : msg`Search titles and texts`}</span>
          <input type="search" placeholder=${msg`Search`} maxlength=${MOST} .value=${this.search} @input=${(/** @type {InputEvent} */ event) => this.onSearch(event)}></label>
      </div>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : null}
      <p class="report" role="status">${this.report?.text}
        ${this.report?.undo ? html`<button @click=${() => this.undo()}>${msg`Undo`}</button>` : null}</p>
      ${this.list()}
      ${this.places && placesFound(this.places, (place) => this.openPlace(place))}
      <p class="where">${this.inBin ? `${msg`Stories stay in the bin for 30 days.`} ` : ""}${this.where}</p>
    </dialog>`;
  }

  /** @param {InputEvent} event */
  onSearch(event) {
    this.search = /** @type {HTMLInputElement} */ (event.target).value;
    this.forgetPlaces();
    if (!this.inBin && this.search.trim().length >= FEWEST)
      setTimeout(() => this.searchTexts(this.searching.signal), TYPING);
    this.requestUpdate();
  }

  forgetPlaces() {
    this.searching.abort();
    this.searching = new AbortController();
    this.places = null;
  }

  /** Search all texts, unless other words were typed meanwhile. @param {AbortSignal} signal */
  async searchTexts(signal) {
    if (signal.aborted) return;
    try {
      const places = await findPlaces(this.desk, this.search.trim(), signal);
      if (!signal.aborted) this.places = places;
    } catch (error) {
      const { code, message } = /** @type {Partial<import("../api.js").ApiError>} */ (error);
      if (signal.aborted || code === "stories_off") return; // then the titles are all that is searched
      this.error = msg`The texts could not be searched: ${message}`;
    }
    this.requestUpdate();
  }

  list() {
    if (this.stories === null) return html`<p class="empty">${msg`The stories are read …`}</p>`;
    const names = new Set();
    this.shared = new Set();
    for (const name of this.stories.map(nameOf)) (names.has(name) ? this.shared : names).add(name);
    const searched = this.search.trim().toLocaleLowerCase();
    const found = this.stories.filter((story) => nameOf(story).toLocaleLowerCase().includes(searched));
    if (found.length > 0)
      return html`<ul>${found.map((story) => (this.inBin ? this.binned(story) : this.story(story)))}</ul>`;
    if (searched) return html`<p class="empty">${msg`No title has “${this.search.trim()}”.`}</p>`;
    if (this.error) return null;
    return html`<p class="empty">${this.inBin ? msg`The bin is empty.` : msg`There is no story yet: write in the manuscript, and it is saved.`}</p>`;
  }

  /** What tells a story from others of its name: stories that begin alike have one title. @param {Entry} story */
  apart(story) {
    return this.shared.has(nameOf(story)) ? moment(story.changed) : "";
  }

  /** A story's name on its buttons. @param {Entry} story */
  label(story) {
    return [msg`“${nameOf(story)}”`, this.apart(story)].filter(Boolean).join(", ");
  }

  /** @param {Entry} story */
  story(story) {
    const name = nameOf(story);
    const isOpen = story.id === this.desk.story.id;
    const isOwn = story.owner === undefined;
    if (this.renaming === story.id) return this.form(story);
    return html`<li data-story=${story.id} aria-current=${isOpen ? "true" : "false"}>
      <button class="open quiet" @click=${() => this.openStory(story)}>
        <span class="name" dir="auto">${name}</span>
        ${story.opening ? html`<span class="opening" dir="auto">${story.opening}</span>` : null}
        <span class="facts">${isOpen ? `${msg`open now`} · ` : ""}${facts(story)} · ${this.apart(story) || age(story.changed, Date.now())}</span>
      </button>
      ${story.access === "read" ? null : html`<button class="rename quiet" aria-label=${msg`Rename ${this.label(story)}`} @click=${() => this.startRenaming(story)}>${msg`Rename`}</button>`}
      ${
        isOwn && this.desk.keeper.person
          ? html`<button class="quiet" aria-haspopup="dialog" aria-label=${msg`Share ${this.label(story)}`} @click=${() => this.share(story)}>${msg`Share`}</button>`
          : null
      }
      ${isOwn ? html`<button class="bin quiet" aria-label=${msg`Put ${this.label(story)} into the bin`} @click=${() => this.bin(story)}>${msg`Delete`}</button>` : null}
    </li>`;
  }

  /** @param {Entry} story */
  form(story) {
    return html`<li data-story=${story.id}>
      <form @submit=${(/** @type {SubmitEvent} */ event) => this.rename(story, event)}>
        <input name="title" aria-label=${msg`Title`} maxlength=${LONGEST_TITLE} .value=${story.title} dir="auto" autocomplete="off"
          @keydown=${(/** @type {KeyboardEvent} */ event) => this.onTitleKey(event, story.id)}>
        <button class="main">${msg`Rename`}</button>
        <button type="button" @click=${() => this.stopRenaming(story.id)}>${msg`Cancel`}</button>
      </form>
    </li>`;
  }

  /** @param {Entry} story */
  binned(story) {
    const name = nameOf(story);
    return html`<li data-story=${story.id}>
      <span class="open">
        <span class="name" dir="auto">${name}</span>
        <span class="facts">${facts(story)} · ${msg`goes for good ${daysLeft(story.deleted ?? 0, Date.now())}`}</span>
      </span>
      <button aria-label=${msg`Restore ${this.label(story)}`} @click=${() => this.restore(story)}>${msg`Restore`}</button>
    </li>`;
  }
}

/** @param {Entry} story */
const nameOf = ({ title }) => title || msg`Untitled`;

/** @param {Entry} story */
function facts({ words, opening = "", isUnsaved, owner, access }) {
  const isReader = access === "read";
  const unsaved = isReader ? msg`your changes are in this browser only` : msg`not on the server yet`;
  const count = countsCharacters(opening) ? characterCount(words) : wordCount(words);
  return [count, owner && (isReader ? msg`${owner}’s, to read` : msg`${owner}’s`), isUnsaved && unsaved]
    .filter(Boolean)
    .join(" · ");
}

customElements.define("srb-stories", Stories);
