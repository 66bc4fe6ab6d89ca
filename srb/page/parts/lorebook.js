/**
 * <srb-lorebook>: the entries of the story's lorebook, in the side panel. Each row says whether the round beside the text has read
 * its entry, and by which keyword the next one will. A row opens to be edited; each key applies at once.
 */

import { msg, NUMBER } from "../languages.js";
import { entriesOf, entryOf, faultOfEntry, MOST, PREFIX, RULES, titleOf } from "../lore/entries.js";
import { StoryError } from "../story/read.js";
import { newId } from "../story.js";
import { html, live, nothing } from "../vendor/lit.js";
import { msgHtml } from "./msg_html.js";
import { Part } from "./part.js";
import { pickFile } from "./picked_file.js";

/** @typedef {import("../lore/entries.js").Entry} Entry */
/** @typedef {import("../lore/choice.js").Choice} Choice */

const SHOWN = 100; // rows at once; the search finds the others
const SEARCHED = 10; // entries from which on there is a search
const BOUNDS = {
  lore_words: { min: 10, max: 20_000, label: msg`Words in which keywords are looked for` },
  lore_tokens: { min: 0, max: 1_000_000, label: msg`Tokens that the entries may take` },
};
/** @type {Record<import("../lore/entries.js").Rule, string>} */
const RULE_WORDS = {
  any: msg`one of them`,
  all: msg`all of them`,
  none: msg`none of them`,
  "not all": msg`not all of them`,
};

class Lorebook extends Part {
  constructor() {
    super();
    this.open = ""; // the id of the entry that is being edited
    /** @type {string[]} ids in the order of the rows, which stays while one of them is being edited */
    this.sequence = [];
    this.wanted = ""; // what is searched for
    /** @type {{id: string, name: string, text: string} | null} keywords as they are being typed */
    this.typed = null;
    this.fault = "";
    this.message = ""; // on files
    this.isError = false;
  }

  /** @param {Entry} entry @param {Partial<Entry>} change */
  set({ id, ...entry }, change) {
    this.fault = faultOfEntry({ ...entry, ...change }, msg`The entry`);
    if (this.fault === "") this.desk.setMeta(PREFIX + id, entryOf({ ...entry, ...change }));
    this.requestUpdate();
  }

  async add() {
    const id = newId();
    this.open = id;
    this.wanted = "";
    this.desk.setMeta(PREFIX + id, entryOf());
    this.requestUpdate();
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(".edit input"))?.focus();
  }

  /** Take an entry away, with a way back. @param {Entry} entry */
  takeAway({ id, ...entry }) {
    const { story } = this.desk;
    this.desk.setMeta(PREFIX + id, null);
    this.open = "";
    this.requestUpdate();
    /** @type {HTMLElement | null} */ (this.querySelector(".add"))?.focus();
    const run = () => this.desk.story === story && this.desk.setMeta(PREFIX + id, entry);
    this.desk.notice(msg`“${titleOf(entry)}” is no entry of the lorebook any more.`, "info", { label: msg`Undo`, run });
  }

  /** What the next round would read; nothing is known before the rounds are loaded. @returns {Choice | null} */
  next() {
    const { desk } = this;
    const context = desk.rounds?.context;
    return context?.lorebook.choose(desk.text, desk.server.n_ctx || 1 << 30, context.rate) ?? null;
  }

  render() {
    const entries = this.inOrder(entriesOf(this.desk.story));
    const found = entries.filter((entry) => entry.id === this.open || matches(entry, this.wanted));
    const read = new Set(this.desk.round?.lore);
    const next = entries.length > 0 ? this.next() : null;
    return html`<section aria-labelledby="lorebook-title">
      <h2 id="lorebook-title">${msg`Lorebook`}
        ${entries.length ? html`<span class="count">${inWords(entries.length)}</span>` : nothing}</h2>
      ${entries.length === 0 ? html`<p class="hint">${msg`People, places and things, each with keywords. The model reads an entry while the text speaks of it.`}</p>` : nothing}
      ${entries.length >= SEARCHED ? this.search() : nothing}
      ${entries.length ? html`<ul>${found.slice(0, SHOWN).map((entry) => this.row(entry, read, next))}</ul>` : nothing}
      ${found.length > SHOWN ? html`<p class="hint">${msg`… and ${NUMBER.format(found.length - SHOWN)} more: search for them.`}</p>` : nothing}
      <p class="acts"><button class="add" @click=${() => this.add()}>${msg`Add an entry`}</button></p>
      ${entries.length ? this.bounds() : nothing}
      ${this.files(entries.length > 0)}
    </section>`;
  }

  /** @param {Entry[]} entries */
  inOrder(entries) {
    const place = new Map(this.sequence.map((id, index) => [id, index]));
    const now =
      this.open === "" ? entries : [...entries].sort((a, b) => (place.get(a.id) ?? -1) - (place.get(b.id) ?? -1));
    if (this.open === "" || entries.some(({ id }) => !place.has(id))) this.sequence = now.map(({ id }) => id);
    return now;
  }

  search() {
    return html`<input type="search" class="search" aria-label=${msg`Search the lorebook`} placeholder=${msg`Search`} .value=${live(this.wanted)}
      @input=${(/** @type {any} */ event) => {
        this.wanted = event.target.value;
        this.requestUpdate();
      }}>`;
  }

  /** @param {Entry} entry @param {Set<string>} read @param {Choice | null} next */
  row(entry, read, next) {
    const { id, off } = entry;
    const isOpen = this.open === id;
    const isRead = read.has(id);
    return html`<li class=${isRead ? "read" : off ? "off" : ""}>
      <button class="title quiet" aria-expanded=${isOpen} @click=${() => this.toggle(id)}>
        <span class="sign" aria-hidden="true">${isRead ? "●" : "○"}</span>
        <span class="name" dir="auto">${titleOf(entry)}</span>
        <span class="state">${stateOf(entry, isRead, next)}</span>
      </button>
      ${isOpen ? this.edit(entry) : nothing}
    </li>`;
  }

  /** @param {string} id */
  toggle(id) {
    this.open = this.open === id ? "" : id;
    this.fault = "";
    this.typed = null;
    this.requestUpdate();
  }

  /** @param {Entry} entry */
  edit(entry) {
    const { name, text, always, off, cased, order, others, rule } = entry;
    const set = (/** @type {Partial<Entry>} */ change) => this.set(entry, change);
    const check = (
      /** @type {string} */ label,
      /** @type {boolean} */ now,
      /** @type {(is: boolean) => void} */ apply,
    ) =>
      html`<label class="check"><input type="checkbox" .checked=${live(now)} @change=${(/** @type {any} */ event) => apply(event.target.checked)}> ${label}</label>`;
    return html`<div class="edit">
      <label>${msg`Name`} <input maxlength=${MOST.name} dir="auto" .value=${live(name)} @input=${(/** @type {any} */ event) => set({ name: event.target.value })}></label>
      ${this.keywords(entry, "keys", msg`Keywords`, msg`with commas between them`)}
      <label>${msg`Text`} <textarea rows="3" maxlength=${MOST.text} dir="auto" .value=${live(text)} @input=${(/** @type {any} */ event) => set({ text: event.target.value })}></textarea></label>
      <div class="checks">
        ${check(msg`On`, !off, (is) => set({ off: !is }))}
        ${check(msg`Always read`, always, (is) => set({ always: is }))}
        ${check(msg`Capitals count`, cased, (is) => set({ cased: is }))}
      </div>
      <details ?open=${others.length > 0}>
        <summary>${msg`More`}</summary>
        <label>${msg`Order`} <input type="number" step="1" min=${-MOST.order} max=${MOST.order} .value=${live(String(order))}
          @change=${(/** @type {any} */ event) => set({ order: event.target.valueAsNumber || 0 })}></label>
        <p class="hint">${msg`Where not all fit, entries of a higher order go first.`}</p>
        ${this.keywords(entry, "others", msg`Second keywords`, msg`looked for beside the first ones`)}
        ${
          others.length === 0
            ? nothing
            : html`<label>${msg`of which the text has`} <select @change=${(/** @type {any} */ event) => set({ rule: event.target.value })}>
          ${RULES.map((each) => html`<option value=${each} ?selected=${each === rule}>${RULE_WORDS[each]}</option>`)}</select></label>`
        }
      </details>
      ${this.fault ? html`<p class="wrong" role="alert">${this.fault}</p>` : nothing}
      <p class="acts"><button class="quiet" @click=${() => this.takeAway(entry)}>${msg`Delete`}</button></p>
    </div>`;
  }

  /** @param {Entry} entry @param {"keys" | "others"} name @param {string} label @param {string} hint */
  keywords(entry, name, label, hint) {
    const typed = this.typed?.id === entry.id && this.typed.name === name ? this.typed.text : null;
    return html`<label>${label} <input dir="auto" spellcheck="false" placeholder=${hint} .value=${live(typed ?? entry[name].join(", "))}
      @input=${(/** @type {any} */ event) => {
        this.typed = { id: entry.id, name, text: event.target.value };
        this.set(entry, { [name]: apart(event.target.value) });
      }}
      @blur=${() => {
        if (this.fault !== "") return;
        this.typed = null;
        this.requestUpdate();
      }}></label>`;
  }

  /** Where keywords are looked for, and the room of all entries, as a sentence. */
  bounds() {
    const [words, tokens] = [this.number("lore_words"), this.number("lore_tokens")];
    return html`<p class="bounds">${msgHtml`Keywords count in the last ${words} words of the text; all entries take ${tokens} tokens at most.`}</p>`;
  }

  // ---- Files

  /** @param {boolean} isFull */
  files(isFull) {
    return html`<details class="files">
      <summary>${msg`Import and export`}</summary>
      <p><label>${msg`A lorebook or a card of SillyTavern, NovelAI, KoboldAI, mikupad or SRB`}
        <input type="file" accept=".json,.lorebook,.png,.charx,application/json,image/png" @change=${(/** @type {Event} */ event) => this.pick(event)}></label></p>
      ${
        isFull
          ? html`<p class="acts">
        <button @click=${() => this.save("srb")}>${msg`Export for SRB`}</button>
        <button @click=${() => this.save("silly")}>${msg`Export for SillyTavern`}</button></p>`
          : nothing
      }
      <p role=${this.isError ? "alert" : "status"} class=${this.isError ? "wrong" : "hint"}>${this.message}</p>
    </details>`;
  }

  /** Take in the entries of a file, all or none. @param {Event} event */
  pick(event) {
    return pickFile(this, event, async ({ name }, bytes, isOpen) => {
      const { readLorebook } = await import("../formats/lorebook_files.js");
      const { entries, remarks } = readLorebook(name, bytes);
      if (!isOpen()) return "";
      const room = MOST.entries - entriesOf(this.desk.story).length;
      if (entries.length > room)
        throw new StoryError(
          msg`The file has ${NUMBER.format(entries.length)} entries; there is room for ${NUMBER.format(room)}.`,
        );
      takeIn(this.desk, entries);
      return [msg`${inWords(entries.length)} came in.`, ...remarks].join(" ");
    });
  }

  /** @param {"srb" | "silly"} format */
  async save(format) {
    const [{ writeLorebook, writeWorldInfo }, { fileName }, { download }] = await Promise.all([
      import("../formats/lorebook_files.js"),
      import("../formats/write.js"),
      import("./download.js"),
    ]);
    const { story, title } = this.desk;
    const name = fileName(title, format === "srb" ? ".lorebook.json" : ".worldinfo.json");
    download(format === "srb" ? writeLorebook(story) : writeWorldInfo(story), name, "application/json");
    this.say(msg`“${name}” is among your downloads.`);
  }

  /** @param {string} message */
  say(message, isError = false) {
    this.message = message;
    this.isError = isError;
    this.requestUpdate();
  }

  /** @param {keyof typeof BOUNDS} name */
  number(name) {
    const { min, max, label } = BOUNDS[name];
    const apply = (/** @type {any} */ event) => {
      const value = Math.round(event.target.valueAsNumber);
      if (Number.isFinite(value)) this.desk.setSetting(name, Math.min(max, Math.max(min, value)));
      this.requestUpdate();
    };
    return html`<input type="number" aria-label=${label} min=${min} max=${max} .value=${live(String(this.desk.settings[name]))} @change=${apply}>`;
  }
}

/** Add entries to the open story. @param {import("../desk.js").Desk} desk @param {Omit<Entry, "id">[]} entries */
function takeIn(desk, entries) {
  for (const entry of entries) desk.story.setMeta(PREFIX + newId(), entry);
  desk.changed();
  desk.tell("story");
}

/** @param {number} count */
const inWords = (count) => (count === 1 ? msg`1 entry` : msg`${NUMBER.format(count)} entries`);

/** @param {Entry} entry @param {boolean} isRead @param {Choice | null} next */
function stateOf(entry, isRead, next) {
  if (entry.off) return msg`off`;
  const key = next?.asked.get(entry.id);
  const by = entry.always ? msg`always` : key === undefined ? "" : msg`“${key}”`;
  const isLeft = next?.left.some(({ id }) => id === entry.id) ?? false;
  return [isRead ? msg`in this round` : "", isLeft ? msg`no room` : by].filter((each) => each !== "").join(" · ");
}

/** @param {Entry} entry @param {string} wanted */
function matches({ name, keys, text }, wanted) {
  const words = wanted.trim().toLowerCase();
  return words === "" || [name, ...keys, text].some((each) => each.toLowerCase().includes(words));
}

/** @param {string} typed */
function apart(typed) {
  const keys = typed.split(/[,，、\n]/).map((each) => each.trim());
  return [...new Set(keys)].filter((key) => key !== "");
}

customElements.define("srb-lorebook", Lorebook);
