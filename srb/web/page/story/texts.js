/**
 * The whole texts of nodes; those that were asked for last are at hand.
 *
 * @import {Piece} from "./types.js"
 * @import {Part} from "./pieces.js"
 * @import {Tree} from "./tree.js"
 */
import { partsOf, piecesOf, textOf } from "./pieces.js";

const KEPT = 8;
/** So many splices are made on a text at hand; a node farther from one is put together from its parts. */
const NEAR = 8;

export class Texts {
  /** @type {Map<string, string>} */
  #texts = new Map();
  /** @type {{id: string, parts: Part[]} | null} */
  #parts = null;

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
    if (rebuilt) this.#texts.clear();
    else for (const id of changed) this.#texts.delete(id);
    if (this.#parts !== null && (rebuilt || changed.has(this.#parts.id))) this.#parts = null;
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
    if (this.#parts?.id !== id) this.#parts = { id, parts: partsOf(this.tree.path(id)) };
    return this.#parts.parts;
  }
}
