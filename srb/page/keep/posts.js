/**
 * Posts of a story: a part of it, in bodies that the server takes.
 *
 * @import {BareNode, Wire} from "../story/types.js"
 */
import { absorb, emptyWire } from "../story/merge.js";

/** Bytes of one body; the server takes 1 MB, with some keys of its own around it. */
export const MOST_BYTES = 1_000_000;

const encoder = new TextEncoder();

/** @param {unknown} value */
export const bytesOf = (value) => encoder.encode(JSON.stringify(value)).length;

/** @param {Wire} wire */
export function isEmpty(wire) {
  return [wire.meta, wire.nodes, wire.runs, wire.marks].every((section) => Object.keys(section ?? {}).length === 0);
}

/**
 * Cut a wire into posts of at most `most` bytes each: nodes first, parents before their children. A node, run, value or mark
 * that is larger has a post of its own.
 * @param {Wire} wire
 * @param {number} [most]
 * @returns {Required<Wire>[]}
 */
export function postsOf(wire, most = MOST_BYTES) {
  /** @type {Required<Wire>[]} */
  const posts = [];
  let left = 0;
  /**
   * @param {Wire} item  a wire with one part
   * @param {string} key
   * @param {unknown} value
   */
  const add = (item, key, value) => {
    const bytes = bytesOf(value) + encoder.encode(key).length + 8;
    if (posts.length === 0 || bytes > left) {
      posts.push(emptyWire());
      left = most;
    }
    absorb(/** @type {Required<Wire>} */ (posts.at(-1)), item);
    left -= bytes;
  };
  const { meta = {}, nodes = {}, runs = {}, marks = {} } = wire;
  for (const id of parentsFirst(nodes)) add({ nodes: { [id]: /** @type {BareNode} */ (nodes[id]) } }, id, nodes[id]);
  for (const [id, run] of Object.entries(runs)) add({ runs: { [id]: run } }, id, run);
  for (const [id, values] of Object.entries(marks)) {
    for (const [key, value] of Object.entries(values)) add({ marks: { [id]: { [key]: value } } }, id + key, value);
  }
  for (const [key, value] of Object.entries(meta)) add({ meta: { [key]: value } }, key, value);
  return posts;
}

/**
 * @param {NonNullable<Wire["nodes"]>} nodes
 * @returns {Set<string>} all ids, each after that of its parent
 */
function parentsFirst(nodes) {
  /** @type {Set<string>} */
  const ordered = new Set();
  for (const first of Object.keys(nodes)) {
    const path = [];
    let id = /** @type {string | undefined} */ (first);
    while (id !== undefined && Object.hasOwn(nodes, id) && !ordered.has(id)) {
      path.push(id);
      id = nodes[id]?.parent;
    }
    for (const each of path.reverse()) ordered.add(each);
  }
  return ordered;
}
