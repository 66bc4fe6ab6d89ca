/**
 * The outbox: parts of stories that are kept in this browser until the server has them, or for good if it keeps none. A save
 * costs what it brings, not what the story has.
 *
 * @import {Stamped, Wire} from "../story/types.js"
 * @import {Key, Shelf} from "./shelf.js"
 */
import { canonical, laterNode, laterRun, laterStamped, own } from "../story/merge.js";

const ABOUT = "about";

/** @typedef {{id: string, title: string, words: number, opening: string, changed: number, deleted: number | null}} Kept */

export class Outbox {
  /** @param {Shelf} shelf */
  constructor(shelf) {
    this.shelf = shelf;
  }

  /**
   * Keep a part of a story; of what is there already the later version stays.
   * @param {string} story
   * @param {Wire} wire
   * @param {number} now
   */
  async put(story, wire, now) {
    const items = itemsOf(story, wire);
    items.set(JSON.stringify([story, ABOUT]), { key: [story, ABOUT], value: { changed: now } });
    await this.shelf.change(
      [...items.values()].map(({ key }) => key),
      (key, stored) => later(key, stored, items.get(JSON.stringify(key))?.value),
    );
  }

  /**
   * Remove what the server has, unless a later version of it was put meanwhile.
   * @param {string} story
   * @param {Wire} wire  as it was sent
   * @returns {Promise<boolean>} whether nothing of the story is left
   */
  async forget(story, wire) {
    const items = itemsOf(story, wire);
    await this.shelf.change(
      [...items.values()].map(({ key }) => key),
      (key, stored) => {
        const sent = items.get(JSON.stringify(key))?.value;
        return stored === undefined || canonical(later(key, stored, sent)) === canonical(sent) ? undefined : stored;
      },
    );
    const left = await this.shelf.keys(story, 2);
    const isGone = left.every(([, section]) => section === ABOUT);
    if (isGone && left.length > 0) await this.shelf.change(left, () => undefined);
    return isGone;
  }

  /**
   * @param {string} story
   * @returns {Promise<Required<Wire> | null>} all that is kept of it
   */
  async read(story) {
    const items = await this.shelf.read(story);
    return items.length === 0 ? null : wireOf(items);
  }

  /** @returns {Promise<Kept[]>} */
  async list() {
    const kept = [];
    for (const id of await this.shelf.firsts()) {
      const keys = [
        [id, ABOUT],
        [id, "meta", "title"],
        [id, "meta", "words"],
        [id, "meta", "opening"],
      ];
      const [about, title, words, opening] = await this.shelf.get(keys);
      kept.push({
        id,
        title: String(title?.value ?? ""),
        words: Number(words?.value ?? 0),
        opening: String(opening?.value ?? ""),
        changed: Number(about?.changed ?? 0),
        deleted: about?.deleted ?? null,
      });
    }
    return kept;
  }

  /**
   * Put a story into the browser's bin, or take it out.
   * @param {string} story
   * @param {number | null} deleted
   */
  async setDeleted(story, deleted) {
    await this.shelf.change([[story, ABOUT]], (_key, stored) => stored && { ...stored, deleted });
  }

  /** @param {string} story */
  async remove(story) {
    await this.shelf.remove(story);
  }
}

/**
 * @param {string} story
 * @param {Wire} wire
 * @returns {Map<string, {key: Key, value: any}>}
 */
function itemsOf(story, wire) {
  const items = new Map();
  const add = (/** @type {Key} */ key, /** @type {unknown} */ value) => items.set(JSON.stringify(key), { key, value });
  for (const section of /** @type {const} */ (["meta", "nodes", "runs"])) {
    for (const [id, value] of Object.entries(wire[section] ?? {})) add([story, section, id], value);
  }
  for (const [id, values] of Object.entries(wire.marks ?? {})) {
    for (const [key, value] of Object.entries(values)) add([story, "marks", id, key], value);
  }
  return items;
}

/**
 * @param {[Key, any][]} items
 * @returns {Required<Wire>}
 */
function wireOf(items) {
  /** @type {Record<string, Record<string, any>>} */
  const wire = { meta: own(), nodes: own(), runs: own(), marks: own() };
  for (const [[, section = "", id = "", key = ""], value] of items) {
    const part = wire[section];
    if (part === undefined) continue;
    if (section === "marks") part[id] = Object.assign(part[id] ?? own(), { [key]: value });
    else part[id] = value;
  }
  return /** @type {any} */ (wire);
}

/**
 * @param {Key} key
 * @param {any} stored
 * @param {any} value
 * @returns {any} the version that stays
 */
function later([, section], stored, value) {
  if (stored === undefined) return value;
  if (section === "nodes") return laterNode(value, stored);
  if (section === "runs") return laterRun(value, stored);
  if (section === ABOUT) return { ...stored, ...value };
  return laterStamped(/** @type {Stamped} */ (value), stored);
}
