// Two or three texts side by side in the place of the cards, with the words marked that differ: cards of the round, or the manuscript and
// another text of the story.

import { commonLength, diffWords, isAlike } from "../../compare.js";
import { isKeyless } from "../../keys.js";
import { msg } from "../../languages.js";
import { labelOf } from "../../outline_rows.js";
import { html, nothing } from "../../vendor/lit.js";
import { closeButton } from "../icons.js";
import { BranchText } from "./branch_text.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** A card's number, the id of a node, or null for the manuscript. @typedef {number | string | null} Shown */

const MOST = 3; // side by side
const AROUND = 600; // characters before the first difference of two whole texts
const KEYS = new Set(["compare", "write", "stop", "takeDigit", "takeOnlyDigit"]); // of the pane, while no card has the focus
const LABEL = 40; // characters of a text in the list of what may be compared

export class Comparison {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    /** @type {Shown[]} */
    this.columns = [];
    this.keys = new AbortController();
    this.written = ""; // into the document
  }

  get isOpen() {
    return this.columns.length > 0;
  }

  /** Whether a key of the pane acts now. @param {string} act */
  takes(act) {
    return !this.isOpen || KEYS.has(act);
  }

  /** The numbers of the cards that have words. */
  cards() {
    const { round } = this.pane;
    return round?.shown.filter((number) => round.slots[number].text.trim() !== "") ?? [];
  }

  /** Put a card beside the next one, or show the cards again. @param {number} number */
  toggle(number) {
    if (this.isOpen) return this.leave();
    const cards = this.cards();
    const next = cards[(cards.indexOf(number) + 1) % cards.length];
    return this.open([number, next]);
  }

  /** @param {Shown[]} columns */
  async open(columns) {
    this.columns = columns;
    this.keys.abort();
    this.keys = new AbortController();
    addEventListener("keydown", (event) => this.onKey(event), { capture: true, signal: this.keys.signal });
    this.pane.requestUpdate();
    await this.pane.updateComplete;
    this.pane.focus();
  }

  /** Escape leads back before it ends what is written. @param {KeyboardEvent} event */
  onKey(event) {
    const { pane } = this;
    if (event.code !== "Escape" || !pane.contains(document.activeElement) || isKeyless()) return;
    event.preventDefault();
    event.stopPropagation();
    this.leave();
  }

  close() {
    this.columns = [];
    this.written = "";
    this.pane.highlights?.clear(this);
    this.keys.abort();
    this.pane.requestUpdate();
  }

  /** Show the cards again, and go to them. */
  async leave() {
    this.close();
    await this.pane.updateComplete;
    this.pane.focus();
  }

  /** @param {number} place @param {Shown} shown */
  set(place, shown) {
    this.columns = Object.assign([...this.columns], { [place]: shown });
    this.pane.requestUpdate();
  }

  /** @param {number} place */
  remove(place) {
    this.columns = this.columns.filter((_, each) => each !== place);
    this.pane.requestUpdate();
    this.pane.focus();
  }

  /** What may stand in a column. @returns {Shown[]} */
  get offered() {
    return this.columns.some((each) => typeof each !== "number") ? this.others() : this.cards();
  }

  /** The manuscript, and the texts that parted from it last, newest first. @returns {Shown[]} */
  others() {
    const { story, head } = this.pane.desk;
    const path = story.path(head.node);
    const onPath = new Set(path);
    const near = path.slice(-6).flatMap((id) => story.children(story.nodes.get(id)?.parent ?? ""));
    const ids = [...near, ...this.columns].filter((id) => typeof id === "string" && !onPath.has(id));
    return [null, ...[...new Set(ids)].slice(-40).reverse()];
  }

  /** @param {Shown} shown */
  textOf(shown) {
    const { desk, round } = this.pane;
    if (typeof shown === "number") return round?.slots[shown]?.text.trimStart() ?? "";
    return shown === null ? desk.text : desk.story.text(shown);
  }

  /** @param {Shown} shown */
  nameOf(shown) {
    const { desk, round } = this.pane;
    if (shown === null) return msg`The manuscript`;
    if (typeof shown === "string") {
      const node = desk.story.nodes.get(shown);
      return desk.story.mark(shown).name || (node ? labelOf(desk.story, node, LABEL) : shown);
    }
    const words = this.textOf(shown).slice(0, LABEL).replace(/\s+/gu, " ");
    return `${(round?.shown.indexOf(shown) ?? shown) + 1} ${words}`;
  }

  /** The texts as they are shown: whole ones of the story from a little before their first difference on. */
  get texts() {
    const texts = this.columns.map((each) => this.textOf(each));
    const isWhole = this.columns.some((each) => typeof each !== "number");
    const start = isWhole ? Math.max(0, commonLength(texts[0], texts[1]) - AROUND) : 0;
    return texts.map((text) => (start ? `… ${text.slice(start)}` : text));
  }

  render() {
    const { columns, offered } = this;
    const left = offered.filter((each) => !columns.includes(each));
    const isFull = columns.length === MOST || !left.length;
    return html`<section class="comparison" tabindex="-1" aria-label=${msg`Side by side`}>
      <p class="buttons">${isFull ? nothing : html`<button class="quiet" @click=${() => this.set(columns.length, left[0])}>${msg`One more beside them`}</button>`}
        ${closeButton(() => this.leave(), msg`Back to the cards`)}</p>
      ${columns.map((shown, place) => this.column(shown, place))}
    </section>`;
  }

  /** @param {Shown} shown @param {number} place */
  column(shown, place) {
    const { desk } = this.pane;
    const { columns, offered } = this;
    const isCard = typeof shown === "number";
    const choose = (/** @type {any} */ event) => this.set(place, offered[event.target.selectedIndex]);
    const take = () => (isCard ? desk.take(shown) : shown && desk.openNode(shown));
    return html`<article>
      <header><select aria-label=${msg`Text ${place + 1}`} @change=${choose}>${offered.map(
        (each) =>
          html`<option ?selected=${each === shown} ?disabled=${each !== shown && columns.includes(each)}>${this.nameOf(each)}</option>`,
      )}</select>
      ${shown === null ? nothing : html`<button @click=${take}>${isCard ? msg`Take` : msg`Make it the manuscript`}</button>`}
      ${columns.length > 2 ? closeButton(() => this.remove(place), msg`Take it away`) : nothing}</header>
      <div class="text" dir="auto"></div>
    </article>`;
  }

  /** Write the texts that have changed, and mark each one's words that the first has not; the first one's, that the second has not. */
  updated() {
    const { texts } = this;
    if (!this.isOpen || texts.join("\0") === this.written) return;
    this.written = texts.join("\0");
    const roots = /** @type {NodeListOf<HTMLElement>} */ (this.pane.querySelectorAll(".comparison .text"));
    const ranges = [...roots].flatMap((root, place) => {
      root.replaceChildren();
      const content = new BranchText(root);
      content.write(texts[place]);
      return differences(texts[place], texts[place === 0 ? 1 : 0]).map(({ from, to }) => content.range(from, to));
    });
    this.pane.highlights?.set("srb-differs", this, ranges);
  }
}

/** The words of a text that another one does not have; none where the two have little in common. @param {string} text @param {string} other */
function differences(text, other) {
  const parts = diffWords(other, text);
  if (!isAlike(parts, other.length < text.length ? other : text)) return [];
  let at = 0;
  return parts.flatMap(({ kind, text: words }) => {
    if (kind === "removed") return [];
    const from = at;
    at += words.length;
    return kind === "added" && words.trim() ? [{ from, to: at }] : [];
  });
}
