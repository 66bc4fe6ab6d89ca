/**
 * The story's nodes of a card. A card's text is one string, but it may have several nodes: a branch that goes on after its end
 * gets a new node below the ended one, and a fork stands below the node that it was forked from.
 */

/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{node: string | null, from: number}} Piece a node, and where its text begins in the card's text; null: not made yet */

export class Trail {
  /**
   * @param {Place} base place that the round continues
   * @param {number} keep characters of the manuscript before the card's text
   * @param {Piece[]} [pieces]
   */
  constructor(base, keep, pieces = [{ node: null, from: 0 }]) {
    this.base = base;
    this.keep = keep;
    this.pieces = pieces;
  }

  /** The piece that grows. */
  get last() {
    return this.pieces[this.pieces.length - 1];
  }

  /** The node under which the last piece's node stands. */
  get parent() {
    return this.pieces.length > 1 ? /** @type {string} */ (this.pieces[this.pieces.length - 2].node) : this.base.node;
  }

  /** The manuscript's length before the last piece's text. */
  get parentKeep() {
    return this.keep + this.last.from;
  }

  /** Return the place in the story after the first `at` characters of the card's text. @param {number} at @returns {Place} */
  place(at) {
    for (let i = this.pieces.length - 1; i >= 0; i -= 1) {
      const { node, from } = this.pieces[i];
      if (node !== null && from < at) return { node, at: this.keep + at };
    }
    return { node: this.base.node, at: this.keep };
  }

  /** Return the trail of a branch that is forked after `at` characters of this one. @param {number} at */
  fork(at) {
    const shared = this.pieces.filter(({ node, from }) => node !== null && from < at);
    return new Trail(this.base, this.keep, [...shared, { node: null, from: at }]);
  }

  /** Begin a new node after `length` characters: the branch goes on after its end. @param {number} length */
  resume(length) {
    if (this.last.node !== null) this.pieces.push({ node: null, from: length });
  }
}
