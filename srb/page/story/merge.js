/**
 * The rules by which two copies of a story become one. For each node, run, mark and meta key there is one total order of its
 * versions, and the greater version wins; so merging commutes, associates and is idempotent.
 *
 * @import {BareNode, BareRun, Stamped, Wire} from "./types.js"
 */

/**
 * Return the canonical form of RFC 8785 (JSON Canonicalization Scheme), as the server's srb/stories/canonical.py does: keys in
 * the order of their UTF-16 units. An object would put keys that look like integers first, so none is built.
 * @param {unknown} value
 * @returns {string} "" for undefined
 */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map((part) => canonical(part) || "null").join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "";
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${canonical(part)}`).join(",")}}`;
}

/**
 * @param {unknown} a
 * @param {unknown} b
 * @returns {number} below 0 if `a` is smaller
 */
function compareCanonical(a, b) {
  const [left, right] = [canonical(a), canonical(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/**
 * Compare two versions of one node. A model's text only grows: the longer text is the later one, also where two tabs followed
 * a branch and one of them saw less of it. A person's open node is rewritten by one tab alone, until it is closed for good.
 * @param {BareNode} a
 * @param {BareNode} b
 * @returns {number} above 0 if `a` is the later version
 */
export function compareNodes(a, b) {
  if (a.by !== b.by) return a.by < b.by ? -1 : 1;
  const closed = Number(!a.open) - Number(!b.open);
  const length = a.text.length - b.text.length;
  const order = a.by === "model" ? length || closed : closed || (a.changed ?? 0) - (b.changed ?? 0);
  return order || compareCanonical(a, b);
}

/**
 * @template {BareNode} T
 * @param {T} a
 * @param {T} b
 * @returns {T} the later version of one node
 */
export const laterNode = (a, b) => (compareNodes(a, b) >= 0 ? a : b);

/**
 * @template {Partial<BareRun>} T
 * @param {T} a
 * @param {T} b
 * @returns {T} the version of a run that both copies settle on
 */
export const laterRun = (a, b) => (((a.made ?? 0) - (b.made ?? 0) || compareCanonical(a, b)) >= 0 ? a : b);

/**
 * @param {Stamped} a
 * @param {Stamped} b
 * @returns {Stamped} the value that was written last
 */
export const laterStamped = (a, b) => ((a.changed - b.changed || compareCanonical(a.value, b.value)) >= 0 ? a : b);

/**
 * Return the union of two wires, neither of which changes.
 * @param {Wire} a
 * @param {Wire} b
 * @returns {Required<Wire>}
 */
export function unionOf(a, b) {
  const union = { meta: own(), nodes: own(), runs: own(), marks: own() };
  absorb(union, a);
  absorb(union, b);
  return union;
}

/**
 * Add a wire to another.
 * @param {Required<Wire>} wire  which becomes the union
 * @param {Wire} more
 */
export function absorb(wire, more) {
  take(wire.meta, more.meta, laterStamped);
  take(wire.nodes, more.nodes, laterNode);
  take(wire.runs, more.runs, laterRun);
  for (const [id, values] of Object.entries(more.marks ?? {})) {
    wire.marks[id] ??= own();
    take(wire.marks[id], values, laterStamped);
  }
}

/**
 * @template T
 * @param {Record<string, T>} record
 * @param {Record<string, T> | undefined} more
 * @param {(a: T, b: T) => T} later
 */
function take(record, more, later) {
  for (const [key, value] of Object.entries(more ?? {})) {
    const before = record[key];
    record[key] = before === undefined ? value : later(before, value);
  }
}

/**
 * Return a copy without a prototype, in which every key is a key.
 * @template T
 * @param {Record<string, T>} [record]
 * @returns {Record<string, T>}
 */
export function own(record) {
  return Object.assign(Object.create(null), record);
}

/** @returns {Required<Wire>} */
export const emptyWire = () => unionOf({}, {});
