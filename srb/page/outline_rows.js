// The rows of the outline: the main line of a story, from its beginning to the head and on, and beside it what was not taken.
//
// As in a book of chess, the main line keeps its depth, however long it gets; only alternatives are indented.

import { msg } from "./languages.js";
import { withoutMarkers } from "./markers.js";

/** @typedef {import("./story.js").Story} Story */
/** @typedef {import("./story/types.js").Node} Node */

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {number} depth
 * @property {number} others   alternatives to the node that follows it on its line
 * @property {boolean} isOpen  whether they are shown
 * @property {boolean} isOnPath
 */

/**
 * Return the rows of a story, from top to bottom.
 * @param {Story} story
 * @param {{path: Set<string>, isOpen: (id: string) => boolean, hidesPruned?: boolean}} options   `path`: nodes from the root to the head
 * @returns {Row[]}
 */
export function rowsOf(story, { path, isOpen, hidesPruned = false }) {
  const shown = (/** @type {string[]} */ ids) =>
    hidesPruned ? ids.filter((id) => path.has(id) || story.mark(id).pruned !== true) : ids;
  /** @type {Row[]} */
  const rows = [];
  const roots = inOrder(story, shown(story.roots()));
  const lines = linesBelow(roots, mainChild(story, roots, path) ?? roots[0] ?? null, 0);
  while (lines.length) {
    const { id, depth } = /** @type {{id: string, depth: number}} */ (lines.pop());
    const children = shown(story.children(id));
    const main = children.find((each) => path.has(each)) ?? mainChild(story, inOrder(story, children), path);
    const others = children.length - (main === null ? 0 : 1);
    const opened = others > 0 && isOpen(id);
    if (!isWithinAct(story, id) || others > 0) rows.push({ id, depth, others, isOpen: opened, isOnPath: path.has(id) });
    if (opened) lines.push(...linesBelow(inOrder(story, children), main, depth));
    else if (main !== null) lines.push({ id: main, depth });
  }
  return rows;
}

/** Whether a node is a part of what its parent began: what is moved has a row of its own, and its words have theirs. @param {Story} story @param {string} id */
function isWithinAct(story, id) {
  const { act, parent } = /** @type {Node} */ (story.nodes.get(id));
  return act !== undefined && story.nodes.get(parent ?? "")?.act === act;
}

/** Sort siblings: rounds as they were begun, and the branches of a round as its cards. @param {Story} story @param {string[]} ids */
export function inOrder(story, ids) {
  if (ids.length < 2) return ids;
  /** @type {Map<string, number>} */
  const begun = new Map();
  const keys = new Map(
    ids.map((id, place) => {
      const { run = id, slot = 0 } = /** @type {Node} */ (story.nodes.get(id));
      if (!begun.has(run)) begun.set(run, place);
      return [id, [/** @type {number} */ (begun.get(run)), slot]];
    }),
  );
  const key = (/** @type {string} */ id) => /** @type {number[]} */ (keys.get(id));
  return [...ids].sort((a, b) => key(a)[0] - key(b)[0] || key(a)[1] - key(b)[1]);
}

/**
 * Return the lines that begin below a node in reverse order: the main one first, since a stack gives the last one first.
 * @param {string[]} children @param {string | null} main @param {number} depth
 */
function linesBelow(children, main, depth) {
  const others = children.filter((id) => id !== main).reverse();
  return [...(main === null ? [] : [{ id: main, depth }]), ...others.map((id) => ({ id, depth: depth + 1 }))];
}

/**
 * Return the child with which the line goes on: the one on the path, else the newest of those that were continued; null where
 * all are branches of rounds of which none was taken.
 * @param {Story} story @param {string[]} children @param {Set<string>} path
 * @returns {string | null}
 */
export function mainChild(story, children, path) {
  const onPath = children.find((id) => path.has(id));
  const continued = onPath ?? children.findLast((id) => story.children(id).length > 0);
  return continued ?? children.findLast((id) => story.nodes.get(id)?.run === undefined) ?? null;
}

/**
 * Return the nodes whose text, name or note has the words, in the order of making; at most `most`. With `hidesPruned` what is
 * pruned is left out with all that follows it, but for the path.
 * @param {Story} story @param {string} words @param {{path?: Set<string>, hidesPruned?: boolean, most?: number}} [options]
 */
export function found(story, words, { path = new Set(), hidesPruned = false, most = 500 } = {}) {
  const wanted = words.toLocaleLowerCase();
  const hidden = hidesPruned ? hiddenBranches(story, path) : new Set();
  const ids = [];
  for (const { id, text } of story.nodes.values()) {
    if (hidden.has(id)) continue;
    const { name = "", note = "" } = story.mark(id);
    if (!`${text}\n${name}\n${note}`.toLocaleLowerCase().includes(wanted)) continue;
    ids.push(id);
    if (ids.length === most) break;
  }
  return ids;
}

/** Return the pruned nodes and all below them, without the path. @param {Story} story @param {Set<string>} path */
function hiddenBranches(story, path) {
  /** @type {Set<string>} */
  const hidden = new Set();
  const left = [...story.nodes.keys()].filter((id) => story.mark(id).pruned === true);
  while (left.length) {
    const id = /** @type {string} */ (left.pop());
    if (path.has(id) || hidden.has(id)) continue;
    hidden.add(id);
    left.push(...story.children(id));
  }
  return hidden;
}

const LONGEST_MARKER = 250;
const WITHOUT = 60; // characters of what was taken out
const HEADING = /^ {0,3}#{1,6}[ \t]+/gm;
const EMPHASIS = /(\*{1,3})(\S(?:[^*\n]*\S)?)\1/g;

/** The beginning of a text in one line, without signs. @param {string} text @param {number} length */
export function lineOf(text, length) {
  const isCut = text.length > length;
  const shown = withoutMarkers(text.slice(0, length + LONGEST_MARKER))
    .slice(0, length)
    .trim();
  const words = isCut ? shown.replace(/\s+\S*$/, "") : shown; // a cut word says nothing
  const line = words
    .replace(HEADING, "")
    .replace(EMPHASIS, "$2")
    .replace(/\s*\n\s*/g, " ↵ ");
  return line && isCut ? `${line} …` : line;
}

/** The words that stand for a node in one line. @param {Story} story @param {Node} node @param {number} [length] */
export function labelOf(story, node, length = 160) {
  const line = lineOf(node.text, length);
  if (line) return line;
  if (node.joined !== undefined) return msg`(two texts joined)`;
  if (node.act !== undefined) return msg`(a chapter moved)`;
  if (node.text.includes("\n")) return "↵";
  if (node.end?.reason === "eos") return msg`(the model would end here)`;
  const { parent, keep, tail, open } = node;
  const isBegun = parent === undefined || (tail === undefined && open);
  const taken = isBegun ? "" : story.text(parent).slice(keep, tail);
  if (taken === "") return msg`(nothing yet)`;
  const without = lineOf(taken, WITHOUT);
  return without ? msg`(without “${without}”)` : msg`(blanks taken out)`;
}

/** Whether nobody has looked at a branch. @param {Story} story @param {Node} node @param {Set<string>} path */
export function isUnread(story, node, path) {
  return (
    node.by === "model" &&
    !node.open &&
    node.text !== "" &&
    node.of === undefined &&
    !path.has(node.id) &&
    story.mark(node.id).seen !== true
  );
}
