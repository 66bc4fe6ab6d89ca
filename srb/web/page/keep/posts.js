/**
 * Posts of a story: a part of it, in bodies that the server takes.
 *
 * @import {Wire} from "../story/types.js"
 */
import { own } from "../story/merge.js";

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
 * Cut a wire into posts of at most `most` bytes each: nodes first, parents before their children. One item may be larger.
 * @param {Wire} wire
 * @param {number} [most]
 * @returns {Required<Wire>[]}
 */
export function postsOf(wire, most = MOST_BYTES) {
  /** @type {Required<Wire>[]} */
  const posts = [];
  let left = 0;
  /**
   * @param {"meta" | "nodes" | "runs" | "marks"} section
   * @param {string} key
   * @param {any} value
   */
  const add = (section, key, value) => {
    const bytes = bytesOf(value) + encoder.encode(key).length + 8;
    if (posts.length === 0 || bytes > left) {
      posts.push({ meta: own(), nodes: own(), runs: own(), marks: own() });
      left = most;
    }
    const post = /** @type {Required<Wire>} */ (posts.at(-1));
    post[section][key] = value;
    left -= bytes;
  };
  for (const id of parentsFirst(wire.nodes ?? {})) add("nodes", id, wire.nodes?.[id]);
  for (const section of /** @type {const} */ (["runs", "marks", "meta"])) {
    for (const [key, value] of Object.entries(wire[section] ?? {})) add(section, key, value);
  }
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
