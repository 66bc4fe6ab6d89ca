/** The lorebook of the open story: its entries as a text reads them, and which of them the last prompt had. */

import { choose, restingOf } from "../lore/choice.js";
import { entriesOf } from "../lore/entries.js";
import { Keywords } from "../lore/keywords.js";
import { entriesAt, versionsOf } from "../lore/versions.js";

/** @typedef {import("../lore/choice.js").Choice} Choice */
/** @typedef {import("../story/types.js").Place} Place */

const SHARE = 1 / 4; // of the context: the most that entries take, whatever their budget is

export class Lorebook {
  /** @param {import("../desk.js").Desk} desk */
  constructor(desk) {
    this.desk = desk;
    /** @type {{entries: import("../lore/entries.js").Entry[], versions: ReturnType<typeof versionsOf>} | null} null: to be read from the story again */
    this.known = null;
    /** @type {{known: unknown, read: string, keywords: Keywords} | null} of the text that was looked at last */
    this.last = null;
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

  get all() {
    const { story } = this.desk;
    this.known ??= { entries: entriesOf(story), versions: versionsOf(story) };
    return this.known;
  }

  /** The keywords of the entries that a text reads. @param {Place} place  of the text */
  keywordsAt(place) {
    const known = this.all;
    const { entries, read } = entriesAt(this.desk.story, known.entries, known.versions, place);
    const versions = [...read.values()].join(" ");
    if (this.last?.known !== known || this.last.read !== versions)
      this.last = { known, read: versions, keywords: new Keywords(entries) };
    return this.last.keywords;
  }

  /**
   * @param {string} text  up to the next words
   * @param {Place} of  the text, or a longer one that begins with it
   * @param {number} n_ctx
   * @param {number} rate  characters per token
   * @returns {Choice}
   */
  choose(text, of, n_ctx, rate) {
    const { lore_words: words, lore_tokens: tokens } = this.desk.settings;
    const room = Math.floor(rate * Math.min(tokens, n_ctx * SHARE));
    const keywords = this.keywordsAt({ node: of.node, at: Math.min(of.at, text.length) });
    return choose({ keywords, text, words, room, resting: this.resting });
  }

  /** Note where a prompt has its entries. @param {Choice} choice @param {string} text @param {number} at */
  rest(choice, text, at) {
    this.resting = restingOf(choice, text, at);
  }
}
