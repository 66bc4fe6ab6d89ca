// Nodes of a text in which emphasis is shown: its signs are hidden, and its words are italic or bold, as in the manuscript. All nodes are
// made of text, none of markup.

import { BITS, readLine, stylesOf } from "../../markdown.js";
import { visible } from "../../visible.js";

/** @typedef {{node: Text, from: number}} TextNode   `from`: the offset in the text at which it begins */
/** @typedef {{at: number, text: string}} Removal   words that stood at an offset */
/** @typedef {{from: number, to: number, look: number}} Run   `look`: bits of emphasis, or `HIDDEN` */

const SIGN = /[*_]/u;
const HIDDEN = -1; // the look of a sign

/** Whether a part of a text may change how its line is read. @param {string} text @param {number} from @param {number} to */
export const hasSigns = (text, from, to) => SIGN.test(text.slice(Math.max(0, from), to));

/**
 * Return the nodes of a part of a text that has whole lines; the last one is a text node that can grow.
 * @param {string} text @param {number} from @param {number} to @param {Removal[]} removed words that are shown beside the text's own
 */
export function nodesOf(text, from, to, removed) {
  /** @type {Node[]} */
  const children = [];
  /** @type {TextNode[]} */
  const nodes = [];
  const put = (/** @type {number} */ at, /** @type {number} */ end, /** @type {number} */ look) => {
    const node = document.createTextNode(visible(text.slice(at, end)));
    nodes.push({ node, from: at });
    children.push(withLook(node, look));
  };
  const here = removed.filter(({ at }) => at >= from && (at < to || at === text.length));
  let look = 0;
  for (const run of runsOf(text, from, to)) {
    let at = run.from;
    look = run.look;
    while (here[0] && here[0].at < run.to) {
      const { at: place, text: words } = /** @type {Removal} */ (here.shift());
      if (place > at) put(at, place, look);
      children.push(deleted(words));
      at = place;
    }
    if (at < run.to) put(at, run.to, look);
  }
  children.push(...here.map(({ text: words }) => deleted(words)));
  if (look !== 0 || here.length) put(to, to, 0);
  return { children, nodes };
}

/** The runs of a part of a text, each with one look. @param {string} text @param {number} from @param {number} to @returns {Run[]} */
function runsOf(text, from, to) {
  if (!hasSigns(text, from, to)) return [{ from, to, look: 0 }];
  /** @type {Run[]} */
  const runs = [];
  for (let start = from; start < to; ) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? to : Math.min(newline, to);
    looksOf(text.slice(start, end)).forEach((look, at) => {
      add(runs, start + at, look);
    });
    if (end < to) add(runs, end, 0);
    start = end + 1;
  }
  return runs;
}

/** @param {Run[]} runs @param {number} at @param {number} look */
function add(runs, at, look) {
  const last = runs.at(-1);
  if (last?.look === look) last.to = at + 1;
  else runs.push({ from: at, to: at + 1, look });
}

/** The look of each unit of a line. @param {string} text */
function looksOf(text) {
  const line = readLine(text);
  const looks = Int8Array.from(stylesOf(text, line));
  for (const { from, to } of line.signs) if (from >= line.from && to <= line.to) looks.fill(HIDDEN, from, to);
  return looks;
}

/** @param {Text} node @param {number} look */
function withLook(node, look) {
  if (look === HIDDEN) return wrapped("span", node, "sign");
  const bold = look > 0 && look & BITS.strong ? wrapped("strong", node) : node;
  return look > 0 && look & BITS.em ? wrapped("em", bold) : bold;
}

/** @param {string} words */
const deleted = (words) => wrapped("del", document.createTextNode(visible(words)));

/** @param {"span" | "em" | "strong" | "del"} name @param {Node} node @param {string} [className] */
function wrapped(name, node, className = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(node);
  return element;
}
