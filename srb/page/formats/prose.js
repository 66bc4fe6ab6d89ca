/**
 * Prose of another program on its way to a story: paragraphs of runs become Markdown, since the page shows emphasis, headings and
 * breaks by its signs. A new node begins at each chapter.
 */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { whole } from "../story/text.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft} from "./types.js" */

const CHAPTER = 2; // the deepest heading that begins one
const BREAK = /^(?:[*＊⁂#~•·◦–—_=-]\s*){1,7}$/; // a line of signs alone is a break between scenes
const MOST = 32 * 2 ** 20; // characters of prose in one file
/** Marks of a comment's first and last word on their way through the prose: characters that no text has, around the comment's number. */
const MARK = /[\ufdd0\ufdd1](\d+)\ufdd2/g;
const SIGNS = /[\ufdd0-\ufdd2]/g;
const EDGES = /^((?:\s|[\ufdd0\ufdd1]\d+\ufdd2)*)(.*?)((?:\s|[\ufdd0\ufdd1]\d+\ufdd2)*)$/su;

/** @typedef {{number: number, from: number, to: number}} Marked  words of the text that a comment is on */

/** @param {string} text */
const unmarked = (text) => text.replace(MARK, "");

export class Prose {
  /** @type {{text: string, italic: boolean, bold: boolean}[]} of the paragraph that is open */
  #runs = [];
  /** @type {{level: number, text: string}[]} */
  #paragraphs = [];
  #length = 0;

  /** Add words to the open paragraph. @param {string} text @param {{italic?: boolean, bold?: boolean}} [style] */
  add(text, { italic = false, bold = false } = {}) {
    this.#add(text.replace(SIGNS, ""), { italic, bold });
  }

  /** Say that words of a comment begin here, or end. @param {"begin" | "end"} what @param {number} number  of the comment */
  mark(what, number) {
    this.#add(
      `${what === "begin" ? "\ufdd0" : "\ufdd1"}${number}\ufdd2`,
      this.#runs.at(-1) ?? { italic: false, bold: false },
    );
  }

  /** @param {string} text @param {{italic: boolean, bold: boolean}} style */
  #add(text, { italic, bold }) {
    if (text === "") return;
    this.#length += text.length;
    if (this.#length > MOST)
      throw new StoryError(msg`The file has more than ${MOST / 2 ** 20} million characters of text.`);
    const last = this.#runs.at(-1);
    if (last && last.italic === italic && last.bold === bold) last.text += text;
    else this.#runs.push({ text, italic, bold });
  }

  /** Whether the open paragraph has words. */
  get isBegun() {
    return this.#runs.some(({ text }) => unmarked(text).trim() !== "");
  }

  /** End the open paragraph. @param {number} [level]  of a heading, from 1 on */
  end(level = 0) {
    const { isBegun } = this;
    const runs = this.#runs;
    this.#runs = [];
    if (!isBegun) return this.#keepMarks(runs);
    const plain = runs.map(({ text }) => unmarked(text)).join("");
    if (level > 0) {
      const words = runs.map((run) => marked({ ...run, bold: false })).join("");
      this.#paragraphs.push({ level, text: `${"#".repeat(Math.min(level, 6))} ${words.replace(/\s+/g, " ").trim()}` });
    } else if (BREAK.test(plain.trim())) {
      this.break();
      this.#keepMarks(runs);
    } else
      this.#paragraphs.push({
        level,
        text: runs
          .map(marked)
          .join("")
          .replace(/[ \t]*\n[ \t]*/g, "\n")
          .trim(),
      });
  }

  /** Marks of an empty paragraph belong to the next one. @param {{text: string, italic: boolean, bold: boolean}[]} runs */
  #keepMarks(runs) {
    for (const { text } of runs)
      for (const [mark] of text.matchAll(MARK)) this.#add(mark, { italic: false, bold: false });
  }

  /** Add a break between scenes; none stands at the beginning, nor twice. */
  break() {
    const last = this.#paragraphs.at(-1);
    if (last && last.text !== "***") this.#paragraphs.push({ level: 0, text: "***" });
  }

  /** Take the first heading, or nothing, as a title that stands elsewhere already. @param {string} title */
  withoutTitle(title) {
    const [first] = this.#paragraphs;
    if (title !== "" && first && unmarked(first.text).replace(/^#+ /, "") === title.trim()) this.#paragraphs.shift();
  }

  /** @param {Omit<import("./types.js").Facts, "current">} facts @param {string[]} [remarks] @returns {Draft & {marked: Marked[]}} */
  draft(facts, remarks = []) {
    this.end();
    const tree = new SegmentTree();
    const marks = new Marks();
    /** @type {string[]} */
    let chapter = [];
    const close = () => {
      if (chapter.length === 0) return;
      const key = tree.size;
      tree.add(key, {
        parent: key === 0 ? null : key - 1,
        text: marks.takenFrom((key === 0 ? "" : "\n\n") + whole(chapter.join("\n\n"))),
        by: "person",
      });
      chapter = [];
    };
    for (const { level, text } of this.#paragraphs) {
      if (level > 0 && level <= CHAPTER) close();
      chapter.push(text);
    }
    close();
    if (tree.size === 0) throw new StoryError(msg`The file holds no text.`);
    const draft = tree.draft({ ...facts, current: tree.size - 1 });
    return { ...draft, remarks: [...draft.remarks, ...remarks], marked: marks.found };
  }
}

/** The marks of comments in the text, which they are taken out of. */
class Marks {
  #length = 0;
  /** @type {Map<number, Marked>} */
  #known = new Map();

  /** @param {string} text  the next part */
  takenFrom(text) {
    let removed = 0;
    for (const { 0: mark, 1: number = "", index } of text.matchAll(MARK)) {
      const at = this.#length + index - removed;
      removed += mark.length;
      const known = this.#known.get(Number(number)) ?? { number: Number(number), from: at, to: at };
      this.#known.set(known.number, { ...known, to: at });
    }
    this.#length += text.length - removed;
    return unmarked(text);
  }

  get found() {
    return [...this.#known.values()];
  }
}

/** A run with its signs, which stand at words: spaces at its ends are outside of them. @param {{text: string, italic: boolean, bold: boolean}} run */
function marked({ text, italic, bold }) {
  const sign = (bold ? "**" : "") + (italic ? "*" : "");
  if (sign === "" || unmarked(text).trim() === "") return text;
  const back = [...sign].reverse().join("");
  return text
    .split("\n")
    .map((line) => {
      const [, before = "", words = "", after = ""] = EDGES.exec(line) ?? [];
      return words === "" ? line : before + sign + words + back + after;
    })
    .join("\n");
}
