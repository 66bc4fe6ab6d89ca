/**
 * The wire form of a story's parts: nodes and runs under their ids, without them.
 *
 * @import {BareNode, BareRun, Node, Run, Wire} from "./types.js"
 */
import { isRecord, isStamped } from "./check.js";
import { own } from "./merge.js";

/**
 * @template {Node | undefined} T
 * @param {T} node
 * @returns {BareNode | Extract<T, undefined>}
 */
export function bareNode(node) {
  if (node === undefined) return /** @type {Extract<T, undefined>} */ (undefined);
  const { id: _id, ...rest } = node;
  return rest;
}

/**
 * @param {string} id
 * @param {BareNode} node
 * @returns {Node}
 */
export const fullNode = (id, node) => ({ ...node, made: node.made ?? 0, id });

/**
 * @template {Run | undefined} T
 * @param {T} run
 * @returns {Partial<BareRun> | Extract<T, undefined>} without a node, if it began with an empty text
 */
export function bareRun(run) {
  if (run === undefined) return /** @type {Extract<T, undefined>} */ (undefined);
  const { id: _id, node, ...rest } = run;
  return node === "" ? rest : { node, ...rest };
}

/**
 * @param {string} id
 * @param {Partial<BareRun> & {id?: string}} run  of which an older form calls its request `id`
 * @returns {Run}
 */
export function fullRun(id, run) {
  const empty = { node: "", at: 0, made: 0, model: "", request_id: run.id ?? "", seeds: [], request: {} };
  return { ...empty, ...run, id };
}

/**
 * @param {{nodes: Map<string, Node>}} story
 * @param {string[]} ids
 * @returns {Wire} these nodes and their parents, as they are now
 */
export function withParents(story, ids) {
  const nodes = own();
  for (const id of ids) {
    for (const each of [id, story.nodes.get(id)?.parent ?? id]) {
      const node = story.nodes.get(each);
      if (node !== undefined) nodes[each] = bareNode(node);
    }
  }
  return { nodes };
}

/**
 * @template T
 * @param {Iterable<string>} keys
 * @param {(key: string) => T | undefined} lookUp
 * @returns {Record<string, T>} the values that are there
 */
export function pick(keys, lookUp) {
  const picked = own();
  for (const key of keys) {
    const value = lookUp(key);
    if (value !== undefined) picked[key] = value;
  }
  return /** @type {Record<string, T>} */ (picked);
}

/**
 * @param {unknown} record  of which nobody knows yet whether it is one
 * @returns {[string, unknown][]}
 */
export const entriesOf = (record) =>
  isRecord(record) ? Object.entries(record).filter(([key]) => key !== "__proto__") : [];

/**
 * @template K, V
 * @param {Map<K, V>} map
 * @param {K} key
 * @param {() => V} make
 * @returns {V}
 */
export function getOrSet(map, key, make) {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

/**
 * Return a server's object of all settings as one entry each.
 * @param {[string, unknown]} entry
 * @returns {[string, unknown][]}
 */
export function settingsApart([key, stamped]) {
  if (key !== "settings" || !isStamped(stamped) || !isRecord(stamped.value)) return [[key, stamped]];
  const { value, changed } = stamped;
  return entriesOf(value).map(([name, setting]) => [`settings.${name}`, { value: setting, changed }]);
}
