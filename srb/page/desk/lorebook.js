/** The lorebook of the open story: its entries, and which of them the last prompt had. */

import { choose, restingOf } from "../lore/choice.js";
import { entriesOf } from "../lore/entries.js";
import { Keywords } from "../lore/keywords.js";

/** @typedef {import("../lore/choice.js").Choice} Choice */

const SHARE = 1 / 4; // of the context: the most that entries take, whatever their budget is

export class Lorebook {
  /** @param {import("../desk.js").Desk} desk */
  constructor(desk) {
    this.desk = desk;
    /** @type {Keywords | null} null: to be read from the story again */
    this.known = null;
    /** @type {import("../lore/choice.js").Resting | null} */
    this.resting = null;
    desk.addEventListener("story", () => {
      this.known = null;
    });
  }

  /** Forget what belongs to the story that was open. */
  forget() {
    this.known = null;
    this.resting = null;
  }

  get keywords() {
    this.known ??= new Keywords(entriesOf(this.desk.story));
    return this.known;
  }

  /**
   * @param {string} text  the manuscript
   * @param {number} n_ctx
   * @param {number} rate  characters per token
   * @returns {Choice}
   */
  choose(text, n_ctx, rate) {
    const { lore_words: words, lore_tokens: tokens } = this.desk.settings;
    const room = Math.floor(rate * Math.min(tokens, n_ctx * SHARE));
    return choose({ keywords: this.keywords, text, words, room, resting: this.resting });
  }

  /** Note where a prompt has its entries. @param {Choice} choice @param {string} text @param {number} at */
  rest(choice, text, at) {
    this.resting = restingOf(choice, text, at);
  }
}
