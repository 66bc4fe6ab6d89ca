/**
 * A person's writing. Words at the end of the text extend one open node in place; an edit elsewhere is a splice of its own. An
 * open node belongs to the copy of the story that made it: what another tab has open is copied instead, never built upon.
 *
 * @import {Node, Place, Stretch} from "./types.js"
 * @import {Tree} from "./tree.js"
 */
import { isCount, isRecord } from "./check.js";
import { isHigh, isLow, newId, stretches, whole } from "./text.js";

/** A longer open node is closed, since an open one is saved whole with each change. */
const LONGEST_OPEN = 4096;
/** The most that one node holds: a book that is pasted becomes a chain of nodes. */
export const LONGEST_NODE = 100_000;

export class Pen {
  /** @type {Set<string>} the open nodes that were made here */
  #mine = new Set();

  /**
   * @param {Tree} tree
   * @param {(node: Node) => void} save  puts a node, or a later version of one, into the tree
   * @param {() => number} now
   */
  constructor(tree, save, now) {
    this.tree = tree;
    this.save = save;
    this.now = now;
  }

  /**
   * Replace a stretch of the text at `head` and return the place of the new text.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {string} insert
   * @returns {Place}
   */
  edit(head, from, to, insert) {
    if (from < 0 || from > to || to > head.at)
      throw new RangeError(`no stretch ${from} to ${to} in a text of ${head.at}`);
    insert = whole(insert);
    if (from === to && insert === "") return head;
    if (head.node !== "") {
      if (this.#splits(head, from))
        [from, insert] = [from - 1, String.fromCharCode(this.#unit(head, from - 1)) + insert];
      if (this.#splits(head, to)) [to, insert] = [to + 1, insert + String.fromCharCode(this.#unit(head, to))];
      insert = whole(insert);
    }
    return this.#extend(head, from, to, insert) ?? this.#splice(head, from, to, insert);
  }

  /**
   * Put stretches that others have written in the place of a part of the text at `head`. A node for each keeps its author.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {Stretch[]} grafted
   * @returns {Place}
   */
  graft(head, from, to, grafted) {
    let [place, start, end] = [head, from, to];
    for (const { text, ...fields } of grafted) {
      place = this.#splice(place, start, end, text, fields);
      start = end = start + text.length;
    }
    return grafted.length > 0 ? place : this.edit(head, from, to, "");
  }

  /**
   * Note that the text at `head` is what another text and its own past were joined to; return the place that says so.
   * @param {Place} head
   * @param {Place} joined
   * @param {string} act
   * @returns {Place}
   */
  join(head, joined, act) {
    const { node: parent, at: keep } = this.settle(head);
    return { node: this.#add({ ...(parent === "" ? {} : { parent, keep }), text: "", joined, act }), at: keep };
  }

  /**
   * End an open node for good.
   * @param {string} id
   */
  close(id) {
    if (!this.#mine.delete(id)) return;
    this.save(closed(this.tree.entry(id).node));
  }

  /** End all open nodes. */
  closeAll() {
    for (const id of [...this.#mine]) this.close(id);
  }

  /** @param {string} id  a node of which another copy of the story sent a later version */
  disown(id) {
    this.#mine.delete(id);
  }

  /**
   * Return a place with the same text on which others can build: the own open node is closed, that of another tab copied.
   * @param {Place} place
   * @returns {Place}
   */
  settle(place) {
    this.close(place.node);
    const node = this.tree.nodes.get(place.node);
    if (node === undefined || !node.open || node.by === "model") return place;
    return { node: this.#add({ ...closed(node), of: origin(node) }), at: place.at };
  }

  /**
   * Return the place of a text as it was before another tab rewrote its open node.
   * @param {string} id
   * @param {string} text  the whole
   * @returns {Place}
   */
  asItWas(id, text) {
    const { tail, ...node } = closed(this.tree.entry(id).node);
    const { parent = "", keep = 0 } = node;
    const behind = tail === undefined ? 0 : this.tree.entry(parent).length - tail;
    const hasTail = tail !== undefined && keep + behind <= text.length;
    const own = text.slice(keep, hasTail ? text.length - behind : undefined);
    return { node: this.#add({ ...node, ...(hasTail ? { tail } : {}), text: own, of: origin(node) }), at: text.length };
  }

  /**
   * Rewrite the open node at the tip, if the edit touches the words in it.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {string} insert
   * @returns {Place | null}
   */
  #extend(head, from, to, insert) {
    if (!this.#mine.has(head.node)) return null;
    const { node, length, children } = this.tree.entry(head.node);
    const { keep = 0, text, tail, changed = 0 } = node;
    const end = keep + text.length;
    if (children.length > 0 || head.at !== length || from > end || to < keep) return null;
    const before = Math.min(keep, from);
    const written = text.slice(0, Math.max(0, from - keep)) + insert + text.slice(Math.max(0, to - keep));
    if (written.length > LONGEST_OPEN) return null;
    this.save({
      ...node,
      ...(node.parent === undefined ? {} : { keep: before }),
      ...(tail === undefined ? {} : { tail: tail + Math.max(0, to - end) }),
      text: written,
      changed: Math.max(this.now(), changed + 1),
    });
    return { node: node.id, at: head.at + insert.length - (to - from) };
  }

  /**
   * Make a new node for an edit.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {string} insert
   * @param {Omit<Stretch, "text">} [fields]  of text that the person has not typed
   * @returns {Place}
   */
  #splice(head, from, to, insert, fields) {
    const at = head.at + insert.length - (to - from);
    let parent = this.settle(head).node;
    const [first = "", ...others] = stretches(insert, LONGEST_NODE);
    const after = to < head.at;
    if (after && this.#mayGrow(parent, head.at)) parent = this.#add({ parent, keep: head.at, text: "" });
    const open = fields === undefined && insert.length <= LONGEST_OPEN;
    const place = parent === "" ? {} : { parent, keep: from, ...(after ? { tail: to } : {}) };
    let id = this.#add({ text: first, ...place, ...fields }, open);
    let keep = from + first.length;
    for (const text of others) {
      id = this.#add({ parent: id, keep, text, ...(after ? { tail: keep } : {}), ...fields });
      keep += text.length;
    }
    return { node: id, at };
  }

  /**
   * Say whether a node's text goes on beyond a place, now or later: a model's node may be extended even after it ended.
   * @param {string} id
   * @param {number} at
   */
  #mayGrow(id, at) {
    const { node, length } = this.tree.entry(id);
    return at < length || node.by === "model" || node.open === true;
  }

  /**
   * @param {Omit<Partial<Node>, "id" | "made"> & {text: string}} fields  by the person, unless they say by whom
   * @param {boolean} [open]
   * @returns {string}
   */
  #add(fields, open = false) {
    const id = newId();
    if (open) this.#mine.add(id);
    this.save({ by: "person", ...fields, id, made: this.now(), ...(open ? { open } : {}) });
    return id;
  }

  /**
   * @param {Place} head
   * @param {number} at
   * @returns {boolean} whether an offset lies between the halves of one character
   */
  #splits(head, at) {
    return at > 0 && at < head.at && isLow(this.#unit(head, at)) && isHigh(this.#unit(head, at - 1));
  }

  /**
   * @param {Place} head
   * @param {number} at
   */
  #unit(head, at) {
    return this.tree.locate(this.tree.entry(head.node), at).unit;
  }
}

/**
 * Return what a node's text is a copy of, which may be itself. Copies of copies name the first.
 * @param {Pick<Node, "id" | "of">} node
 * @returns {{node: string, at: number}}
 */
export function origin({ id, of }) {
  return isRecord(of) && typeof of.node === "string" && isCount(of.at) ? of : { node: id, at: 0 };
}

/**
 * @param {Node} node
 * @returns {Node} the same text, which no one rewrites any more
 */
function closed(node) {
  const { open: _open, changed: _changed, ...rest } = node;
  return rest;
}
