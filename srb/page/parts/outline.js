// The outline: every branch of every round. A line that shows where the manuscript comes from, and opened, a tree.

import { namedIn, namesOf, whereabouts } from "../formats/chapters.js";
import { msg } from "../languages.js";
import { found, isUnread, labelOf, lineOf, rowsOf } from "../outline_rows.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { actsOf, toggleMark } from "./outline_acts.js";
import { Part } from "./part.js";
import { indent } from "./styles.js";
import { SIGNS, WRITERS } from "./writers.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../outline_rows.js").Row} Row */

const ROW = { desk: 30, phone: 44 }; // px, as in outline.css
const PHONE = matchMedia("(width < 700px)");
const MORE = 10; // rows beyond the visible ones
const REFRESH = 250; // ms between two drawings while branches grow
const CHAPTER = 60; // characters of its name below the text
const OPEN_FORKS = 3; // the last places on the path at which all branches are shown from the start

export class Outline extends Part {
  static properties = {
    isOpen: { state: true },
    query: { state: true },
    hidesPruned: { state: true },
  };

  constructor() {
    super();
    this.isOpen = false;
    this.query = "";
    this.hidesPruned = false;
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Set<string>} */
    this.path = new Set();
    /** @type {import("../story.js").Story | null} the story that the forks below are of */
    this.story = null;
    /** @type {Map<string, boolean>} forks that a person has opened or closed */
    this.toggled = new Map();
    this.current = "";
    /** @type {ReturnType<typeof namedIn> | null} the nodes with names on the path; null: they may be others now */
    this.named = null;
    this.top = 0;
    this.counts = { stars: 0, unread: 0 };
    this.isStale = true; // rows and counts are those of another state of the story
    this.size = 0; // nodes of the story when they were read
  }

  listen() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", msg`Outline`);
    for (const topic of ["story", "head", "nodes"])
      this.on(topic, (detail) => {
        this.isStale ||= !(this.isTyping(topic, detail) || this.isGrowth(detail));
        if (detail.why !== "type" && !this.isOfWords(detail)) this.named = null;
        this.later(REFRESH);
      });
    this.on("caret", () => this.isOpen || this.later(REFRESH));
    this.on("story", () => {
      if (this.story !== this.desk.story) this.toggled.clear(); // else another tab has changed its title or settings
      this.story = this.desk.story;
    });
    this.on("dialog", ({ name }) => name === "outline" && this.toggle());
    this.on("side", () => {
      this.isOpen &&= !PHONE.matches; // a phone has room for one of the two
    });
    PHONE.addEventListener("change", () => this.requestUpdate(), { signal: this.listeners.signal });
  }

  get rowHeight() {
    return PHONE.matches ? ROW.phone : ROW.desk;
  }

  /** Focus the outline, for F6. */
  focus() {
    if (PHONE.matches && !this.isOpen) {
      this.toggle();
      return;
    }
    const tree = /** @type {HTMLElement | null} */ (this.querySelector("[role=tree]"));
    (tree ?? this.querySelector("button"))?.focus();
  }

  /** Whether an event tells of words that are typed in a node which has its row. @param {string} topic @param {any} detail */
  isTyping(topic, detail) {
    const { node } = this.desk.head;
    if (this.query || !this.path.has(node)) return false;
    return topic === "head"
      ? detail.why === "type"
      : topic === "nodes" && detail.ids?.size === 1 && detail.ids.has(node);
  }

  /** Whether an event tells of branches that write in nodes which have their rows. @param {any} detail */
  isGrowth({ isGrowth }) {
    return isGrowth === true && this.size === this.desk.story.nodes.size;
  }

  /** Whether an event tells of words alone: written by branches, or typed at the head, which has no name. @param {any} detail */
  isOfWords({ ids, isGrowth }) {
    const { head, story } = this.desk;
    const isOfHead = ids?.size === 1 && ids.has(head.node);
    const hadName = this.named?.some(({ id }) => id === head.node);
    return isGrowth === true || (isOfHead && !hadName && !story.mark(head.node).name);
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!this.isOpen || !(this.isStale || changed.has("isOpen") || changed.has("query") || changed.has("hidesPruned")))
      return;
    this.isStale = false;
    this.gather();
  }

  /** Read rows and counts from the story. */
  gather() {
    const { story, head } = this.desk;
    this.size = story.nodes.size;
    const path = story.path(head.node);
    this.path = new Set(path);
    this.counts = this.counted();
    if (this.query) {
      this.rows = found(story, this.query, { path: this.path, hidesPruned: this.hidesPruned }).map((id) => ({
        id,
        depth: 0,
        others: 0,
        isOpen: false,
        isOnPath: this.path.has(id),
      }));
    } else {
      const isFork = (/** @type {string} */ id) => story.children(id).length > (id === head.node ? 0 : 1);
      const forks = path.filter(isFork).slice(-OPEN_FORKS);
      const isOpen = (/** @type {string} */ id) => this.toggled.get(id) ?? forks.includes(id);
      this.rows = rowsOf(story, { path: this.path, isOpen, hidesPruned: this.hidesPruned });
    }
    if (this.rows.some(({ id }) => id === this.current)) return;
    this.current = this.query ? (this.rows[0]?.id ?? "") : head.node; // acts are those of a row that is shown
  }

  render() {
    return html`<div class="bar">
        <button aria-expanded=${this.isOpen} @click=${() => this.toggle()}>${msg`Outline`} ${icon(this.isOpen ? "down" : "up")}</button>
        ${this.isOpen ? this.tools() : this.crumbs()}
      </div>
      ${this.isOpen ? this.tree() : nothing}`;
  }

  async toggle() {
    if (!this.isOpen && PHONE.matches && document.querySelector("#desk[data-side=open]")) this.desk.tell("side");
    this.isOpen = !this.isOpen;
    await this.updateComplete;
    if (!this.isOpen) return;
    await this.show(this.desk.head.node);
    this.focus(); // keys act on the row that is chosen
  }

  /** Where the caret is, and in how many ways the text could go on there instead. */
  crumbs() {
    const { story, head, before, manuscript, text } = this.desk;
    this.named ??= namedIn(story, head);
    const { chapter, paragraph } = whereabouts(text, manuscript?.caret() ?? head.at, namesOf(story, head, this.named));
    const node = story.nodes.get(head.node);
    const ways = node?.parent ? story.children(node.parent).length : 0;
    const title = lineOf(chapter, CHAPTER);
    const below = title ? msg`${title} · paragraph ${paragraph}` : msg`Paragraph ${Math.max(1, paragraph)}`;
    const name = title && paragraph === 0 ? title : below;
    return html`<nav aria-label=${msg`Where the caret is`}>
        ${text.trim() ? html`<button class="quiet crumb" title=${msg`Chapters`} @click=${() => this.desk.openDialog("chapters")}>${name}</button>` : nothing}
        ${ways > 1 ? html`<button class="quiet ways" @click=${() => this.toggle()}>${msg`one of ${ways} ways`}</button>` : nothing}
      </nav>
      ${before ? this.backButton() : nothing}`;
  }

  backButton() {
    return html`<button class="back" @click=${() => this.desk.goBack()}>${msg`Back to where I was`}</button>`;
  }

  tools() {
    const { before } = this.desk;
    const { stars, unread } = this.counts;
    return html`<label>${msg`Search`} <input type="search" .value=${this.query}
        @input=${(/** @type {any} */ event) => this.search(event.target.value)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.leaveSearch(event)}></label>
      <label><input type="checkbox" .checked=${this.hidesPruned}
        @change=${(/** @type {any} */ event) => (this.hidesPruned = event.target.checked)}> ${msg`hide what is set aside`}</label>
      <span class="counts">${msg`${unread} unread, ★ ${stars}`}</span>
      ${before ? this.backButton() : nothing}`;
  }

  counted() {
    const { story } = this.desk;
    let [stars, unread] = [0, 0];
    for (const node of story.nodes.values()) {
      if (story.mark(node.id).star) stars += 1;
      if (isUnread(story, node, this.path)) unread += 1;
    }
    return { stars, unread };
  }

  /** @param {string} words */
  search(words) {
    this.query = words;
    this.top = 0;
  }

  /** ↓ and Enter go from the search field into what it has found. @param {KeyboardEvent} event */
  leaveSearch(event) {
    if (!["ArrowDown", "Enter"].includes(event.code) || event.isComposing || !this.rows.length) return;
    event.preventDefault();
    if (!this.rows.some(({ id }) => id === this.current)) this.show(this.rows[0].id);
    this.focus();
  }

  // ---- The tree: only the rows in view are in the document

  tree() {
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - MORE);
    const shown = this.rows.slice(first, first + 2 * MORE + Math.ceil(this.treeHeight() / this.rowHeight));
    return html`<div class="tree" role="tree" tabindex="0" aria-label=${msg`Branches of the story`} aria-activedescendant="outline-${this.current}"
        @scroll=${(/** @type {any} */ event) => this.scrolled(event.target.scrollTop)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.key(event)}>
      <div class="space" role="none"></div>
      <div class="rows" role="none" data-first=${first}>${repeat(
        shown,
        ({ id }) => id,
        (row) => this.row(row),
      )}</div>
    </div>
    ${this.rows.length ? nothing : html`<p class="none">${this.query ? msg`Nothing has these words.` : msg`Nothing is written yet.`}</p>`}
    ${this.rows.length ? actsOf(this) : nothing}`;
  }

  updated() {
    const space = /** @type {HTMLElement | null} */ (this.querySelector(".space"));
    const rows = /** @type {HTMLElement | null} */ (this.querySelector(".rows"));
    if (!space || !rows) return;
    space.style.height = `${this.rows.length * this.rowHeight}px`;
    rows.style.top = `${Number(rows.dataset.first) * this.rowHeight}px`;
    indent(rows, 12);
  }

  treeHeight() {
    return this.querySelector(".tree")?.clientHeight ?? 400;
  }

  /** @param {number} top */
  scrolled(top) {
    if (Math.abs(top - this.top) < (MORE * this.rowHeight) / 2 && top !== 0) return;
    this.top = top;
    this.requestUpdate();
  }

  /** @param {Row} row */
  row({ id, depth, others, isOpen, isOnPath }) {
    const { story, head } = this.desk;
    const node = story.nodes.get(id);
    if (!node) return nothing;
    const { star, name, note, pruned } = story.mark(id);
    const unread = isUnread(story, node, this.path);
    const direction = typeof node.direction === "string" ? node.direction : "";
    const writer = WRITERS.of(story, node);
    const label = labelOf(story, node);
    const words = [
      name,
      label,
      direction,
      writer && msg`by ${writer}`,
      unread ? msg`unread` : "",
      pruned ? msg`set aside` : "",
      star ? msg`starred` : "",
      note ? msg`note: ${note}` : "",
    ];
    return html`<div role="treeitem" id="outline-${id}" data-depth=${depth} data-by=${node.by}
        class="row ${isOnPath ? "on-path" : ""} ${pruned ? "pruned" : ""}"
        aria-level=${depth + 1} aria-selected=${id === this.current} aria-current=${id === head.node ? "true" : nothing}
        aria-expanded=${others ? isOpen : nothing} aria-label=${words.filter(Boolean).join(", ")}
        @click=${() => this.choose(id)} @dblclick=${() => this.open(id)}>
      ${others ? this.sign(id, isOpen) : html`<span class="sign"></span>`}
      <span class="unread" title=${unread ? msg`unread` : nothing}>${unread ? "●" : ""}</span>
      ${writer ? html`<span class="dot" data-hue=${WRITERS.hueOf(story, writer)} title=${writer}>${SIGNS[WRITERS.hueOf(story, writer) - 1]}</span>` : nothing}
      ${star ? html`<span class="star">${icon("star")}</span>` : nothing}
      ${name ? html`<b>${name}</b>` : nothing}
      <span class="label" dir="auto">${label}</span>
      ${direction ? html`<span class="voice" title=${direction} dir="auto">${direction}</span>` : nothing}
      ${writer ? html`<span class="voice">${writer}</span>` : nothing}
      ${note ? html`<span class="note" title=${note}>${icon("note")}</span>` : nothing}
      ${others ? html`<span class="ways">${waysOf(others, others < story.children(id).length)}</span>` : nothing}
      ${id === this.current ? html`<button tabindex="-1" @click=${() => this.open(id)}>${isOnPath && id !== head.node ? msg`End the text here` : msg`Open`}</button>` : nothing}
    </div>`;
  }

  /** @param {string} id @param {boolean} isOpen */
  sign(id, isOpen) {
    return html`<button class="quiet sign" tabindex="-1" aria-label=${isOpen ? msg`Close the fork` : msg`Open the fork`}
      @click=${(/** @type {Event} */ event) => this.toggleFork(event, id)}>${icon(isOpen ? "down" : "right")}</button>`;
  }

  /** @param {string} id */
  choose(id) {
    this.current = id;
    this.requestUpdate();
  }

  /** @param {Event} event @param {string} id */
  toggleFork(event, id) {
    event.stopPropagation();
    this.setFork(id, !this.rows.find((row) => row.id === id)?.isOpen);
  }

  /** @param {string} id @param {boolean} isOpen */
  setFork(id, isOpen) {
    this.toggled.set(id, isOpen);
    this.isStale = true;
    this.current = id;
    this.requestUpdate();
  }

  /** Make the text up to a node the manuscript. @param {string} id */
  open(id) {
    if (this.desk.story.mark(id).seen !== true) this.desk.setNodeMark(id, "seen", true);
    this.desk.openNode(id);
  }

  compare() {
    this.isOpen &&= !PHONE.matches; // where the cards are under it
    this.desk.tell("compare", { node: this.current });
  }

  /** Scroll a row into view. @param {string} id */
  async show(id) {
    this.current = id;
    const index = this.rows.findIndex((row) => row.id === id);
    const tree = this.querySelector(".tree");
    if (tree && index >= 0) {
      const top = index * this.rowHeight;
      if (top < tree.scrollTop || top + this.rowHeight > tree.scrollTop + tree.clientHeight)
        tree.scrollTop = Math.max(0, top - tree.clientHeight / 2);
      this.top = tree.scrollTop;
    }
    this.requestUpdate();
    await this.updateComplete;
  }

  // ---- Keys, as in a tree

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keyAct(event.code);
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** @param {string} code @returns {(() => void) | null} */
  keyAct(code) {
    const { desk, rows, current } = this;
    const index = rows.findIndex(({ id }) => id === current);
    const row = rows[index];
    const go = (/** @type {number} */ to) => () =>
      this.show(rows[Math.max(0, Math.min(rows.length - 1, to))]?.id ?? current);
    if (!row) return null;
    switch (code) {
      case "ArrowDown":
        return go(index + 1);
      case "ArrowUp":
        return go(index - 1);
      case "PageDown":
        return go(index + Math.floor(this.treeHeight() / this.rowHeight));
      case "PageUp":
        return go(index - Math.floor(this.treeHeight() / this.rowHeight));
      case "Home":
        return go(0);
      case "End":
        return go(rows.length - 1);
      case "ArrowRight":
        return row.others && !row.isOpen ? () => this.setFork(current, true) : go(index + 1);
      case "ArrowLeft":
        return row.others && row.isOpen
          ? () => this.setFork(current, false)
          : () => this.show(desk.story.nodes.get(current)?.parent ?? current);
      case "Enter":
        return () => this.open(current);
      case "Delete":
        return () => toggleMark(desk, current, "pruned");
      case "KeyB":
        return () => toggleMark(desk, current, "star");
      case "F2":
        return () => this.ask("name");
      case "KeyN":
        return () => this.ask("note");
      case "KeyC":
        return () => this.compare();
      default:
        return null;
    }
  }

  /** Have a name or a note written, at the chosen row. @param {"name" | "note"} key */
  ask(key) {
    const lines = this.querySelector('[aria-selected="true"]')?.getBoundingClientRect() ?? null;
    this.desk.openDialog("note", { id: this.current, key, lines });
  }
}

/** How many ways the text could go on. @param {number} count @param {boolean} isTaken whether another one was taken */
function waysOf(count, isTaken) {
  if (count === 1) return isTaken ? msg`another way` : msg`one way on`;
  return isTaken ? msg`${count} other ways` : msg`${count} ways`;
}

customElements.define("srb-outline", Outline);
