/**
 * The text of a node, put together from the splices of its path.
 *
 * @import {Piece} from "./types.js"
 * @import {Entry} from "./tree.js"
 *
 * @typedef {{entry: Entry, start: number, length: number}} Part  a stretch of a node's own `text`
 */

/**
 * A text as parts, with a gap where the last splice was: parts before the gap in order, parts after it in reverse order. A
 * splice costs the parts between it and the last one, so typing costs nothing however long the story is.
 */
class PartTable {
  /** @type {Part[]} */
  #before = [];
  /** @type {Part[]} */
  #after = [];
  #gap = 0;

  /**
   * Keep the first `keep` units, then the entry's text, then everything from `tail` on.
   * @param {Entry} entry
   */
  splice(entry) {
    const { keep = 0, text, tail } = entry.node;
    if (tail === undefined) {
      if (keep <= this.#gap) this.#after.length = 0;
      this.#moveTo(keep);
      this.#after.length = 0;
    } else {
      this.#moveTo(keep);
      this.#drop(tail - keep);
    }
    if (text === "") return;
    this.#join({ entry, start: 0, length: text.length });
  }

  /** @returns {Part[]} */
  parts() {
    while (this.#after.length > 0) this.#join(this.#first(Infinity));
    return this.#before;
  }

  /** @param {number} offset */
  #moveTo(offset) {
    while (this.#gap > offset) {
      const part = /** @type {Part} */ (this.#before.pop());
      this.#gap -= part.length;
      const kept = Math.max(0, offset - this.#gap);
      this.#after.push({ entry: part.entry, start: part.start + kept, length: part.length - kept });
      if (kept > 0) this.#join({ entry: part.entry, start: part.start, length: kept });
    }
    while (this.#gap < offset) this.#join(this.#first(offset - this.#gap));
  }

  /** @param {number} length */
  #drop(length) {
    while (length > 0) length -= this.#first(length).length;
  }

  /**
   * Take the first part after the gap, or as much of it as is asked for.
   * @param {number} most
   * @returns {Part}
   */
  #first(most) {
    const part = /** @type {Part} */ (this.#after.pop());
    if (part.length <= most) return part;
    const rest = { entry: part.entry, start: part.start + most, length: part.length - most };
    this.#after.push(rest);
    return { entry: part.entry, start: part.start, length: most };
  }

  /**
   * Put a part before the gap, as one with the last part if the two were neighbours in one node.
   * @param {Part} part
   */
  #join(part) {
    const last = this.#before.at(-1);
    this.#gap += part.length;
    if (last?.entry === part.entry && last.start + last.length === part.start) last.length += part.length;
    else this.#before.push(part);
  }
}

/**
 * @param {Entry[]} path  from a root to the node
 * @returns {Part[]}
 */
export function partsOf(path) {
  const table = new PartTable();
  for (const entry of path) table.splice(entry);
  return table.parts();
}

/**
 * Return the parts of a node, given those of its parent, which stay as they are.
 * @param {Part[]} parts
 * @param {Entry} entry
 * @returns {Part[]}
 */
export function splicedParts(parts, entry) {
  const { keep = 0, text, tail = Infinity } = entry.node;
  const own = text === "" ? [] : [{ entry, start: 0, length: text.length }];
  return [...stretchOf(parts, 0, keep), ...own, ...stretchOf(parts, tail, Infinity)];
}

/**
 * @param {Part[]} parts
 * @param {number} from
 * @param {number} to
 * @returns {Part[]}
 */
function stretchOf(parts, from, to) {
  const stretch = [];
  let at = 0;
  for (const part of parts) {
    const [first, end] = [Math.max(from - at, 0), Math.min(to - at, part.length)];
    if (end === part.length && first === 0) stretch.push(part);
    else if (first < end) stretch.push({ entry: part.entry, start: part.start + first, length: end - first });
    at += part.length;
    if (at >= to) break;
  }
  return stretch;
}

/**
 * @param {Part[]} parts
 * @returns {string}
 */
export function textOf(parts) {
  return parts.map(({ entry, start, length }) => entry.node.text.slice(start, start + length)).join("");
}

/**
 * @param {Part[]} parts
 * @returns {Piece[]}
 */
export function piecesOf(parts) {
  let from = 0;
  return parts.map(({ entry, start, length }) => {
    const piece = { from, to: from + length, node: entry.node.id, start, by: entry.node.by };
    from += length;
    return piece;
  });
}
