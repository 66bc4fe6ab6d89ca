// A branch's text in the document: blocks of whole lines, which grow at their end. Writing costs what is new; a block with signs of
// emphasis is written anew where they change. Its text nodes have all of the text, so that offsets stay.

import { hangsOn, leadingSpace, visible } from "../../visible.js";
import { hasSigns, nodesOf } from "./emphasis_nodes.js";

/** @typedef {import("./emphasis_nodes.js").TextNode} TextNode */
/** @typedef {import("./emphasis_nodes.js").Removal} Removal */
/** @typedef {{element: HTMLElement, from: number, nodes: TextNode[]}} Block */

const BLOCK = 400; // characters after which the next line begins a new block: a growing block is laid out as a whole
const LONG = 1200; // a block beyond this length, without a line's end, grows less often
const HUGE = 20_000;

export class BranchText {
  /** @param {HTMLElement} root an element that holds nothing else */
  constructor(root) {
    this.root = root;
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {Removal[]} words that the text has not, and that are shown in it */
    this.removed = [];
    this.version = 0; // counts the times that nodes were replaced: ranges of them are gone
    /** White space at the beginning is not shown, so that all branches begin at the same place. */
    this.lead = Number.POSITIVE_INFINITY;
    this.written = 0; // offset up to which the text is in the document
  }

  /** Remove all text. */
  clear() {
    if (this.blocks.length) this.root.replaceChildren();
    this.root.toggleAttribute("data-paragraph", false);
    this.blocks = [];
    this.removed = [];
    this.lead = Number.POSITIVE_INFINITY;
    this.written = 0;
    this.version++;
  }

  /** Show words that were taken away, in their order. @param {string} text the whole text @param {Removal[]} removed */
  showRemoved(text, removed) {
    if (!this.removed.length && !removed.length) return;
    this.removed = removed;
    this.blocks.forEach((block, place) => {
      this._fill(block, text, this.blocks[place + 1]?.from ?? this.written);
    });
  }

  /** Milliseconds that should pass between two writes. */
  get interval() {
    const length = this.written - (this.blocks.at(-1)?.from ?? this.written);
    return length < LONG ? 50 : length < HUGE ? 100 : 500;
  }

  /** Write what is new, by one change of the document; returns whether there is more to write.
   * @param {string} text the whole text: longer than the last one or equal @param {number} [most] characters to show */
  write(text, most = text.length) {
    if (this.lead > text.length) this._begin(text);
    const to = Math.min(this.lead + most, text.length);
    if (this.written >= to || this.lead > text.length) return false;
    const last = this.blocks.at(-1);
    const isFull = last && this.written - last.from >= BLOCK && text[this.written - 1] === "\n";
    const end = last && !isFull ? blockEnd(text, last.from, this.written, to) : this.written;
    if (last && end > this.written) {
      if (hasSigns(text, this.written - 1, end)) this._fill(last, text, end);
      else last.nodes.at(-1)?.node.appendData(visible(text.slice(this.written, end)));
      this.written = end;
    } else {
      this.root.append(this._blocks(text, to));
      this.written = to;
    }
    return this.written < to;
  }

  /** @param {string} text */
  _begin(text) {
    this.lead = leadingSpace(text);
    if (this.lead > text.length) return;
    this.written = this.lead;
    if (text.slice(0, this.lead).includes("\n")) this.root.toggleAttribute("data-paragraph", true);
  }

  /** Make blocks of the text from what is written on. @param {string} text @param {number} to */
  _blocks(text, to) {
    const blocks = document.createDocumentFragment();
    for (let from = this.written; from < to; ) {
      const end = blockEnd(text, from, from, to);
      const element = document.createElement("p");
      element.dir = "auto";
      element.toggleAttribute("data-hangs", from === 0 && hangsOn(text)); // the stylesheet puts the word's first half before it
      const { children, nodes } = nodesOf(text, from, end, this.removed);
      element.append(...children);
      blocks.append(element);
      this.blocks.push({ element, from, nodes });
      from = end;
    }
    return blocks;
  }

  /** Write a block anew, up to `end`. @param {Block} block @param {string} text @param {number} end */
  _fill(block, text, end) {
    const { children, nodes } = nodesOf(text, block.from, end, this.removed);
    block.element.replaceChildren(...children);
    block.nodes = nodes;
    this.version++;
  }

  /** The text nodes, with the offsets in the text at which they begin. */
  get nodes() {
    return this.blocks.flatMap(({ nodes }) => nodes);
  }

  /** Whether the document lacks text that a write would bring. @param {string} text @param {number} most */
  isBehind(text, most) {
    if (this.lead > text.length) return leadingSpace(text) < text.length;
    return this.written < Math.min(this.lead + most, text.length);
  }

  /** The place in the document of an offset in the text: at the end of a node, or where a part begins, at the beginning of the next one.
   * @param {number} offset @param {{isStart?: boolean}} [options] */
  place(offset, { isStart = false } = {}) {
    const at = Math.max(this.lead, Math.min(offset, this.written));
    const isBehind = (/** @type {{from: number}} */ { from }) =>
      from > at || (from === at && at > this.lead && !isStart);
    const next = this.blocks.findIndex(isBehind);
    const nodes = this.blocks.at(next < 0 ? -1 : Math.max(0, next - 1))?.nodes ?? [];
    const after = nodes.findIndex(isBehind);
    const found = nodes.at(after < 0 ? -1 : Math.max(0, after - 1));
    return found ? { node: found.node, offset: at - found.from } : null;
  }

  /** The offset in the text of a place in the document; null for a place elsewhere. @param {Node} node @param {number} offset */
  offsetOf(node, offset) {
    const found = this.nodes.find((each) => each.node === node);
    return found ? found.from + offset : null;
  }

  /** The part of the text that a range of the document covers; empty if it covers none. @param {Range} range */
  offsetsOf(range) {
    const covered = this.nodes.filter(({ node }) => range.intersectsNode(node));
    const [first, last] = [covered[0], covered.at(-1)];
    if (!first || !last) return { from: 0, to: 0 };
    const start = range.startContainer === first.node ? range.startOffset : 0;
    const end = range.endContainer === last.node ? range.endOffset : last.node.length;
    return { from: first.from + start, to: last.from + end };
  }

  /** The document's range of a part of the text, as far as it is written. @param {number} from @param {number} to */
  range(from, to) {
    const [start, end] = [this.place(from, { isStart: true }), this.place(to)];
    if (!start || !end || to <= this.lead || from >= this.written) return null;
    return new StaticRange({
      startContainer: start.node,
      startOffset: start.offset,
      endContainer: end.node,
      endOffset: end.offset,
    });
  }

  /** The offset of the character at a point of the window; null beside the text. @param {number} x @param {number} y */
  offsetAt(x, y) {
    const caret = caretAt(x, y);
    const offset = caret && this.offsetOf(caret.node, caret.offset);
    if (!caret || offset === null) return null;
    const [from, to] = [Math.max(0, caret.offset - 1), Math.min(caret.node.length, caret.offset + 1)];
    for (let at = from; at < to; at++) {
      if (rectsOf(caret.node, at, at + 1).some((rect) => contains(rect, x, y))) return offset - caret.offset + at;
    }
    return null;
  }

  /** Where the last line of a part of the text is on the screen. @param {number} from @param {number} to */
  rect(from, to) {
    return [...(this.liveRange(from, to)?.getClientRects() ?? [])].at(-1) ?? null;
  }

  /** Where all lines of a part of the text are. @param {number} from @param {number} to */
  box(from, to) {
    return this.liveRange(from, to)?.getBoundingClientRect() ?? null;
  }

  /** @param {number} from @param {number} to */
  liveRange(from, to) {
    const [start, end] = [this.place(from + 1), this.place(to)];
    if (!start || !end) return null;
    const range = document.createRange();
    range.setStart(start.node, Math.max(0, start.offset - 1));
    range.setEnd(end.node, end.offset);
    return range;
  }
}

/** Where the block that begins at `from` ends, if it is written from `at` to `to`: after the first line that makes it full.
 * @param {string} text @param {number} from @param {number} at @param {number} to */
function blockEnd(text, from, at, to) {
  const newline = text.indexOf("\n", Math.max(at, from + BLOCK - 1));
  return newline < 0 || newline >= to ? to : newline + 1;
}

/** @param {number} x @param {number} y @returns {{node: Text, offset: number}|null} */
function caretAt(x, y) {
  const page = /** @type {any} */ (document); // the two names are of different browsers
  const found = page.caretPositionFromPoint?.(x, y) ?? page.caretRangeFromPoint?.(x, y);
  const node = found?.offsetNode ?? found?.startContainer;
  return node instanceof Text ? { node, offset: found.offset ?? found.startOffset } : null;
}

/** @param {Text} node @param {number} from @param {number} to */
function rectsOf(node, from, to) {
  const range = document.createRange();
  range.setStart(node, from);
  range.setEnd(node, to);
  return [...range.getClientRects()];
}

/** @param {DOMRect} rect @param {number} x @param {number} y */
function contains(rect, x, y) {
  return x >= rect.left - 1 && x <= rect.right + 1 && y >= rect.top - 2 && y <= rect.bottom + 2;
}
