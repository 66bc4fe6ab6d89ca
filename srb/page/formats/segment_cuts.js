/** Cuts a story's splices into segments, for programs in which a node only continues its parent. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";

/** @import {Story} from "./types.js" */

const MOST = 64 * 2 ** 20; // characters in all; a splice into the middle of a text repeats the text's rest

/**
 * @typedef {object} Cut
 * @property {Cut | null} parent
 * @property {number} start  offset of its text in the text of its path
 * @property {string} text
 * @property {number} order  siblings stand in this order
 * @property {Set<string>} ends  the nodes of the story whose texts end here
 */

/**
 * Return segments so that the text of each node of the story, and of its manuscript, is the text of a path.
 * @param {Story} story
 * @returns {{segments: Cut[], head: Cut}} parents before their children
 */
export function cutsOf(story) {
  const cuts = new Cuts();
  const waiting = [...story.roots()].reverse();
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    cuts.add(/** @type {any} */ (story.nodes.get(id)), (node) => story.text(node));
    for (const child of [...story.children(id)].reverse()) waiting.push(child);
  }
  const head = cuts.at(story.head.node, story.head.at) ?? cuts.append(null, 0, "");
  return { segments: cuts.inOrder(), head };
}

class Cuts {
  /** @type {Cut[]} */
  #all = [];
  /** @type {Map<string, {end: Cut | null, length: number}>} of the nodes; end: null where a text is empty */
  #nodes = new Map();
  #size = 0;

  /**
   * @param {{id: string, parent?: string, keep?: number, tail?: number, text: string}} node
   * @param {(id: string) => string} textOf
   */
  add({ id, parent, keep = 0, tail, text }, textOf) {
    const above = parent === undefined ? { end: null, length: 0 } : this.#node(parent);
    const rest = tail === undefined || parent === undefined ? "" : textOf(parent).slice(tail);
    const own = text + rest;
    const place = this.at(parent ?? "", keep);
    const end = own === "" && keep < above.length ? place : this.append(place, keep, own);
    end?.ends.add(id);
    this.#nodes.set(id, { end, length: keep + own.length });
  }

  /**
   * Return the segment that ends where the first `at` units of a node's text end, cutting one in two if none does.
   * @param {string} id  or "" for the empty text
   * @param {number} at
   * @returns {Cut | null}
   */
  at(id, at) {
    if (id === "") return null;
    const { end, length } = this.#node(id);
    let cut = end;
    if (at === length) return cut;
    while (cut !== null && at <= cut.start) cut = cut.parent;
    if (cut === null || cut.start + cut.text.length === at) return cut;
    return this.#cut(cut, at - cut.start);
  }

  /**
   * @param {Cut | null} parent
   * @param {number} start
   * @param {string} text
   */
  append(parent, start, text) {
    this.#size += text.length;
    if (this.#size > MOST) {
      throw new StoryError(
        msg`Obsidian Loom has no edits in the middle of a text, so each becomes a copy of the text's rest: that would be more than 64 MB here. Export the SRB story instead.`,
      );
    }
    const cut = { parent, start, text, order: this.#all.length, ends: new Set() };
    this.#all.push(cut);
    return cut;
  }

  /** Return the segments in the order of a walk through the tree. */
  inOrder() {
    /** @type {Map<Cut | null, Cut[]>} */
    const children = new Map([[null, []]]);
    for (const cut of this.#all) children.set(cut, []);
    for (const cut of [...this.#all].sort((a, b) => b.order - a.order)) children.get(cut.parent)?.push(cut);
    const waiting = children.get(null) ?? [];
    /** @type {Cut[]} */
    const order = [];
    for (let cut = waiting.pop(); cut !== undefined; cut = waiting.pop()) {
      order.push(cut);
      for (const child of children.get(cut) ?? []) waiting.push(child);
    }
    return order;
  }

  /** @param {string} id */
  #node(id) {
    return /** @type {{end: Cut | null, length: number}} */ (this.#nodes.get(id));
  }

  /**
   * Cut a segment in two and return the upper half, a new one. The lower half stays, with all that ends or hangs there.
   * @param {Cut} cut
   * @param {number} length  of the upper half
   */
  #cut(cut, length) {
    const upper = { ...cut, text: cut.text.slice(0, length), ends: new Set() };
    this.#all.push(upper);
    cut.parent = upper;
    cut.start += length;
    cut.text = cut.text.slice(length);
    return upper;
  }
}
