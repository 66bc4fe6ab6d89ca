/** HTML as a tree: parse5 reads it as the standard says that browsers do, whatever is in it. */
import { parse } from "../vendor/html.js";

/** @import {Element} from "./markup.js" */

const DEEPEST = 400; // elements within one another; what is deeper stands in the last of them
const XLINK = /^xlink:/;

/** @param {string} text @returns {Element} holds the outermost element */
export function htmlTree(text) {
  /** @type {Element} */
  const root = { name: "", attributes: new Map(), children: [] };
  /** @type {{from: any, to: Element, depth: number, next: number}[]} */
  const open = [{ from: parse(text), to: root, depth: 0, next: 0 }];
  for (let top = open.at(-1); top; top = open.at(-1)) {
    const node = (top.from.content ?? top.from).childNodes[top.next];
    top.next += 1;
    if (node === undefined) open.pop();
    else if (node.nodeName === "#text") top.to.children.push(node.value);
    else if (node.childNodes) {
      const isTooDeep = top.depth >= DEEPEST;
      const to = isTooDeep ? top.to : elementOf(node);
      if (!isTooDeep) top.to.children.push(to);
      open.push({ from: node, to, depth: top.depth + 1, next: 0 });
    }
  }
  return root;
}

/** @param {any} node @returns {Element} */
function elementOf({ nodeName, attrs }) {
  const attributes = attrs.map((/** @type {{name: string, value: string}} */ { name, value }) => [
    name.replace(XLINK, ""),
    value,
  ]);
  return { name: nodeName.toLowerCase(), attributes: new Map(attributes), children: [] };
}
