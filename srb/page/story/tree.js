/**
 * The nodes of a story as a tree. A node is *visible* once its parent is and its offsets lie inside the parent's text; until
 * then it waits, so that nodes may come in any order. Nothing here is recursive: a path may be as deep as it likes.
 *
 * @import {Node} from "./types.js"
 */
import { laterNode } from "./merge.js";

export class Entry {
  /** @type {Entry[]} in order of making */
  children = [];

  /**
   * @param {Node} node
   * @param {Entry | null} parent
   */
  constructor(node, parent) {
    this.node = node;
    this.parent = parent;
    this.length = lengthOf(node, parent);
  }
}

/**
 * @param {Node} node
 * @param {Entry | null} parent
 * @returns {number} the length of the node's whole text
 */
function lengthOf(node, parent) {
  if (parent === null) return node.text.length;
  return (node.keep ?? 0) + node.text.length + (node.tail === undefined ? 0 : parent.length - node.tail);
}

/**
 * Say whether a node's splice is possible in its parent's text as it is now. A tail of a text that still grows is not.
 * @param {Node} node
 * @param {Entry} parent
 */
function fits(node, parent) {
  const { keep = 0, tail } = node;
  if (tail === undefined) return keep <= parent.length;
  return keep <= tail && tail <= parent.length && !parent.node.open;
}

/**
 * @param {Entry} a
 * @param {Entry} b
 */
function byMaking(a, b) {
  return a.node.made - b.node.made || (a.node.slot ?? 0) - (b.node.slot ?? 0) || (a.node.id < b.node.id ? -1 : 1);
}

/**
 * @param {Entry[]} siblings
 * @param {Entry} entry
 */
function insertInOrder(siblings, entry) {
  let place = siblings.length;
  while (place > 0 && byMaking(/** @type {Entry} */ (siblings[place - 1]), entry) > 0) place -= 1;
  siblings.splice(place, 0, entry);
}

export class Tree {
  /** @type {Map<string, Node>} the visible nodes */
  nodes = new Map();
  /** @type {Entry[]} */
  roots = [];
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  /** @type {Map<string, Node>} nodes that cannot be shown yet */
  #waiting = new Map();
  /** @type {Map<string, Set<string>>} the waiting nodes of each parent */
  #waitingFor = new Map();

  /**
   * @param {string} id
   * @returns {Entry}
   */
  entry(id) {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw new Error(`the story has no node ${id}`);
    return entry;
  }

  /** @param {string} id */
  has(id) {
    return this.#entries.has(id);
  }

  /**
   * @param {string} id
   * @returns {Node | undefined} also a node that waits
   */
  get(id) {
    return this.nodes.get(id) ?? this.#waiting.get(id);
  }

  get waiting() {
    return this.#waiting.size;
  }

  /**
   * Take a node, or a version of one, from wherever it comes.
   * @param {Node} node
   * @returns {{changed: Set<string>, rebuilt: boolean}} the visible nodes that appeared or changed, and whether texts of
   *   nodes that had been closed may have changed as well
   */
  put(node) {
    const entry = this.#entries.get(node.id);
    if (entry !== undefined) {
      if (laterNode(node, entry.node) !== node || sameNode(node, entry.node))
        return { changed: new Set(), rebuilt: false };
      return this.replace(node);
    }
    const before = this.#waiting.get(node.id);
    if (before !== undefined) this.#unwait(node.id);
    const later = before === undefined ? node : laterNode(node, before);
    if (!this.#enter(later)) this.#wait(later);
    return { changed: this.#showAfter(later.id), rebuilt: false };
  }

  /**
   * Replace a visible node by a later version of it.
   * @param {Node} node
   */
  replace(node) {
    const entry = this.entry(node.id);
    const { parent, keep, tail } = entry.node;
    entry.node = node;
    this.nodes.set(node.id, node);
    const moved = node.parent !== parent || (entry.parent !== null && !fits(node, entry.parent));
    const length = moved ? -1 : lengthOf(node, entry.parent);
    const appended = node.keep === keep && node.tail === tail && length >= entry.length && tail === undefined;
    const disturbed = entry.children.some(({ node: child }) => child.tail !== undefined || !appended);
    if (moved || (disturbed && length !== entry.length)) return this.#rebuild(node.id);
    entry.length = length;
    return { changed: this.#showAfter(node.id), rebuilt: false };
  }

  /**
   * @param {string} id
   * @returns {Entry[]} from the root to the node
   */
  path(id) {
    const path = [];
    for (let entry = /** @type {Entry | null} */ (this.entry(id)); entry !== null; entry = entry.parent)
      path.push(entry);
    return path.reverse();
  }

  /**
   * Return the UTF-16 unit at an offset of a node's text, without building the text.
   * @param {Entry} of
   * @param {number} offset
   * @returns {{unit: number, steps: number}} NaN outside the text, and how many nodes were looked at
   */
  locate(of, offset) {
    let entry = offset >= 0 && offset < of.length ? /** @type {Entry | null} */ (of) : null;
    let steps = 0;
    for (; entry !== null; entry = entry.parent) {
      const { keep = 0, text, tail = 0 } = entry.node;
      steps += 1;
      if (offset >= keep && offset < keep + text.length) return { unit: text.charCodeAt(offset - keep), steps };
      if (offset >= keep) offset += tail - keep - text.length;
    }
    return { unit: NaN, steps };
  }

  /**
   * Make a node visible if it can be.
   * @param {Node} node
   * @returns {boolean}
   */
  #enter(node) {
    const parent = node.parent === undefined ? null : this.#entries.get(node.parent);
    if (parent === undefined || (parent !== null && !fits(node, parent))) return false;
    const entry = new Entry(node, parent);
    this.#entries.set(node.id, entry);
    this.nodes.set(node.id, node);
    insertInOrder(parent === null ? this.roots : parent.children, entry);
    return true;
  }

  /**
   * Make visible all that waited for a node, which has just appeared or changed.
   * @param {string} id
   * @returns {Set<string>} the node, if it is visible, and those that waited
   */
  #showAfter(id) {
    /** @type {Set<string>} */
    const shown = new Set();
    if (!this.#entries.has(id)) return shown;
    for (const visible of shown.add(id)) {
      for (const waiting of [...(this.#waitingFor.get(visible) ?? [])]) {
        const node = /** @type {Node} */ (this.#waiting.get(waiting));
        if (!this.#enter(node)) continue;
        this.#unwait(waiting);
        shown.add(waiting);
      }
    }
    return shown;
  }

  /**
   * Place every node anew: a version arrived that contradicts texts built on the one before. Only a broken client sends one.
   * @param {string} id
   */
  #rebuild(id) {
    const before = this.nodes;
    for (const node of before.values()) this.#wait(node);
    this.nodes = new Map();
    this.#entries.clear();
    this.roots = [];
    for (const node of [...this.#waiting.values()]) {
      if (node.parent !== undefined) continue;
      this.#enter(node);
      this.#unwait(node.id);
      this.#showAfter(node.id);
    }
    const changed = new Set([id]);
    for (const node of before.keys()) if (!this.nodes.has(node)) changed.add(node);
    for (const node of this.nodes.keys()) if (!before.has(node)) changed.add(node);
    return { changed, rebuilt: true };
  }

  /** @param {Node} node */
  #wait(node) {
    this.#waiting.set(node.id, node);
    if (node.parent === undefined) return;
    const others = this.#waitingFor.get(node.parent);
    if (others === undefined) this.#waitingFor.set(node.parent, new Set([node.id]));
    else others.add(node.id);
  }

  /** @param {string} id */
  #unwait(id) {
    const parent = this.#waiting.get(id)?.parent;
    this.#waiting.delete(id);
    if (parent === undefined) return;
    const others = this.#waitingFor.get(parent);
    others?.delete(id);
    if (others?.size === 0) this.#waitingFor.delete(parent);
  }
}

/**
 * @param {Node} a
 * @param {Node} b
 */
function sameNode(a, b) {
  return laterNode(a, b) === a && laterNode(b, a) === b;
}
