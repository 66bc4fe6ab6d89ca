// A card: one branch in its slot. Its text grows by direct writes, at most one in a frame; a card out of view is not written.
// Its number takes it; below the text is one line for its end, if that is unusual, and for what else can be done.

import { Repeats } from "../already.js";
import { diffWords, isAlike, ownWord } from "../compare.js";
import { probabilityStep } from "../desk/surprise.js";
import { msg } from "../languages.js";
import { endWord } from "../round.js";
import { passageIn } from "../tasks.js";
import { BranchText } from "./branches/branch_text.js";
import { iconElement } from "./icons.js";
import { keyName } from "./key_names.js";
import { SIGNS } from "./writers.js";

/** @typedef {import("../round.js").Slot} Slot */
/** @typedef {import("./branches/highlights.js").Highlights} Highlights */
/** @typedef {{name: string, label: string, title: string}} Button */

/** The state around a slot that its card shows.
 * @typedef {object} View
 * @property {Slot} slot
 * @property {string} label      the card's number, as a person counts
 * @property {string} digit      the key that takes it; "" outside the window of digits
 * @property {string} same       "×3" on the first of equal texts, "= 1" on the others
 * @property {string} sameWords
 * @property {string} doubt  a line of the story that it seems to contradict
 * @property {string} direction  what was to happen in the branch
 * @property {string} mood       in which the branch writes
 * @property {string} voice      the model that writes the branch, where several write the round
 * @property {string} writer     the same, also where several wrote the story
 * @property {number} hue        the writer's
 * @property {number|null} step  how unlikely the text is beside its siblings, 1 to 5
 * @property {string} likelihood  the same in a sentence
 * @property {import("../already.js").Before} before
 * @property {boolean} isInText  whether the text has words of it
 * @property {boolean} star
 * @property {string} note
 * @property {string} stopAt
 * @property {boolean} canExtend
 * @property {boolean} canPrune
 * @property {{name: string, label: string}|null} offer  the action that an empty card suggests */

const WHILE_RUNNING = 4000; // characters in the document while the branch grows: as many as one card in a large pane shows
const NEAR = 60; // characters from which the first own word is known
const AT_REST = 20_000; // the whole text is shown in the manuscript
const EARLY = 20; // ms that a write may come before its time, since frames and the desk's telling have rhythms of their own
const SHADE_EVERY = 250; // ms: a change of highlights costs as much as there are ranges

/** @type {Button[]} */
const BUTTONS = [
  { name: "read", label: msg`Read`, title: msg`Show it in the text (Space)` },
  { name: "vary", label: msg`Vary`, title: msg`More like this one, from the mark on (V)` },
  { name: "extend", label: msg`Go on`, title: msg`Let this text go on (E)` },
  { name: "prune", label: msg`Set aside`, title: msg`Set aside, and stop writing (X)` },
  { name: "menu", label: msg`More`, title: msg`More that can be done with this card` },
];

const ALREADY = msg`Already in your text`;

let made = 0;

export class Card {
  /** @param {Slot} slot */
  constructor(slot) {
    this.slot = slot;
    this.isVisible = false;
    this.lastWrite = Number.NEGATIVE_INFINITY;
    this.lastShade = Number.NEGATIVE_INFINITY;
    this.isScrolled = false;
    this.textHeight = 0; // px, as the document has laid it out
    this.lines = 0; // that are shown
    this.isCut = false; // whether the card shows less than its text
    /** The state that is shown. @type {import("../round/slots.js").SlotState|""} */
    this.state = "";
    this.branch = ""; // which branch the text belongs to
    this.text = "";
    this.painted = "";
    /** The first own word, and the text near it. @type {{near: string, shared: number, word: {from: number, to: number}|null}} */
    this.own = { near: "", shared: 0, word: null };
    this.shaded = 0;
    this.compared = ""; // the text that was compared with the passage in whose place it goes
    /** The words of it that are new. @type {{from: number, to: number}[]} */
    this.added = [];
    /** What is none of the new passage. @type {{from: number, to: number}[]} */
    this.beside = [];
    this.version = 0; // of the text's nodes that are painted
    /** @type {Repeats|null} */
    this.repeats = null;
    const id = `branch-${++made}`;
    this.place = element("li", "card-place");
    this.box = element("article", "card");
    this.box.tabIndex = -1;
    this.box.setAttribute("aria-describedby", id);
    this.digit = element("button", "digit");
    this.digit.type = "button";
    this.digit.dataset.act = "take";
    this.dot = element("span", "dot");
    this.same = element("span", "same");
    this.marks = element("span", "marks");
    this.bar = element("span", "bar");
    this.mood = element("span", "mood");
    this.voice = element("span", "voice");
    this.end = element("span", "end");
    this.direction = element("p", "direction");
    this.direction.dir = "auto";
    for (const each of [this.dot, this.direction, this.mood, this.same, this.marks, this.bar, this.voice, this.end])
      each.setAttribute("aria-hidden", "true");
    this.offer = element("button", "offer");
    this.offer.hidden = true;
    this.body = element("div", "body");
    const text = element("div", "text");
    this.body.append(text);
    this.words = element("p", "hidden-words");
    this.words.id = id;
    this.acts = BUTTONS.map(button);
    this.buttons = [this.digit, ...this.acts, this.offer];
    const actions = element("div", "actions");
    actions.append(...this.acts);
    const foot = element("div", "foot");
    foot.append(this.mood, this.voice, this.same, this.marks, this.bar, this.offer, this.end, actions);
    this.box.append(this.digit, this.dot, this.direction, this.body, foot, this.words);
    this.place.append(this.box);
    this.content = new BranchText(text);
  }

  /** Be the card of another slot: its elements stay, and with them their layout. @param {Slot} slot @param {Highlights} highlights */
  adopt(slot, highlights) {
    this.unpaint(highlights);
    this.content.clear();
    if (this.isScrolled) this.body.scrollTop = 0;
    this.isScrolled = false;
    this.slot = slot;
    this.lastWrite = this.lastShade = Number.NEGATIVE_INFINITY;
    this.textHeight = this.lines = 0;
    this.state = this.branch = this.text = "";
  }

  // ---- State

  /** Show the state around the slot; only what has changed is written. @param {View} view */
  show(view) {
    const { slot } = view;
    const said = endWord(slot, view.stopAt);
    put(this.digit, view.digit || view.label);
    this.digit.classList.toggle("idle", !view.digit);
    put(this.same, view.same);
    const signs = [view.isInText && "✓", view.star && "★", view.note && "✎", view.doubt && "≠"];
    put(this.marks, signs.filter(Boolean).join(""));
    put(this.direction, view.direction);
    set(this.direction, "title", view.direction || null);
    put(this.mood, view.mood);
    put(this.dot, SIGNS[view.hue - 1] ?? "");
    set(this.dot, "data-hue", view.writer ? `${view.hue}` : null);
    set(this.dot, "title", view.writer || null);
    put(this.voice, view.voice);
    set(this.voice, "title", view.voice || null);
    put(this.end, said.words);
    set(this.end, "title", said.words || null);
    set(this.bar, "data-step", view.step ? `${view.step}` : null);
    this.bar.style.setProperty("--filled", `${120 - 20 * (view.step ?? 1)}%`);
    set(this.bar, "title", view.likelihood || null);
    this.state = slot.state;
    set(this.box, "data-state", slot.state);
    set(this.box, "data-same", view.same.startsWith("=") ? "open" : null);
    set(this.box, "aria-busy", slot.isLive ? "true" : "false");
    set(this.box, "aria-label", msg`Branch ${view.label}`);
    const already = this._repeats(view.before).length;
    set(this.box, "data-already", already ? "" : null);
    set(this.marks, "title", [already && ALREADY, doubtWords(view)].filter(Boolean).join(" ") || null);
    put(this.words, this._describe(view, said.description));
    const { label } = view;
    const key = view.digit || keyName("Enter");
    const isMarked = slot.mark !== null || slot.start > 0;
    set(this.digit, "aria-label", isMarked ? msg`Take what is marked: branch ${label}` : msg`Take: branch ${label}`);
    const title = isMarked
      ? msg`Take what is marked, and go on from there (${key})`
      : msg`Take, and go on from there (${key})`;
    set(this.digit, "title", title);
    for (const each of this.acts) {
      if (each.dataset.act === "extend") each.hidden = !view.canExtend;
      if (each.dataset.act === "prune") each.hidden = !view.canPrune;
    }
    this._showOffer(view);
  }

  /** @param {View} view @param {string} end */
  _describe(view, end) {
    const { slot } = view;
    const { start, mark, text } = slot;
    const kept = [
      start > 0 ? msg`Marked from “${text.slice(start, start + 30).trim()}”.` : "",
      mark === null ? "" : msg`Marked up to “${text.slice(0, mark).slice(-30).trim()}”.`,
    ].join(" ");
    const already = this._repeats(view.before).length;
    const own = [
      already === 1 ? msg`Already in your text: 1 sentence.` : "",
      already > 1 ? msg`Already in your text: ${already} sentences.` : "",
      view.isInText ? msg`In the text.` : "",
      view.star ? msg`Has a star.` : "",
      view.note ? msg`Note: ${view.note}` : "",
      doubtWords(view),
    ];
    const key = view.digit ? msg`Key ${view.digit} takes it.` : "";
    const by = view.writer && msg`By ${view.writer}.`;
    const told = view.direction && msg`What happens: ${view.direction}.`;
    const mood = view.mood && msg`Mood: ${view.mood}.`;
    return [told, mood, by, end, view.sameWords, kept, view.likelihood, ...own, key].filter(Boolean).join(" ");
  }

  /** @param {View} view */
  _showOffer({ offer }) {
    this.offer.hidden = offer === null;
    this.offer.dataset.act = offer?.name ?? "";
    put(this.offer, offer?.label ?? "");
  }

  /** Make this the card on which keys and the phone's buttons act, or not. @param {boolean} isCurrent */
  setCurrent(isCurrent) {
    set(this.box, "aria-current", isCurrent ? "true" : null);
    this.box.tabIndex = isCurrent ? 0 : -1;
    for (const each of this.buttons) each.tabIndex = isCurrent ? 0 : -1;
  }

  // ---- Place

  /** Take the height of the text, within bounds; returns it in lines. @param {{line: number, reserve: number, most: number}} bounds */
  fit({ line, reserve, most }) {
    const own = Math.ceil(this.textHeight / line - 0.1);
    const isPruned = this.slot.state === "pruned";
    const lines = Math.min(Math.max(own, isPruned ? 0 : reserve), isPruned ? 1 : most);
    this.lines = lines;
    this.isCut = own > lines;
    this.body.toggleAttribute("data-more", this.isCut && lines > 0);
    style(this.place, "--lines", `${lines}`);
    return lines;
  }

  /** Stand in a column, below so many lines and cards. @param {{column: number, above: number, row: number}} place */
  put({ column, above, row }) {
    style(this.place, "--column", `${column}`);
    style(this.place, "--above", `${above}`);
    style(this.place, "--row", `${row}`);
  }

  // ---- Text

  /** Write what is new, at most one change of the document in a frame. Returns the ms until something is left to write,
   * infinite if nothing is.
   * @param {number} now ms @param {Highlights} highlights */
  step(now, highlights) {
    if (now === this.lastWrite) return this._left(now); // the change of this frame
    this._follow(highlights);
    if (now - this.lastWrite >= this.content.interval - EARLY && this._write()) this.lastWrite = now;
    return this._left(now);
  }

  /** Write what is new, by one change of the document, out of turn. @param {Highlights} highlights */
  catchUp(highlights) {
    this._follow(highlights);
    this._write();
  }

  /** Returns whether there was anything to write. */
  _write() {
    const before = this.content.written;
    this.content.write(this.slot.text, this._most());
    return this.content.written > before;
  }

  /** @param {number} now */
  _left(now) {
    return this.isBehind ? Math.max(0, this.lastWrite + this.content.interval - now) : Number.POSITIVE_INFINITY;
  }

  /** Begin anew if another branch with another text fills the slot. @param {Highlights} highlights */
  _follow(highlights) {
    const { slot, content } = this;
    const branch = `${slot.request}/${slot.index}`;
    if (branch !== this.branch && !slot.text.startsWith(this.text.slice(0, content.written))) {
      content.clear();
      this.unpaint(highlights);
    }
    this.branch = branch;
    this.text = slot.text;
  }

  /** How many characters are shown. */
  _most() {
    const { slot } = this;
    return slot.isLive ? Math.max(WHILE_RUNNING, (slot.mark ?? 0) + 500) : AT_REST;
  }

  /** Whether the document lacks text that the branch has. */
  get isBehind() {
    return this.content.isBehind(this.slot.text, this._most());
  }

  // ---- Highlights

  /** Paint the shared beginning, the first own word, the kept part, sentences that the manuscript has already, and the tokens'
   * probabilities, where they have changed.
   * @param {number} now @param {Highlights} highlights
   * @param {{shared: number, logprobs: boolean, before: import("../already.js").Before, passage: string}} options `passage`: in whose
   *   place the card goes */
  paint(now, highlights, { shared, logprobs, before, passage }) {
    const { slot, content } = this;
    if (passage && !slot.isLive && !this.isBehind && this.compared !== slot.text) this._compare(passage);
    if (this.version !== content.version) this._forget(highlights);
    const next = this._ownWord(shared);
    const dim = Math.min(shared, next?.from ?? shared); // whole words
    const own = dim > content.lead ? next : null;
    const repeats = this._repeats(before);
    const kept = slot.mark ?? (slot.start > 0 ? slot.text.length : 0);
    const end = Math.max(dim, own?.to ?? 0, kept, repeats.at(-1)?.to ?? 0);
    const painted = [dim, own?.to, kept, slot.start, repeats.length, Math.min(content.written, end)].join();
    if (painted !== this.painted) {
      this.painted = painted;
      const dimmed = [{ from: 0, to: dim }, ...this.beside];
      highlights.set(
        "srb-shared",
        this,
        dimmed.map((each) => content.range(each.from, each.to)),
      );
      highlights.set("srb-own", this, [own && content.range(own.from, own.to)]);
      highlights.set(
        "srb-already",
        this,
        repeats.map(({ from, to }) => content.range(from, to)),
      );
      highlights.set(
        "srb-new",
        this,
        this.added.map(({ from, to }) => content.range(from, to)),
      );
      highlights.set("srb-kept", this, [kept === 0 ? null : content.range(slot.start, kept)]);
    }
    if (!logprobs || (slot.isLive && now - this.lastShade < SHADE_EVERY)) return;
    this.lastShade = now;
    this._shade(highlights);
  }

  /** Show in which words the text differs from a passage: new ones are painted, and those that were taken away stand struck out
   * where they were. A text that shares little with it is shown as it is: a few words between marks could not be read. @param {string} passage */
  _compare(passage) {
    const { text } = this.slot;
    this.compared = text;
    this.added = [];
    /** @type {import("./branches/emphasis_nodes.js").Removal[]} */
    const removed = [];
    const { from, to } = passageIn(text);
    this.beside = [
      { from: 0, to: from },
      { from: to, to: text.length },
    ].filter((each) => text.slice(each.from, each.to).trim());
    let at = from;
    const parts = diffWords(passage, text.slice(from, to).trimEnd());
    for (const { kind, text: words } of isAlike(parts, passage) ? parts : []) {
      if (kind === "removed") {
        if (words.trim()) removed.push({ at, text: words });
        continue;
      }
      if (kind === "added" && words.trim()) this.added.push({ from: at, to: at + words.length });
      at += words.length;
    }
    this.content.showRemoved(text, removed);
    this.painted = "";
  }

  /** Take away highlights of nodes that are gone; they come back with the next `paint`. @param {Highlights} highlights */
  _forget(highlights) {
    highlights.clear(this);
    this.version = this.content.version;
    this.painted = "";
    this.own.near = "";
    this.shaded = 0;
  }

  /** The sentences that the text before the branch has already. @param {import("../already.js").Before} before */
  _repeats(before) {
    if (this.repeats?.before !== before) this.repeats = new Repeats(before);
    this.repeats.follow(this.slot.text, !this.slot.isLive);
    return this.repeats.ranges;
  }

  /** The first own word; looked for again only where the text near it has changed. @param {number} shared */
  _ownWord(shared) {
    const { text } = this.slot;
    if (shared <= this.content.lead) return null;
    const near = text.slice(shared - 1, shared + NEAR);
    if (near !== this.own.near || shared !== this.own.shared) this.own = { near, shared, word: ownWord(text, shared) };
    return this.own.word;
  }

  /** Shade the tokens that have come. @param {Highlights} highlights */
  _shade(highlights) {
    const { slot, content } = this;
    const { tokenEnds, tokenLogprobs } = slot;
    while (this.shaded < tokenEnds.length && tokenEnds.at(this.shaded) <= content.written) {
      const step = probabilityStep(tokenLogprobs.at(this.shaded));
      let from = Math.max(slot.given, this.shaded ? tokenEnds.at(this.shaded - 1) : 0);
      while (slot.text.charAt(from) === " ") from++;
      while (isShadedAs(slot, this.shaded, step) && tokenEnds.at(this.shaded) <= content.written) this.shaded++;
      const range = from < tokenEnds.at(this.shaded - 1) ? content.range(from, tokenEnds.at(this.shaded - 1)) : null;
      highlights.add(`srb-step-${step}`, this, [range]);
    }
  }

  /** Remove all highlights; they come back with the next `paint`. @param {Highlights} highlights */
  unpaint(highlights) {
    this._forget(highlights);
    this.compared = "";
    this.added = [];
    this.beside = [];
    this.repeats = null;
  }

  /** Scroll the text so that an offset is in view. @param {number} offset */
  reveal(offset) {
    const rect = this.content.rect(Math.max(0, offset - 1), offset);
    const box = this.body.getBoundingClientRect();
    if (!rect) return;
    this.isScrolled = true;
    if (rect.bottom > box.bottom - 20) this.body.scrollTop += rect.bottom - box.bottom + 40;
    else if (rect.top < box.top) this.body.scrollTop += rect.top - box.top - 10;
  }
}

/** @param {View} view */
function doubtWords({ doubt }) {
  return doubt && msg`May contradict: “${doubt}”`;
}

/** @param {Slot} slot @param {number} token @param {number} step */
function isShadedAs(slot, token, step) {
  return token < slot.tokenEnds.length && probabilityStep(slot.tokenLogprobs.at(token)) === step;
}

/** @param {Button} button */
function button({ name, label, title }) {
  const there = element("button", "");
  there.type = "button";
  there.dataset.act = name;
  there.append(iconElement(name === "menu" ? "more" : name));
  there.title = title;
  there.setAttribute("aria-label", label);
  there.tabIndex = -1;
  return there;
}

/** @template {keyof HTMLElementTagNameMap} Name @param {Name} name @param {string} className */
function element(name, className) {
  const there = document.createElement(name);
  if (className) there.className = className;
  return there;
}

/** Set an element's text, if it is another one; returns whether it was. @param {HTMLElement} there @param {string} text */
function put(there, text) {
  const node = there.firstChild;
  if ((node ? /** @type {Text} */ (node).data : "") === text) return false;
  if (node) /** @type {Text} */ (node).data = text;
  else there.append(text);
  return true;
}

/** @param {HTMLElement} there @param {string} name @param {string|null} value */
function set(there, name, value) {
  if (there.getAttribute(name) === value) return;
  if (value === null) there.removeAttribute(name);
  else there.setAttribute(name, value);
}

/** Set a property of an element's style, if it has another value. @param {HTMLElement} there @param {string} name @param {string} value */
function style(there, name, value) {
  if (there.style.getPropertyValue(name) !== value) there.style.setProperty(name, value);
}
