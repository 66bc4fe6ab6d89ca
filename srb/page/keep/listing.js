/**
 * The list of stories: those of the server, and those of which this browser has something that the server lacks.
 *
 * @import {Outbox} from "./outbox.js"
 * @import {Listed, StoryServer} from "./server.js"
 */
import { isMissing, Trouble } from "./server.js";

const BIN = 30 * 24 * 3600 * 1000;

/** @typedef {{id: string, title: string, words: number, opening: string, changed: number, deleted: number | null, isUnsaved: boolean, owner?: string, access?: "read" | "write"}} Entry */

export class Listing {
  /**
   * @param {StoryServer} server
   * @param {Outbox} outbox
   * @param {() => number} now
   */
  constructor(server, outbox, now) {
    this.server = server;
    this.outbox = outbox;
    this.now = now;
    this.person = ""; // the name of the key
    /** @type {Set<string>} ids of stories that may only be read */
    this.toRead = new Set();
  }

  /**
   * Return all stories, or those in the bin, the last changed first. If the server cannot read its stories, `fault` says so in
   * a sentence, and the list has what this browser keeps.
   * @param {boolean} binned
   * @returns {Promise<{stories: Entry[], fault: string, person: string}>} `person`: the name of the key, "" without one
   */
  async read(binned) {
    const [{ listed, fault, person }, kept] = await Promise.all([
      this.#listed(binned),
      this.outbox.list().catch(() => []),
    ]);
    /** @type {Map<string, Entry>} */
    const entries = new Map();
    for (const { id, title, words, opening, changed, deleted } of kept) {
      if (deleted !== null && deleted < this.now() - BIN) await this.outbox.remove(id);
      else if ((deleted !== null) === binned)
        entries.set(id, { id, title, words, opening, changed, deleted, isUnsaved: this.server.isOn });
    }
    for (const { id, title, words = 0, opening = "", changed, deleted = null, owner, access } of listed) {
      const kept = entries.get(id);
      entries.set(id, {
        id,
        title: kept?.title || title,
        words: kept?.words || words,
        opening: kept?.opening || opening,
        changed: Math.max(changed, kept?.changed ?? 0),
        deleted,
        isUnsaved: kept !== undefined,
        owner,
        access,
      });
    }
    const stories = [...entries.values()].sort((a, b) => b.changed - a.changed || (a.id < b.id ? -1 : 1));
    return { stories, fault, person };
  }

  /**
   * @param {boolean} binned
   * @returns {Promise<{listed: Listed[], fault: string, person: string}>}
   */
  async #listed(binned) {
    try {
      const { stories, person = "" } = await this.server.list(binned);
      this.person = person;
      if (!binned) this.toRead = new Set(stories.filter(({ access }) => access === "read").map(({ id }) => id));
      return { listed: stories, fault: "", person };
    } catch (error) {
      const { kind, message } = Trouble.of(error);
      return { listed: [], person: "", fault: kind === "off" ? "" : message };
    }
  }

  /**
   * Put a story into the bin, where it stays for a month, or take it out.
   * @param {string} id
   * @param {boolean} isBinned
   */
  async setBinned(id, isBinned) {
    try {
      if (this.server.isOn) return await (isBinned ? this.server.remove(id) : this.server.restore(id));
    } catch (error) {
      const { kind, message } = Trouble.of(error);
      if (kind !== "off" && !isMissing(error)) throw new Error(message);
    }
    await this.outbox.setDeleted(id, isBinned ? this.now() : null);
  }
}
