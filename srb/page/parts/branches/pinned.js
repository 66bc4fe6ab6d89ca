// The board that stays: pinned cards above those of the round, and starred ones to be pinned.

import { isPinned, pinsOf, placeOf, putPinned, starred, togglePin } from "../../desk/pins.js";
import { msg } from "../../languages.js";
import { html, nothing } from "../../vendor/lit.js";
import { icon } from "../icons.js";
import { nodesOf } from "./emphasis_nodes.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../desk/pins.js").Pinned} Pinned */

/** A card's words, with their emphasis. @param {Pinned} pin */
function wordsOf({ text }) {
  const words = text.trim();
  return html`<p class="text" dir="auto">${nodesOf(words, 0, words.length, []).children}</p>`;
}

const LISTED = 50; // starred cards, the newest

export class PinnedCards {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    /** @type {import("../../story.js").Story | null} */
    this.story = null;
    /** Branches of models that have a star. @type {Set<string>} */
    this.stars = new Set();
    /** @type {{pin: Pinned, isThere: boolean}[] | null} as they were read last; null: something has changed since */
    this.pins = null;
    this.height = 0;
  }

  /** Something is said of nodes, or of all. @param {Iterable<string> | null} ids */
  hear(ids) {
    const { story } = this.pane.desk;
    if (story !== this.story) this.stars.clear();
    for (const id of ids === null || story !== this.story ? story.nodes.keys() : ids) {
      if (story.nodes.get(id)?.by === "model" && story.mark(id).star === true) this.stars.add(id);
      else this.stars.delete(id);
    }
    this.story = story;
    this.forget();
  }

  /** The text has changed, or the pins have. */
  forget() {
    this.pins = null;
  }

  read() {
    const { desk } = this.pane;
    this.pins ??= pinsOf(desk.story).map((pin) => ({ pin, isThere: placeOf(desk, pin) !== null }));
    return this.pins;
  }

  /** Leave the cards the room that is left below this and the filters. */
  updated() {
    const above = /** @type {NodeListOf<HTMLElement>} */ (this.pane.querySelectorAll(".pinned, .filters"));
    const height = [...above].reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
    if (height !== this.height) this.pane.board?.measure();
    this.height = height;
  }

  render() {
    const { story } = this.pane.desk;
    const pins = this.read();
    const stars = [...this.stars].filter((id) => story.nodes.has(id) && !isPinned(story, id)).reverse();
    if (!pins.length && !stars.length) return nothing;
    const toggled = () => this.updated();
    return html`<div class="pinned">
      ${
        pins.length
          ? html`<details open @toggle=${toggled}><summary>${msg`Pinned: ${pins.length}`}</summary>
              <ul aria-label=${msg`Pinned cards`}>${pins.map(({ pin, isThere }) => this.item(pin, isThere))}</ul></details>`
          : nothing
      }
      ${
        stars.length
          ? html`<details @toggle=${toggled}><summary>${msg`Starred: ${stars.length}`}</summary>
              <ul aria-label=${msg`Starred cards`}>${stars.slice(0, LISTED).map((id) => this.offer(id))}</ul></details>`
          : nothing
      }
    </div>`;
  }

  /** @param {Pinned} pin @param {boolean} isThere */
  item(pin, isThere) {
    const { desk, inText } = this.pane;
    const isTaken = inText.has(pin.node);
    const from = isThere ? msg`after “${pin.before}”` : msg`after “${pin.before}”, which is not in the text any more`;
    return html`<li>
      ${wordsOf(pin)}
      <p class="from">${isTaken ? html`<span class="marks" title=${msg`In the text.`}>✓</span> ` : nothing}${pin.before ? from : msg`the beginning of the story`}</p>
      <div class="acts">
        <button @click=${() => this.put(pin)}>${msg`Put at the caret`}</button>
        ${isThere && !isTaken ? html`<button @click=${() => this.put(pin, true)}>${msg`Put in its place`}</button>` : nothing}
        <button aria-label=${msg`Take off the board`} title=${msg`Take off the board`} @click=${() => togglePin(desk, pin.node, pin)}>${icon("prune")}</button>
      </div>
    </li>`;
  }

  /** @param {string} id a starred branch */
  offer(id) {
    const { desk } = this.pane;
    const pin = starred(desk.story, id);
    return html`<li>
      ${wordsOf(pin)}
      <p class="from">★ ${msg`after “${pin.before}”`}</p>
      <div class="acts">
        <button @click=${() => this.put(pin)}>${msg`Put at the caret`}</button>
        <button @click=${() => togglePin(desk, id, pin)}>${msg`Pin`}</button>
      </div>
    </li>`;
  }

  /** @param {Pinned} pin @param {boolean} [isInPlace] */
  put(pin, isInPlace = false) {
    const { pane } = this;
    putPinned(pane.desk, pin, { isInPlace });
    pane.say(isInPlace ? msg`Put where it went on.` : msg`Put where the caret is.`);
  }
}
