// The branches' pane: a header with counts and buttons, the cards of the round, and what opens over them.

import { wordEndAt } from "../cuts.js";
import { html, LitElement, nothing } from "../vendor/lit.js";
import { Board } from "./branches/board.js";
import { CARD_GESTURES, mark, PANE_GESTURES } from "./branches/gestures.js";
import { Highlights } from "./branches/highlights.js";
import { actOf, isTaken } from "./branches/keys.js";
import { Reader } from "./branches/reader.js";
import { treeOf } from "./branches/tree.js";

/** @typedef {import("../round.js").Round} Round */
/** @typedef {import("../round.js").Slot} Slot */
/** @typedef {import("./branches/keys.js").Act} Act */

const TREE_EVERY = 250; // ms between two drawings of the merged tree
const SEEN_AFTER = 1500; // ms in view after which an ended branch counts as looked at

export class Branches extends LitElement {
  static properties = { isTree: { state: true }, said: { state: true } };

  constructor() {
    super();
    /** @type {any} */
    this.desk = null;
    this.isTree = false;
    this.said = ""; // for those who do not see a mark move
    /** Nodes that were in view, until they count as seen. @type {Map<string, number>} */
    this.seen = new Map();
    this.listeners = new AbortController();
    this.treeTimer = 0;
    this.previewed = "";
    /** @type {import("./card.js").Card|null} */
    this.previewOwner = null;
  }

  createRenderRoot() {
    return this;
  }

  /** @returns {Round|null} */
  get round() {
    return this.desk.round;
  }

  get isRunning() {
    return !!this.round?.slots.some((slot) => slot.isLive || slot.pending);
  }

  connectedCallback() {
    super.connectedCallback();
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Branches");
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    const on = (/** @type {string} */ topic, /** @type {(detail: any) => void} */ act) =>
      this.desk.addEventListener(topic, (/** @type {CustomEvent} */ event) => act(event.detail ?? {}), { signal });
    on("round", () => this.follow());
    on("text", ({ slots }) => this.grow(slots));
    on("nodes", () => this.board?.refresh());
    on("story", () => this.board?.repaint());
    this.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.addEventListener("click", (event) => this.onClick(event), { signal });
    this.addEventListener("focusin", (event) => this.onFocus(event), { signal });
    this.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    this.addEventListener("pointerleave", () => this.preview(null), { signal });
    addEventListener("resize", () => this.board?.measure(), { signal });
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.listeners.abort();
    this.board?.close();
  }

  firstUpdated() {
    this.highlights = new Highlights();
    this.board = new Board({
      list: this.find(".cards"),
      highlights: this.highlights,
      marks: (node) => (node === null ? {} : this.desk.story.mark(node)),
      logprobs: () => this.desk.settings.logprobs === true,
      onseen: (slot) => this.noteSeen(slot),
    });
    const follow = () => requestAnimationFrame(() => this.followScroll());
    this.find(".cards").addEventListener("scroll", follow, { passive: true, signal: this.listeners.signal });
    this.reader = new Reader({ dialog: this.find("dialog.reader"), highlights: this.highlights });
    this.follow();
  }

  /** @template {HTMLElement} T @param {string} selector */
  find(selector) {
    return /** @type {T} */ (this.querySelector(selector));
  }

  // ---- What is shown

  /** Show the desk's round, or the state of its cards. */
  follow() {
    const { board, round } = this;
    if (!board) return;
    if (board.round === round) {
      board.refresh();
    } else {
      const hadFocus = board.list.contains(document.activeElement);
      if (this.reader?.isOpen) this.reader.close();
      board.show(round);
      this.classList.toggle("empty", round === null);
      if (hadFocus) this.focus();
    }
    this.requestUpdate();
  }

  /** @param {Set<number>} slots */
  grow(slots) {
    this.board?.grown(slots);
    if (!this.isTree || this.treeTimer) return;
    this.treeTimer = window.setTimeout(() => {
      this.treeTimer = 0;
      this.requestUpdate();
    }, TREE_EVERY);
  }

  /** Focus the card on which keys act, or what there is instead. */
  focus() {
    const card = this.board?.currentCard;
    if (card) this.board?.setCurrent(card.slot.number, { focus: true, scroll: true });
    else this.find(".first-steps")?.focus();
  }

  render() {
    const { round } = this;
    return html`
      <header class="branches-head">
        <h2>Branches</h2>
        <p class="counts">${round ? countWords(round) : nothing}</p>
        <div class="buttons" role="group" aria-label="All branches">${this.paneButtons()}</div>
      </header>
      ${this.progress()}
      <div class="first-steps" tabindex="-1" ?hidden=${round !== null}>
        <p>Write a beginning in the manuscript, then press <kbd>Ctrl</kbd>+<kbd>Enter</kbd>: several branches go on from it, side by side.</p>
        <p>Press a card's number, or its button Take, to take its text; click a word to take only as far as that word.</p>
        <p>Nothing is lost: what you do not take stays in the outline, and <kbd>Ctrl</kbd>+<kbd>Z</kbd> goes back.</p>
      </div>
      <ol class="cards" aria-label="Cards" ?hidden=${round === null || this.isTree}></ol>
      ${this.isTree && round ? treeOf(round) : nothing}
      ${this.phoneBar()}
      <dialog class="reader" aria-label="Whole text" @close=${() => this.onReaderClosed()}>
        <header><h2 class="reader-head"></h2>
          <button data-act="take">Take</button>
          <button data-act="left" aria-label="Previous branch">‹</button><button data-act="right" aria-label="Next branch">›</button>
          <button data-act="closeReader" aria-label="Close">✕</button></header>
        <div class="reader-text" tabindex="0" role="document" aria-label="Text"></div>
      </dialog>
      ${this.menu()}
      ${this.noteDialog()}
      <p class="hidden-words" role="status">${this.said}</p>`;
  }

  paneButtons() {
    const { round } = this;
    const slot = this.board?.currentCard?.slot;
    const buttons = [
      ["refill", "Refill"],
      ["sort", "Sort"],
      ["fold", "Fold"],
      ["more", "More"],
      ["stop", "Stop"],
    ];
    return html`
      <button data-act="tree" aria-pressed=${this.isTree} ?disabled=${!round} title="Show shared beginnings once">Tree</button>
      ${buttons.map(([name = "", label = ""]) => {
        const {
          label: title,
          key,
          can,
        } = /** @type {import("./branches/gestures.js").Gesture} */ (PANE_GESTURES[name]);
        const isOn = round && (!can || can(this, /** @type {Slot} */ (slot)));
        return html`<button data-act=${name} title="${title} (${key})" ?disabled=${!isOn}>${label}</button>`;
      })}`;
  }

  /** A line while the model reads the text. */
  progress() {
    const progress = this.round?.progress;
    if (this.round?.state === "asking") return html`<p class="reading">The branches are asked for …</p>`;
    if (!progress)
      return this.round?.state === "reading" ? html`<p class="reading">The model reads the text …</p>` : nothing;
    const { processed, total, cached, ms } = progress;
    const percent = total ? Math.floor((100 * processed) / total) : 0;
    const speed =
      ms > 0 && processed > cached
        ? ` · ${Math.round((1000 * (processed - cached)) / ms).toLocaleString()} tokens/s`
        : "";
    const known = cached ? ` · ${cached.toLocaleString()} of ${total.toLocaleString()} tokens were known` : "";
    return html`<p class="reading"><progress max="100" value=${percent} aria-label="The text is read"></progress>
      The model reads the text: ${percent} %${speed}${known}</p>`;
  }

  /** The buttons under the cards of a phone, for the card in view. */
  phoneBar() {
    const { round, board } = this;
    const slot = board?.currentCard?.slot;
    if (!round || !slot) return nothing;
    const place = round.order.indexOf(slot.number) + 1;
    return html`<div class="phone-bar">
      <div class="pager"><button data-act="left" aria-label="Previous card">‹</button>
        <span>${place} of ${round.order.length}</span>
        <button data-act="right" aria-label="Next card">›</button></div>
      <div class="buttons" role="group" aria-label="This card">
        <button class="main" data-act="take" ?disabled=${!round.canTake(slot) && !slot.isLive}>${slot.mark === null ? "Take" : "Take to mark"}</button>
        <button data-act="prune" aria-label="Prune" ?disabled=${!round.canPrune(slot)}>✕</button>
        <button data-act="more">More</button>
        <button data-act="refill" aria-label="Refill empty cards" ?disabled=${!round.slots.some((each) => round.canRefill(each))}>⟳</button>
        <button data-act="menu" aria-label="All that can be done">⋯</button>
      </div>
    </div>`;
  }

  /** All gestures, with their keys. */
  menu() {
    const slot = this.board?.currentCard?.slot;
    const items = slot ? Object.entries({ ...CARD_GESTURES, ...PANE_GESTURES }) : [];
    return html`<dialog class="menu" aria-label="What can be done with this card">
      <ul>${items.map(
        ([
          name,
          { label, key, can },
        ]) => html`<li><button data-act=${name} ?disabled=${!!slot && can !== undefined && !can(this, slot)}>
          <span>${label}</span>${key ? html`<kbd>${key}</kbd>` : nothing}</button></li>`,
      )}</ul>
      <button data-act="closeMenu">Close</button>
    </dialog>`;
  }

  noteDialog() {
    return html`<dialog class="note" aria-label="Note">
      <form method="dialog" @submit=${() => this.keepNote()}>
        <label>Note on this branch <textarea name="note" rows="4"></textarea></label>
        <p><button class="main">Keep the note</button> <button type="button" data-act="closeNote">Cancel</button></p>
      </form>
    </dialog>`;
  }

  // ---- What gestures need

  /** Tell those who do not see the cards. @param {string} words */
  say(words) {
    this.said = words;
  }

  /** @param {Slot} slot */
  showMark(slot) {
    const card = this.board?.cards.get(slot.number);
    if (slot.mark !== null) card?.reveal(slot.mark);
    this.reader?.mark({ reveal: true });
    const words = slot.mark === null ? "" : slot.text.slice(0, slot.mark).trim().split(/\s+/u).slice(-4).join(" ");
    this.say(slot.mark === null ? "No mark." : `Marked up to: ${words}`);
  }

  /** @param {Slot} slot */
  read(slot) {
    const { round, reader } = this;
    if (!round || !reader) return;
    if (reader.isOpen && reader.slot === slot) return reader.close();
    reader.show(slot, `${round.order.indexOf(slot.number) + 1}`, round.stopAt);
  }

  onReaderClosed() {
    this.reader?.closed();
    this.focus();
  }

  /** @param {Slot} slot */
  askNote(slot) {
    const dialog = /** @type {HTMLDialogElement} */ (this.find("dialog.note"));
    const field = /** @type {HTMLTextAreaElement} */ (dialog.querySelector("textarea"));
    field.value = `${this.desk.story.mark(slot.node).note ?? ""}`;
    dialog.showModal();
  }

  keepNote() {
    const slot = this.board?.currentCard?.slot;
    const field = /** @type {HTMLTextAreaElement} */ (this.find("dialog.note textarea"));
    if (slot?.node) this.desk.setNodeMark(slot.node, "note", field.value.trim());
  }

  /** @param {Slot} slot */
  sharedLength(slot) {
    return this.board?.shared.get(slot.number) ?? 0;
  }

  /** Where a part of a card's text is on the screen. @param {Slot} slot @param {number} from @param {number} to */
  rectOf(slot, from, to) {
    const content = this.reader?.isOpen ? this.reader.content : this.board?.cards.get(slot.number)?.content;
    return content?.rect(from, to) ?? null;
  }

  /** @param {{number: number, at: number, word: string, rect: DOMRect|null}} asked */
  openAlternatives(asked) {
    const alternatives = /** @type {any} */ (document.querySelector("srb-alternatives"));
    alternatives?.open({ ...asked, back: () => this.focus() });
  }

  /** Note that an ended branch is in view; after a moment it counts as looked at. @param {Slot} slot */
  noteSeen({ node }) {
    if (node === null || this.seen.has(node) || this.desk.story.mark(node).seen === true) return;
    const timer = window.setTimeout(() => {
      if (!document.hidden && this.desk.story.nodes.has(node)) this.desk.setNodeMark(node, "seen", true);
      this.seen.delete(node);
    }, SEEN_AFTER);
    this.seen.set(node, timer);
  }

  // ---- Acts

  /** @param {Act} act */
  run({ name, value = 0 }) {
    const { board, round } = this;
    const slot = board?.currentCard?.slot;
    if (!board || !round || !slot) return;
    switch (name) {
      case "takeDigit":
      case "takeOnlyDigit":
        return this.takeDigit(value, name === "takeDigit");
      case "left":
      case "right":
        return this.go(board.neighbour(name === "left" ? -1 : 1, 0));
      case "up":
      case "down":
        return this.go(board.neighbour(0, name === "up" ? -1 : 1));
      case "first":
      case "last":
        return this.go(round.order.at(name === "first" ? 0 : -1) ?? 0);
      case "window":
        return board.moveWindow(value) && this.go(round.order[board.window] ?? 0);
      case "tree":
        this.isTree = !this.isTree;
        return;
      case "write":
        return /** @type {HTMLElement|null} */ (document.querySelector("srb-manuscript"))?.focus();
      case "menu":
        this.requestUpdate();
        return this.updateComplete.then(() => /** @type {HTMLDialogElement} */ (this.find("dialog.menu")).showModal());
      case "closeMenu":
        return /** @type {HTMLDialogElement} */ (this.find("dialog.menu")).close();
      case "closeNote":
        return /** @type {HTMLDialogElement} */ (this.find("dialog.note")).close();
      case "closeReader":
        return this.reader?.close();
      default:
        return this.gesture(name, slot);
    }
  }

  /** @param {string} name @param {Slot} slot */
  gesture(name, slot) {
    const gesture = CARD_GESTURES[name] ?? PANE_GESTURES[name];
    if (!gesture) return;
    if (gesture.can && !gesture.can(this, slot)) return this.say("That is not possible here now.");
    return gesture.run(this, slot);
  }

  /** @param {number} digit @param {boolean} go */
  takeDigit(digit, go) {
    const number = this.board?.atDigit(digit) ?? null;
    if (number === null) return this.say(`There is no card ${digit}.`);
    const slot = this.round?.slots[number];
    return this.desk.take(number, { at: slot?.mark ?? null, go });
  }

  /** Go to a card; in the reader, read it. @param {number} number */
  go(number) {
    const { board, reader, round } = this;
    const isReading = reader?.isOpen;
    board?.setCurrent(number, { focus: !isReading, scroll: true });
    const slot = round?.slots[number];
    if (isReading && slot) reader.show(slot, `${(round?.order.indexOf(number) ?? 0) + 1}`, round?.stopAt ?? "");
    this.requestUpdate();
  }

  // ---- Events of the document

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.defaultPrevented || isTaken(event) || isInside(event, "dialog:not(.reader)")) return;
    const act = actOf(event, this.desk.settings.single_keys !== false);
    if (!act) return;
    if (isInside(event, ".reader") && ["up", "down", "first", "last", "window"].includes(act.name)) return; // they scroll it
    event.preventDefault();
    event.stopPropagation();
    this.run(act);
  }

  /** @param {Event} event */
  onFocus(event) {
    const card = this.cardOf(event);
    if (!card || card.slot.number === this.board?.current) return;
    this.board?.setCurrent(card.slot.number);
    this.requestUpdate();
  }

  /** On a phone the card that was scrolled to is the current one. */
  followScroll() {
    const number = this.board?.scrolledTo() ?? null;
    if (number === null || number === this.board?.current) return;
    this.board?.setCurrent(number);
    this.requestUpdate();
  }

  /** @param {Event} event */
  cardOf(event) {
    const place = event.target instanceof Element ? event.target.closest(".card-place") : null;
    return (place && this.board?.byPlace.get(place)) || null;
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const button = event.target instanceof Element ? event.target.closest("button[data-act]") : null;
    const card = this.cardOf(event);
    if (card) this.board?.setCurrent(card.slot.number);
    if (button instanceof HTMLElement && button.dataset.card) {
      return this.desk.take(Number(button.dataset.card), { at: null, go: !event.shiftKey });
    }
    if (button instanceof HTMLElement) {
      /** @type {HTMLDialogElement|null} */ (button.closest("dialog.menu"))?.close();
      return this.run({ name: button.dataset.act ?? "" });
    }
    const slot = card?.slot ?? (isInside(event, ".reader-text") ? this.reader?.slot : null);
    const at = slot ? this.wordAt(slot, event) : null;
    if (!slot || at === null || getSelection()?.isCollapsed === false) return;
    const isMouse = /** @type {PointerEvent} */ (event).pointerType === "mouse" || !("pointerType" in event);
    if (event.altKey || !isMouse) mark(this, slot, at);
    else this.desk.take(slot.number, { at, go: !event.shiftKey });
    this.requestUpdate();
  }

  /** The end of the word at a point; null beside the text. @param {Slot} slot @param {MouseEvent} event */
  wordAt(slot, { clientX, clientY }) {
    const content = this.reader?.isOpen ? this.reader.content : this.board?.cards.get(slot.number)?.content;
    const offset = content?.offsetAt(clientX, clientY) ?? null;
    return offset === null ? null : wordEndAt(slot.text, offset);
  }

  /** Show what a click would take. @param {PointerEvent} event */
  onMove(event) {
    if (event.pointerType !== "mouse" || event.buttons) return;
    const card = this.cardOf(event);
    const at = card && isInside(event, ".body") ? this.wordAt(card.slot, event) : null;
    this.preview(card, at);
  }

  /** @param {import("./card.js").Card|null} card @param {number|null} [at] */
  preview(card, at = null) {
    const { highlights } = this;
    if (this.previewed === `${card?.slot.number}/${at}`) return;
    this.previewed = `${card?.slot.number}/${at}`;
    if (this.previewOwner) highlights?.clear(this.previewOwner, "srb-preview");
    this.previewOwner = card;
    if (card && at !== null) highlights?.set("srb-preview", card, [card.content.range(0, at)]);
  }
}

/** @param {Event} event @param {string} selector */
function isInside(event, selector) {
  return event.target instanceof Element && event.target.closest(selector) !== null;
}

/** @param {Round} round */
function countWords(round) {
  const { waiting, running, ended, pruned, failed } = round.counts;
  const parts = [
    [waiting, "waiting"],
    [running, "running"],
    [ended, "ended"],
    [pruned, "pruned"],
    [failed, "failed"],
  ];
  return parts
    .filter(([count]) => count)
    .map(([count, word]) => `${count} ${word}`)
    .join(", ");
}

customElements.define("srb-branches", Branches);
