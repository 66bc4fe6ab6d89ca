/**
 * A story from a file that has other texts than the kept story of its id. It becomes a story of its own, as `bring_in` of
 * srb/stories/store.py decides: nothing that is closed is ever overwritten.
 */

import { newId } from "../story.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */

/**
 * Give a story a new id if it does not fit to what is kept under its own, and return whether it did not.
 * @param {Story} story from a file, and not opened yet
 * @param {Pick<import("../keep.js").Keeper, "flush" | "list" | "load">} keeper
 */
export async function setApart(story, keeper) {
  await keeper.flush();
  const kept = await keptOf(story.id, keeper);
  if (!kept || ![...story.nodes.values()].some((node) => isOther(node, kept.nodes.get(node.id)))) return false;
  story.id = newId();
  return true;
}

/** Return the kept story of an id; null if there is none, or it cannot be read. @param {string} id @param {Parameters<typeof setApart>[1]} keeper */
async function keptOf(id, keeper) {
  try {
    const lists = await Promise.all([keeper.list(), keeper.list({ binned: true })]);
    return lists.some(({ stories }) => stories.some((each) => each.id === id)) ? await keeper.load(id) : null;
  } catch {
    return null; // the server is away: what does not fit is told of when it is saved
  }
}

/** Whether two nodes of one id are no versions of one text: `_order` in srb/stories/merge.py. @param {Node} node @param {Node} [kept] */
function isOther(node, kept) {
  if (kept === undefined) return false;
  if (node.by !== kept.by || node.parent !== kept.parent) return true;
  const isSamePlace = (node.keep ?? 0) === (kept.keep ?? 0) && node.tail === kept.tail;
  if (node.by === "model") return !isSamePlace || !(node.text.startsWith(kept.text) || kept.text.startsWith(node.text));
  if (kept.open || (isSamePlace && node.text === kept.text)) return false;
  return !(node.open && isBefore(node, kept));
}

/** @param {Node} early @param {Node} late */
function isBefore(early, late) {
  return early.changed !== undefined && late.changed !== undefined && early.changed <= late.changed;
}
