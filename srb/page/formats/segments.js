/** A story of segments, as most programs keep one, on its way to the splices of the srb-story format. */
import { msg, NUMBER } from "../languages.js";
import { PREFIX } from "../lore/entries.js";
import { StoryError } from "../story/read.js";
import { stretches } from "../story/text.js";
import { newId } from "../story.js";
import { quoted, textOf } from "./file.js";

/** @import {Draft, Facts, Key, Marks, Segment} from "./types.js" */

const LATEST = 8.64e15; // milliseconds that a Date can hold
const MOST_NODES = 100_000; // of a story that the server keeps whole
const LONGEST_NODE = 100_000; // characters; a longer text becomes a chain of nodes, each of which can be saved by itself
const NOBODY = /^(unknown( author)?)?$/i; // as programs write it
const LONGEST_TITLE = 200;
const LONGEST_VALUE = 80_000; // characters of a memory or a note: the server takes 256 kB of each

export class SegmentTree {
  /** @type {Map<Key, Segment>} in the order of the file */
  #segments = new Map();

  get size() {
    return this.#segments.size;
  }

  /**
   * Add a segment; its parent may follow later.
   * @param {Key} key
   * @param {Segment} segment  its text as the file has it
   */
  add(key, segment) {
    if (this.size === MOST_NODES)
      throw new StoryError(msg`The file has more than ${NUMBER.format(MOST_NODES)} nodes, the most of a story.`);
    if (this.#segments.has(key)) throw new StoryError(msg`Two nodes have the same id, ${quoted(key)}.`);
    this.#segments.set(key, { ...segment, text: textOf(segment.text, msg`The text of node ${quoted(key)}`) });
  }

  /**
   * @param {Facts} facts
   * @returns {Draft}
   */
  draft({ title, author = "", current, memory = "", note = { text: "", depth: 3 }, lore }) {
    const { order, orphans } = this.#inOrder();
    checkLength(memory, msg`The memory`);
    checkLength(note.text + (note.frame ?? ""), msg`The author's note`);
    const growth = new Growth(Date.now(), order.length);
    for (const key of order) growth.add(key, /** @type {Segment} */ (this.#segments.get(key)));
    const head = this.#head(current, order);
    const entries = (lore?.entries ?? []).map((entry) => [`${PREFIX}${newId()}`, entry]);
    const json = {
      format: "srb-story",
      version: 1,
      id: newId(),
      title: short(title),
      head: growth.endOf(head),
      changed: growth.now,
      memory,
      note,
      settings: {},
      nodes: growth.nodes,
      runs: {},
      marks: growth.marks,
      ...(NOBODY.test(author) ? {} : { author: short(author) }),
      ...Object.fromEntries(entries),
    };
    const lost =
      orphans === 1
        ? msg`The parent of 1 node is missing in the file, so each became a beginning of its own.`
        : msg`The parent of ${NUMBER.format(orphans)} nodes is missing in the file, so each became a beginning of its own.`;
    const remarks = lore?.remarks ?? [];
    return { json, remarks: orphans > 0 ? [lost, ...remarks] : remarks };
  }

  /** Return the keys, parents before their children, siblings as in the file. */
  #inOrder() {
    /** @type {Map<Key, Key[]>} */
    const children = new Map();
    /** @type {Key[]} */
    const roots = [];
    let orphans = 0;
    for (const [key, { parent }] of this.#segments) {
      if (parent !== null && this.#segments.has(parent)) {
        const siblings = children.get(parent);
        if (siblings === undefined) children.set(parent, [key]);
        else siblings.push(key);
      } else {
        roots.push(key);
        orphans += Number(parent !== null);
      }
    }
    /** @type {Key[]} */
    const order = [];
    const waiting = roots.reverse();
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      order.push(key);
      const below = children.get(key) ?? [];
      for (let index = below.length - 1; index >= 0; index -= 1) waiting.push(/** @type {Key} */ (below[index]));
    }
    if (order.length < this.#segments.size) this.#refuseCircle(new Set(order));
    return { order, orphans };
  }

  /** @param {Set<Key>} reached */
  #refuseCircle(reached) {
    const keys = [...this.#segments.keys()];
    let key = /** @type {Key} */ (keys.find((each) => !reached.has(each)));
    for (const seen = new Set(); !seen.has(key); key = /** @type {Key} */ (this.#segments.get(key)?.parent))
      seen.add(key);
    throw new StoryError(msg`Node ${quoted(key)} is its own ancestor, so there is no text that it could continue.`);
  }

  /**
   * Return the segment that the manuscript shall end with: the file's current one, else the end of the first path.
   * @param {Key | undefined} current
   * @param {Key[]} order
   * @returns {Key | null}
   */
  #head(current, order) {
    if (current !== undefined && this.#segments.has(current)) return current;
    let last = /** @type {Key | null} */ (null);
    for (const key of order) {
      if (last !== null && this.#segments.get(key)?.parent !== last) break;
      last = key;
    }
    return last;
  }
}

/** Nodes of the srb-story format that grow from their parents, each made later than its parent and its elder siblings. */
class Growth {
  /** @type {Record<string, object>} */
  nodes = {};
  /** @type {Record<string, object>} */
  marks = {};
  /** @type {Map<Key | null, {id: string, length: number, made: number, youngest: number}>} youngest: when the last child was made */
  #ends = new Map([[null, { id: "", length: 0, made: 0, youngest: 0 }]]);
  #prefix = newId().slice(0, 12);
  #count = 0;

  /**
   * @param {number} now
   * @param {number} size  of segments that will come
   */
  constructor(now, size) {
    this.now = now;
    this.start = now - size;
  }

  /**
   * @param {Key} key
   * @param {Segment} segment  whose parent came before, or is missing
   */
  add(key, { parent, text, by, made: said, marks }) {
    const above = this.#ends.get(parent) ?? this.endOfRoots;
    const made = Math.max(isTime(said) ? said : this.start + this.#ends.size - 1, above.made + 1, above.youngest + 1);
    above.youngest = made; // siblings stand in the order of their making
    let { id, length } = above;
    for (const [index, part] of (text === "" ? [""] : stretches(text, LONGEST_NODE)).entries()) {
      const node = id === "" ? { text: part, by, made } : { parent: id, keep: length, text: part, by, made };
      id = `${this.#prefix}${(this.#count++).toString(32)}`;
      length += part.length;
      this.nodes[id] = node;
      const kept = index === 0 ? meaningful(marks) : null;
      if (kept !== null) this.marks[id] = { ...kept, changed: this.now };
    }
    this.#ends.set(key, { id, length, made, youngest: 0 });
  }

  get endOfRoots() {
    return /** @type {{id: string, length: number, made: number, youngest: number}} */ (this.#ends.get(null));
  }

  /** @param {Key | null} key */
  endOf(key) {
    const { id, length } = this.#ends.get(key) ?? this.endOfRoots;
    return { node: id, at: length };
  }
}

/** @param {string} title */
function short(title) {
  return stretches(title, LONGEST_TITLE)[0] ?? "";
}

/**
 * @param {string} text
 * @param {string} where
 */
function checkLength(text, where) {
  if (text.length <= LONGEST_VALUE) return;
  throw new StoryError(
    msg`${where} has ${NUMBER.format(text.length)} characters; it may have ${NUMBER.format(LONGEST_VALUE)}.`,
  );
}

/**
 * @param {unknown} time
 * @returns {time is number}
 */
function isTime(time) {
  return Number.isSafeInteger(time) && Number(time) > 0 && Number(time) < LATEST;
}

/**
 * Return the marks that say something, or null.
 * @param {Marks} [marks]
 */
function meaningful(marks) {
  const { name, ...rest } = marks ?? {};
  const entries = Object.entries({ ...rest, name: short(name ?? "") });
  const kept = entries.filter(([, value]) => value !== undefined && value !== false && value !== "");
  return kept.length > 0 ? Object.fromEntries(kept) : null;
}
