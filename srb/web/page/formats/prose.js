/**
 * Prose of another program on its way to a story: paragraphs of runs become Markdown, since the page shows emphasis, headings and
 * breaks by its signs. A new node begins at each chapter.
 */
import { StoryError } from "../story/read.js";
import { whole } from "../story/text.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft} from "./types.js" */

const CHAPTER = 2; // the deepest heading that begins one
const BREAK = /^(?:[*＊⁂#~•·◦–—_=-]\s*){1,7}$/; // a line of signs alone is a break between scenes
const MOST = 32 * 2 ** 20; // characters of prose in one file

export class Prose {
  /** @type {{text: string, italic: boolean, bold: boolean}[]} of the paragraph that is open */
  #runs = [];
  /** @type {{level: number, text: string}[]} */
  #paragraphs = [];
  #length = 0;

  /** Add words to the open paragraph. @param {string} text @param {{italic?: boolean, bold?: boolean}} [style] */
  add(text, { italic = false, bold = false } = {}) {
    if (text === "") return;
    this.#length += text.length;
    if (this.#length > MOST)
      throw new StoryError(`The file has more than ${MOST / 2 ** 20} million characters of text.`);
    const last = this.#runs.at(-1);
    if (last && last.italic === italic && last.bold === bold) last.text += text;
    else this.#runs.push({ text, italic, bold });
  }

  /** Whether the open paragraph has words. */
  get isBegun() {
    return this.#runs.some(({ text }) => text.trim() !== "");
  }

  /** End the open paragraph. @param {number} [level]  of a heading, from 1 on */
  end(level = 0) {
    const { isBegun } = this;
    const runs = this.#runs;
    this.#runs = [];
    if (!isBegun) return;
    const plain = runs.map(({ text }) => text).join("");
    if (level > 0) {
      const words = runs.map((run) => marked({ ...run, bold: false })).join("");
      this.#paragraphs.push({ level, text: `${"#".repeat(Math.min(level, 6))} ${words.replace(/\s+/g, " ").trim()}` });
    } else if (BREAK.test(plain.trim())) this.break();
    else
      this.#paragraphs.push({
        level,
        text: runs
          .map(marked)
          .join("")
          .replace(/[ \t]*\n[ \t]*/g, "\n")
          .trim(),
      });
  }

  /** Add a break between scenes; none stands at the beginning, nor twice. */
  break() {
    const last = this.#paragraphs.at(-1);
    if (last && last.text !== "***") this.#paragraphs.push({ level: 0, text: "***" });
  }

  /** Take the first heading, or nothing, as a title that stands elsewhere already. @param {string} title */
  withoutTitle(title) {
    const [first] = this.#paragraphs;
    if (title !== "" && first && first.text.replace(/^#+ /, "") === title.trim()) this.#paragraphs.shift();
  }

  /** @param {Omit<import("./types.js").Facts, "current">} facts @param {string[]} [remarks] @returns {Draft} */
  draft(facts, remarks = []) {
    this.end();
    const tree = new SegmentTree();
    /** @type {string[]} */
    let chapter = [];
    const close = () => {
      if (chapter.length === 0) return;
      const key = tree.size;
      tree.add(key, {
        parent: key === 0 ? null : key - 1,
        text: (key === 0 ? "" : "\n\n") + whole(chapter.join("\n\n")),
        by: "person",
      });
      chapter = [];
    };
    for (const { level, text } of this.#paragraphs) {
      if (level > 0 && level <= CHAPTER) close();
      chapter.push(text);
    }
    close();
    if (tree.size === 0) throw new StoryError("The file holds no text.");
    const draft = tree.draft({ ...facts, current: tree.size - 1 });
    return { ...draft, remarks: [...draft.remarks, ...remarks] };
  }
}

/** A run with its signs, which stand at words: spaces at its ends are outside of them. @param {{text: string, italic: boolean, bold: boolean}} run */
function marked({ text, italic, bold }) {
  const sign = (bold ? "**" : "") + (italic ? "*" : "");
  if (sign === "" || text.trim() === "") return text;
  const back = [...sign].reverse().join("");
  return text
    .split("\n")
    .map((line) => {
      const [, before = "", words = "", after = ""] = /^(\s*)(.*?)(\s*)$/su.exec(line) ?? [];
      return words === "" ? line : before + sign + words + back + after;
    })
    .join("\n");
}
