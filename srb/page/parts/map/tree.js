// What the map shows of a story: which nodes, in which order, with which words.

import { chaptersOf } from "../../formats/chapters.js";
import { inOrder, isUnread, labelOf, mainChild } from "../../outline_rows.js";
import { WRITERS } from "../writers.js";
import { layOut } from "./layout.js";

/** @typedef {import("../../story.js").Story} Story */
/** @typedef {import("../../story/types.js").Node} Node */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Spot} Spot */
/** @typedef {{kind: "path" | "person" | "read" | "unread", star: boolean, name: string, isPerson: boolean, hue: number}} Look   `hue`: its voice's; 0 for none */

export const LINE = 20; // map units: the height of a line of text
export const [PAD, MOST_LINES] = [8, 5];
const PER_LINE = 26; // characters, fewer than most lines have
export const WORDS = 220; // characters of a node that are shown

export class StoryTree {
  /** @param {Story} story */
  constructor(story) {
    this.story = story;
    /** Which child of a node goes on straight: as it was first, so that no branch leaves its place while the map is open. @type {Map<string, string>} */
    this.straight = new Map();
    this.root = ""; // what the map begins with; "": all of the story
    this.hidesPruned = true;
    /** @type {Set<string>} nodes from the beginning to the head */
    this.path = new Set();
    /** How many nodes stand behind each one that is collapsed. @type {Map<string, number>} */
    this.hidden = new Map();
    /** As they were drawn last, until something is said of the story. @type {Map<string, Look>} */
    this.looks = new Map();
  }

  /** Let lines go on straight as the text does now. @param {string} head */
  straighten(head) {
    this.straight.clear();
    this.follow(head);
  }

  /** @param {string} head */
  follow(head) {
    this.path = new Set(this.story.path(head));
    this.looks.clear();
  }

  /** @returns {Layout} */
  layOut() {
    const { story } = this;
    if (!story.nodes.has(this.root)) this.root = "";
    this.hidden.clear();
    return layOut({
      roots: this.root ? [this.root] : this.below(""),
      below: (id) => (this.isCollapsed(id) ? [] : this.below(id)),
      main: (id, children) => this.main(id, children),
      height: (id) => heightOf(story, id),
    });
  }

  /** What goes on from a node, in the order of the cards. @param {string} id */
  below(id) {
    const { story, path } = this;
    const children = story.children(id);
    const shown = this.hidesPruned
      ? children.filter((each) => path.has(each) || story.mark(each).pruned !== true)
      : children;
    return inOrder(story, shown).map((each) => lastOf(story, each));
  }

  /** @param {string} id @param {string[]} children */
  main(id, children) {
    const known = this.straight.get(id);
    if (known !== undefined && children.includes(known)) return known;
    const main = mainChild(this.story, children, this.path);
    if (main !== null) this.straight.set(id, main);
    return main;
  }

  /** Whether what goes on from a node is not shown; counts it then. @param {string} id */
  isCollapsed(id) {
    const { story } = this;
    if (story.mark(id).folded !== true) return false;
    let count = 0;
    const open = this.below(id);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      count += 1;
      open.push(...this.below(next));
    }
    if (count > 0) this.hidden.set(id, count);
    return count > 0;
  }

  /** @param {string} id @returns {Look} */
  lookOf(id) {
    const known = this.looks.get(id);
    if (known) return known;
    const { story, path } = this;
    const node = /** @type {Node} */ (story.nodes.get(id));
    const { star = false, name = "" } = story.mark(id);
    const isPerson = node.by !== "model";
    const kind = path.has(id) ? "path" : isPerson ? "person" : isUnread(story, node, path) ? "unread" : "read";
    const writer = WRITERS.of(story, node);
    const hue = writer ? WRITERS.hueOf(story, writer) : 0;
    const look = { kind: /** @type {Look["kind"]} */ (kind), star, name, isPerson, hue };
    this.looks.set(id, look);
    return look;
  }

  /** The words of a node, or all of the act that it is the last one of. @param {string} id @param {number} [length] */
  wordsOf(id, length = WORDS) {
    const { story } = this;
    let node = /** @type {Node} */ (story.nodes.get(id));
    let { text } = node;
    for (let above = story.nodes.get(node.parent ?? ""); node.act && above?.act === node.act; ) {
      text = above.text + text;
      node = above;
      above = story.nodes.get(above.parent ?? "");
    }
    return labelOf(story, { ...node, text }, length);
  }

  /** The chapters of the text, each with the node in which it begins. @returns {{name: string, id: string}[]} */
  chapters() {
    const { story } = this;
    const { node, at } = story.head;
    const pieces = story.pieces(node, at);
    return chaptersOf(story).chapters.flatMap(({ name, at: begin }) => {
      const id = pieces.find(({ from, to }) => from <= begin && begin < to)?.node;
      return name && id ? [{ name, id }] : [];
    });
  }
}

/** The last node of an act that begins with a node: nobody chooses among its parts. @param {Story} story @param {string} id */
function lastOf(story, id) {
  const { act } = /** @type {Node} */ (story.nodes.get(id));
  let last = id;
  for (let further = act ? story.children(id) : []; further.length === 1; further = story.children(last)) {
    if (story.nodes.get(further[0])?.act !== act) break;
    last = further[0];
  }
  return last;
}

/** A branch that is being written has the room of a long one, so that nothing moves while it grows. @param {Story} story @param {string} id */
function heightOf(story, id) {
  const { open, text } = /** @type {Node} */ (story.nodes.get(id));
  const lines = open ? MOST_LINES : Math.ceil(Math.min(text.length, WORDS) / PER_LINE);
  const name = story.mark(id).name ? 1 : 0;
  return 2 * PAD + LINE * Math.max(1, Math.min(MOST_LINES, lines + name));
}
