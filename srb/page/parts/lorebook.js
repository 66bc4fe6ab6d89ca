/**
 * <srb-lorebook>: the entries of the story's lorebook, in the side panel. Each row says whether the round beside the text has read
 * its entry, and by which keyword the next one will. A row opens to be edited; each key applies at once.
 */

import { gapAt } from "../desk/gap.js";
import { heldBefore, paragraphAt, placesIn } from "../desk/held.js";
import { changeAll } from "../desk/values.js";
import { msg, NUMBER } from "../languages.js";
import { entriesOf, entryOf, faultOfEntry, MOST, PREFIX, RULES, titleOf } from "../lore/entries.js";
import { FROM, readOf, versionsOf } from "../lore/versions.js";
import { wordsOf } from "../markdown.js";
import { StoryError } from "../story/read.js";
import { newId } from "../story.js";
import { html, live, nothing, repeat } from "../vendor/lit.js";
import { msgHtml } from "./msg_html.js";
import { Part } from "./part.js";
import { pickFile } from "./picked_file.js";

/** @typedef {import("../lore/entries.js").Entry} Entry */
/** @typedef {import("../lore/choice.js").Choice} Choice */
/** @typedef {import("../lore/versions.js").Version} Version */

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
    /** @type {Map<string, Version>} */
    this.versions = new Map();
    /** @type {Map<string, number>} where those are in the text, by their keys */
    this.places = new Map();
    /** @type {Map<string, string>} those that the text before the caret reads, by entries */
    this.reads = new Map();
    /** @type {unknown} a value before a person changed it */
    this.was = null;
  }

  listen() {
    this.on("caret", () => {
      const { at } = this.place;
      const read = readOf(this.versions, new Map([...this.places].filter(([, from]) => from < at)));
      if ([...read.values()].join() !== [...this.reads.values()].join()) this.requestUpdate();
    });
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

  // ---- What an entry says from a place on

  /** Let an entry say something else from the paragraph with the caret on; a version that is there goes to that place. @param {Entry} entry @param {string} [key] */
  async sayFromHere({ id, text }, key = FROM + newId()) {
    const { desk } = this;
    const from = paragraphAt(desk.text, desk.manuscript?.caret() ?? desk.text.length);
    if (from === null)
      return desk.notice(msg`The story has no words yet: write the entry’s text as it is to be at the beginning.`);
    const known = this.versions.get(key);
    const version = {
      made: desk.story.now(),
      ...known,
      entry: id,
      text: known?.text ?? this.textOf(id) ?? text,
      ...heldBefore(desk.story, desk.settle(), from),
    };
    changeAll(desk, [[key, version]]);
    this.requestUpdate();
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(`[data-version="${key}"] textarea`))?.focus();
  }

  /** The words of the version of an entry that is read before the caret. @param {string} id */
  textOf(id) {
    return this.versions.get(this.reads.get(id) ?? "")?.text;
  }

  /** @param {Entry} entry */
  versionsFor(entry) {
    const own = [...this.versions].filter(([, version]) => version.entry === entry.id);
    const at = (/** @type {string} */ key) => this.places.get(key) ?? Number.POSITIVE_INFINITY;
    own.sort(([one, { made }], [other, { made: later }]) =>
      at(one) === at(other) ? made - later : at(one) - at(other),
    );
    return html`${repeat(
      own,
      ([key]) => key,
      ([key, version]) => this.version(entry, key, version),
    )}
      <p class="acts"><button @click=${() => this.sayFromHere(entry)} title=${msg`From the paragraph with the caret on, and in all that is written after it`}>${msg`Another text from here on`}</button></p>`;
  }

  /** @param {Entry} entry @param {string} key @param {Version} version */
  version(entry, key, version) {
    const { desk } = this;
    const place = this.places.get(key);
    const quote = quoteOf(version);
    const isRead = this.reads.get(entry.id) === key;
    const show = () => {
      desk.manuscript?.select(place ?? 0, undefined, "start");
      desk.manuscript?.focus();
    };
    return html`<div class="version" data-version=${key}>
      <label><span>${msg`Text from ${quote} on`} ${isRead ? html`<b>${msg`read here`}</b>` : place === undefined ? html`<small>${msg`not in this text`}</small>` : nothing}</span>
        <textarea rows="3" maxlength=${MOST.text} dir="auto" placeholder=${msg`Nothing: from there on the model does not read the entry.`} .value=${live(version.text)}
          @focus=${() => {
            this.was = desk.story.meta(key);
          }}
          @input=${(/** @type {any} */ event) => desk.setMeta(key, { ...version, text: event.target.value })}
          @change=${() => desk.recordMeta(key, this.was)}></textarea></label>
      <p class="acts">
        ${place === undefined ? nothing : html`<button class="quiet" @click=${show}>${msg`Show the place`}</button>`}
        <button class="quiet" @click=${() => this.sayFromHere(entry, key)}>${msg`Put it here`}</button>
        <button class="quiet" @click=${() => changeAll(desk, [[key, null]])}>${msg`Take it away`}</button>
      </p>
    </div>`;
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

  /** The words before the caret, behind which the next round goes on. */
  get place() {
    const { head, manuscript, text } = this.desk;
    return { node: head.node, at: gapAt(text, manuscript?.caret() ?? text.length).at };
  }

  /** What the next round would read; nothing is known before the rounds are loaded. @returns {Choice | null} */
  next() {
    const { desk, place } = this;
    const context = desk.rounds?.context;
    return (
      context?.lorebook.choose(desk.text.slice(0, place.at), place, desk.server.n_ctx || 1 << 30, context.rate) ?? null
    );
  }

  render() {
    const { story, head } = this.desk;
    const entries = this.inOrder(entriesOf(story));
    const { at } = this.place;
    this.versions = versionsOf(story);
    this.places = placesIn(story, head, this.versions);
    this.reads = readOf(this.versions, new Map([...this.places].filter(([, from]) => from < at)));
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
        <span class="state">${stateOf(entry, isRead, next, this.versions.get(this.reads.get(id) ?? ""))}</span>
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
  hasVersions({ id }) {
    return [...this.versions.values()].some(({ entry }) => entry === id);
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
      <label>${this.hasVersions(entry) ? msg`Text from the beginning on` : msg`Text`} <textarea rows="3" maxlength=${MOST.text} dir="auto" .value=${live(text)} @input=${(/** @type {any} */ event) => set({ text: event.target.value })}></textarea></label>
      ${this.versionsFor(entry)}
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
    let later = 0; // entries that say something else before the caret than at the story's beginning
    const entries = entriesOf(story).map((entry) => {
      const text = this.textOf(entry.id);
      if (text !== undefined) later += 1;
      return { ...entry, text: text ?? entry.text };
    });
    download(format === "srb" ? writeLorebook(entries) : writeWorldInfo(entries), name, "application/json");
    const read = later > 0 && msg`It has the texts that are read at the caret (${inWords(later)} from a place on).`;
    this.say([msg`“${name}” is among your downloads.`, read].filter(Boolean).join(" "));
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

/** The first words of the place of a version, without the signs of a heading. @param {Version} version */
const quoteOf = ({ quote }) => msg`“${wordsOf(quote)}”`;

/** @param {Entry} entry @param {boolean} isRead @param {Choice | null} next @param {Version} [version] */
function stateOf(entry, isRead, next, version) {
  if (entry.off) return msg`off`;
  const key = next?.asked.get(entry.id);
  const by = entry.always ? msg`always` : key === undefined ? "" : msg`“${key}”`;
  const isLeft = next?.left.some(({ id }) => id === entry.id) ?? false;
  const from = version ? msg`from ${quoteOf(version)} on` : "";
  return [from, isRead ? msg`in this round` : "", isLeft ? msg`no room` : by].filter((each) => each !== "").join(" · ");
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
