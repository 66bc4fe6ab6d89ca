/**
 * The rules by which two copies of a story become one. For each node, run, mark and meta key there is one total order of its
 * versions, and the greater version wins; so merging commutes, associates and is idempotent.
 *
 * @import {BareNode, BareRun, Stamped, Wire} from "./types.js"
 */

/**
 * Return a text of a value that is the same for equal values, whatever the order of their keys.
 * @param {unknown} value
 * @returns {string}
 */
export function canonical(value) {
  return (
    JSON.stringify(value, (_key, part) =>
      part !== null && typeof part === "object" && !Array.isArray(part)
        ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
        : part,
    ) ?? ""
  );
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
  const marks = own(a.marks);
  for (const [id, values] of Object.entries(b.marks ?? {})) marks[id] = union(marks[id], values, laterStamped);
  return {
    meta: union(a.meta, b.meta, laterStamped),
    nodes: union(a.nodes, b.nodes, laterNode),
    runs: union(a.runs, b.runs, laterRun),
    marks,
  };
}

/**
 * @template T
 * @param {Record<string, T> | undefined} a
 * @param {Record<string, T> | undefined} b
 * @param {(a: T, b: T) => T} later
 * @returns {Record<string, T>}
 */
function union(a, b, later) {
  const both = own(a);
  for (const [key, value] of Object.entries(b ?? {})) {
    const before = both[key];
    both[key] = before === undefined ? value : later(before, value);
  }
  return both;
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
