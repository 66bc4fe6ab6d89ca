// <srb-overused>: the words and phrases that come too often in the manuscript, and those that models overuse; a click bans or weakens one.

import { msg, wordCount } from "../languages.js";
import { countOveruse, linesFor } from "../slop/counting.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { DialogPart } from "./part.js";

/** @import {Found, Line} from "../slop/overused.js" */

const LISTS = ["banned_strings", "seldom_strings"];
const SHOWN = 40; // rows of each kind at first

class OverusedDialog extends DialogPart {
  constructor() {
    super("overused");
    /** @type {Found | null} */
    this.found = null;
    /** @type {Line[]} */
    this.lines = []; // that models overuse
    this.counting = new AbortController();
    /** @type {Set<string>} kinds of which all rows are shown */
    this.whole = new Set();
  }

  listen() {
    super.listen();
    this.on("story", () => this.requestUpdate());
  }

  async open() {
    this.found = null;
    await super.open();
    await this.count();
  }

  close() {
    this.counting.abort();
    super.close();
  }

  async count() {
    this.counting.abort();
    this.counting = new AbortController();
    const { signal } = this.counting;
    const { desk } = this;
    try {
      const tag = desk.story.meta("language");
      this.lines = await linesFor(tag);
      this.found = await countOveruse(desk.text, tag, signal);
    } catch (error) {
      if (!signal.aborted) desk.notice(/** @type {Error} */ (error).message, "error");
    }
    this.requestUpdate();
  }

  /** The list that lines are all in; "" if they are in none, or not in the same. @param {string[]} lines */
  listOf(lines) {
    return LISTS.find((name) => lines.every((line) => this.desk.settings[name].includes(line))) ?? "";
  }

  /** Put lines into a list alone, or out of it. @param {string[]} lines @param {string} name */
  put(lines, name) {
    const isThere = this.listOf(lines) === name;
    for (const list of LISTS) {
      const rest = this.desk.settings[list].filter((/** @type {string} */ line) => !lines.includes(line));
      const next = list === name && !isThere ? [...rest, ...lines] : rest;
      if (next.join("\n") !== this.desk.settings[list].join("\n")) this.desk.setSetting(list, next);
    }
    this.requestUpdate();
  }

  render() {
    return html`<dialog aria-labelledby="overused-title" closedby="any" @close=${() => this.counting.abort()}>
      ${dialogHead(this, msg`Words that come too often`)}
      <p class="words">${msg`“Never” keeps one out of all cards from now on, “seldom” out of four in five; the text stays as it is. Both are in the settings, too.`}</p>
      <p class="words" role="status">${this.found === null ? msg`Counting …` : this.summary(this.found)}</p>
      ${this.found === null ? nothing : this.results(this.found)}
    </dialog>`;
  }

  /** @param {Found} found */
  summary({ numWords, words, phrases, models }) {
    const isEmpty = words.length + phrases.length + models.length === 0;
    return isEmpty ? `${wordCount(numWords)}. ${msg`Nothing comes too often.`}` : wordCount(numWords);
  }

  /** @param {Found} found */
  results({ words, phrases, models }) {
    const all = this.lines.map(({ line }) => line);
    return html`
      ${this.kind(
        "phrases",
        msg`Phrases`,
        phrases.map(({ words, count }) => ({ line: words, words, count })),
      )}
      ${this.kind(
        "words",
        msg`Words`,
        words.map((row) => ({ ...row, line: row.words })),
      )}
      ${this.kind("models", msg`Phrases that models overuse`, models)}
      ${
        this.lines.length
          ? html`<details class="all"><summary>${msg`All ${this.lines.length} phrases that models overuse`}</summary>
            <p class="buttons">${this.buttons(all, msg`all phrases that models overuse`)}</p>
            <p class="lines">${this.lines.map(({ words }) => words).join(" · ")}</p></details>`
          : nothing
      }`;
  }

  /** @param {string} kind @param {string} title @param {(Line & {count: number, expected?: number})[]} rows */
  kind(kind, title, rows) {
    if (!rows.length) return nothing;
    const shown = this.whole.has(kind) ? rows : rows.slice(0, SHOWN);
    return html`<section aria-labelledby="overused-${kind}">
      <h3 id="overused-${kind}">${title}</h3>
      <ul>${repeat(
        shown,
        (row) => row.line,
        ({ line, words, count, expected }) => html`<li>
          <span class="phrase" dir="auto">${words}</span>
          <span class="count">${count} ×${expected === undefined ? nothing : html`, ${msg`elsewhere ${expected} ×`}`}</span>
          ${this.buttons([line], words)}
        </li>`,
      )}</ul>
      ${
        shown.length < rows.length
          ? html`<button @click=${() => this.requestUpdate(void this.whole.add(kind))}>${msg`Show all ${rows.length}`}</button>`
          : nothing
      }
    </section>`;
  }

  /** @param {string[]} lines @param {string} which */
  buttons(lines, which) {
    const list = this.listOf(lines);
    const labels = [
      [msg`Never`, msg`Never: ${which}`],
      [msg`Seldom`, msg`Seldom: ${which}`],
    ];
    return LISTS.map(
      (name, place) => html`<button
        aria-pressed=${list === name}
        aria-label=${labels[place][1]}
        @click=${() => this.put(lines, name)}
      >${labels[place][0]}</button>`,
    );
  }
}

customElements.define("srb-overused", OverusedDialog);
