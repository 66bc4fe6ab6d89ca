/** Files of Exoloom: nodes by id, with bookmarks and pruned nodes beside them. */
import { msg } from "../languages.js";
import { isRecord } from "../story/check.js";
import { listOf, objectOf, optionalText, titleOf } from "./file.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Opened} from "./types.js" */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  const from = objectOf(file.tree, msg`The tree`);
  const lens = isRecord(file.lens) ? file.lens : {};
  const starred = idsOf(lens.bookmarks, "bookmarks");
  const pruned = idsOf(lens.prunedNodes, msg`The list of pruned nodes`);
  const nodes = objectOf(from.nodes, msg`The list of nodes`);
  const tree = new SegmentTree();
  for (const id of inOrder(nodes, from.rootNodeId)) {
    const node = objectOf(nodes[id], msg`Node “${id}”`);
    tree.add(id, {
      parent: node.parentId === null || node.parentId === undefined ? null : String(node.parentId),
      text: node.content,
      by: node.authorType === "LLM" ? "model" : node.authorType === "USER" ? "person" : "import",
      made: Date.parse(node.createdAt),
      marks: { star: starred.has(id), pruned: pruned.has(id), seen: true },
    });
  }
  const title = optionalText(from.title, msg`The title`) || titleOf(name);
  return [tree.draft({ title })];
}

/**
 * Return the ids of all nodes, siblings in the order that their parent gives them.
 * @param {Record<string, unknown>} nodes
 * @param {unknown} root
 */
function inOrder(nodes, root) {
  const order = new Set([String(root)].filter((id) => Object.hasOwn(nodes, id)));
  for (const id of order) {
    const node = nodes[id];
    const children = isRecord(node) ? listOf(node.childrenIds, msg`The children of node “${id}”`).map(String) : [];
    for (const child of children) if (Object.hasOwn(nodes, child)) order.add(child);
  }
  for (const id of Object.keys(nodes)) order.add(id);
  return order;
}

/**
 * @param {unknown} list
 * @param {string} where
 */
function idsOf(list, where) {
  return new Set(listOf(list, where).map((each) => String(isRecord(each) ? each.nodeId : each)));
}
