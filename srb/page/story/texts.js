/**
 * The whole texts of nodes; those that were asked for last are at hand.
 *
 * @import {Piece} from "./types.js"
 * @import {Part} from "./pieces.js"
 * @import {Tree} from "./tree.js"
 */
import { partsOf, piecesOf, splicedParts, textOf } from "./pieces.js";

const KEPT = 8;
/** So many splices are made on a text at hand; a node farther from one is put together from its parts. */
const NEAR = 8;

export class Texts {
  /** @type {Map<string, string>} */
  #texts = new Map();
  /** @type {Map<string, Part[]>} of the node asked for last, and of its parent: the next keystroke changes only the node */
  #parts = new Map();

  /** @param {Tree} tree */
  constructor(tree) {
    this.tree = tree;
  }

  /**
   * @param {string} id
   * @returns {string}
   */
  text(id) {
    const text = this.#fromNear(id) ?? textOf(this.#partsOf(id));
    this.#texts.delete(id);
    this.#texts.set(id, text);
    const [oldest = id] = this.#texts.keys();
    if (this.#texts.size > KEPT) this.#texts.delete(oldest);
    return text;
  }

  /**
   * @param {string} id
   * @param {number} at
   * @returns {Piece[]}
   */
  pieces(id, at) {
    const pieces = [];
    for (const piece of piecesOf(this.#partsOf(id))) {
      if (piece.from >= at) break;
      pieces.push(piece.to <= at ? piece : { ...piece, to: at });
    }
    return pieces;
  }

  /** @param {{changed: Set<string>, rebuilt: boolean}} change  of the tree */
  forget({ changed, rebuilt }) {
    for (const kept of [this.#texts, this.#parts]) {
      if (rebuilt) kept.clear();
      else for (const id of changed) kept.delete(id);
    }
  }

  /**
   * @param {string} id
   * @returns {string | null} the text by way of an ancestor's that is at hand
   */
  #fromNear(id) {
    const splices = [];
    let entry = this.tree.entry(id);
    let text = this.#texts.get(id);
    while (text === undefined && splices.length < NEAR && entry.parent !== null) {
      splices.push(entry.node);
      entry = entry.parent;
      text = this.#texts.get(entry.node.id);
    }
    if (text === undefined) return null;
    for (const { keep = 0, text: written, tail } of splices.reverse()) {
      text = text.slice(0, keep) + written + (tail === undefined ? "" : text.slice(tail));
    }
    return text;
  }

  /**
   * @param {string} id
   * @returns {Part[]}
   */
  #partsOf(id) {
    const { parent } = this.tree.entry(id);
    const ofParent =
      parent === null ? [] : (this.#parts.get(parent.node.id) ?? partsOf(this.tree.path(parent.node.id)));
    const parts = this.#parts.get(id) ?? splicedParts(ofParent, this.tree.entry(id));
    this.#parts.clear();
    if (parent !== null) this.#parts.set(parent.node.id, ofParent);
    this.#parts.set(id, parts);
    return parts;
  }
}
