/**
 * Prose of another program on its way to a story: paragraphs of runs become Markdown, since the page shows emphasis, headings and
 * breaks by its signs. A new node begins at each chapter. What a file has and a story has not is counted, and told.
 */
import { written } from "../emphasis.js";
import { msg, NUMBER } from "../languages.js";
import { BITS, wordsOf } from "../markdown.js";
import { StoryError } from "../story/read.js";
import { whole } from "../story/text.js";
import { SegmentTree } from "./segments.js";

/** @import {Run} from "../emphasis.js" */
/** @import {Draft} from "./types.js" */

const CHAPTER = 2; // the deepest heading that begins one
const BREAK = /^(?:[*＊⁂#~•·◦–—_=-]\s*){1,7}$/; // a line of signs alone is a break between scenes
const MOST = 32 * 2 ** 20; // characters of prose in one file
const LINE_ENDS = /\r\n?|[\u2028\u2029\u0085]/g;
const NOWHERE = /[\0\ufeff\ufffe\uffff\ufdd0-\ufdef]/g; // characters that no text has

/** @typedef {{text: string, author: string}} Comment */
/** @typedef {{number: number, at: number}} Mark  where the words of a comment begin or end */
/**
 * @typedef {object} Paragraph
 * @property {"text" | "heading" | "break" | "name"} kind  "name": of the chapter that begins, which is not in the text
 * @property {number} level  of a heading
 * @property {string} text
 * @property {string} note  on a chapter
 * @property {Mark[]} marks
 * @property {number} empty  paragraphs before it that have no words
 * @property {number} scene  empty lines before it, as the file says
 * @property {boolean} isLine  it follows the one before in the next line
 */

/** Kinds of things that a file has and a story has not. @type {Record<string, (count: string) => string>} */
const LEFT_OUT = {
  pictures: (count) => msg`Pictures (${count}) were left out.`,
  before: (count) => msg`Words before the title (${count}) were left out.`,
  notes: (count) => (count === "1" ? msg`1 footnote was left out.` : msg`${count} footnotes were left out.`),
  hidden: (count) => msg`Hidden words (${count}) were left out.`,
  beside: (count) => msg`Words of menus, forms, tables of contents and drawings (${count}) were left out.`,
  looks: (count) => msg`Underlining and words that are struck through (${count}) became plain.`,
  emphasis: (count) => msg`Emphasis that has no signs in Markdown was left out in lines (${count}).`,
  signs: (count) => msg`Signs of symbol fonts (${count}) were left out.`,
  numbers: (count) => msg`Numbers and bullets of lists (${count}) were left out.`,
};

/** @param {string} text */
const wordsIn = (text) => text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;

export class Prose {
  #words = ""; // of the open paragraph
  /** @type {Run[]} that make it */
  #runs = [];
  /** @type {Mark[]} */
  #marks = [];
  /** @type {Paragraph[]} */
  #paragraphs = [];
  #length = 0;
  #empty = 0;
  #scene = 0;
  /** @type {Map<string, number>} */
  #leftOut = new Map();

  /** Add words to the open paragraph. @param {string} text @param {{italic?: boolean, bold?: boolean}} [style] */
  add(text, { italic = false, bold = false } = {}) {
    const words = text.replace(LINE_ENDS, "\n").replace(NOWHERE, "");
    this.#length += words.length;
    if (this.#length > MOST)
      throw new StoryError(msg`The file has more than ${MOST / 2 ** 20} million characters of text.`);
    this.#words += words;
    const style = (italic ? BITS.em : 0) | (bold ? BITS.strong : 0);
    const last = this.#runs.at(-1);
    if (last && last.style === style) last.text += words;
    else if (words !== "") this.#runs.push({ text: words, style });
  }

  /** Say that words of a comment begin here, or end. @param {number} number  of the comment */
  mark(number) {
    this.#marks.push({ number, at: this.#words.length });
  }

  /** Count what is not taken. @param {keyof typeof LEFT_OUT} kind @param {number | string} count  of things, or words that are counted */
  leaveOut(kind, count = 1) {
    const more = typeof count === "string" ? wordsIn(count) : count;
    if (more > 0) this.#leftOut.set(kind, (this.#leftOut.get(kind) ?? 0) + more);
  }

  /** Sentences on what was left out. */
  get remarks() {
    return Object.entries(LEFT_OUT).flatMap(([kind, says]) => {
      const count = this.#leftOut.get(kind);
      return count === undefined ? [] : [says(NUMBER.format(count))];
    });
  }

  /** Whether the open paragraph has words. */
  get isBegun() {
    return this.#words.trim() !== "";
  }

  /** Whether no more words have room. */
  get isFull() {
    return this.#length > MOST;
  }

  /** Begin a chapter. @param {{name: string, note?: string}} chapter  its name, which is not in the text, and a note on it */
  begin({ name, note = "" }) {
    this.end();
    this.#add({ kind: "name", text: oneLine(name), note });
  }

  /** Say that a gap between scenes stands before the next paragraph. */
  beginScene() {
    this.end();
    this.#scene += 1;
  }

  /** Whether a space that follows would be a second one. */
  get isSpaced() {
    return /(^|\s)$/.test(this.#words);
  }

  /**
   * End the open paragraph. One that has spaces or line ends alone is empty.
   * @param {number} [level]  of a heading, from 1 on
   * @param {{isLine?: boolean, isParagraph?: boolean, isName?: boolean}} [more]  `isParagraph`: it is one, also without anything in it
   */
  end(level = 0, { isLine = false, isParagraph = false, isName = false } = {}) {
    const { isBegun } = this;
    const [words, runs, marks] = [this.#words, this.#runs, this.#marks];
    if (!isBegun) {
      if (isParagraph || words !== "") this.#empty += 1;
      [this.#words, this.#runs] = ["", []];
      this.#marks = marks.map((mark) => ({ ...mark, at: 0 })); // those of an empty paragraph belong to the next one
      return;
    }
    [this.#words, this.#runs, this.#marks] = ["", [], []];
    if (isName) this.begin({ name: words });
    else if (level > 0) this.#addHeading(level, runs, marks);
    else if (BREAK.test(words.trim())) {
      this.break();
      this.#marks = marks.map((mark) => ({ ...mark, at: 0 }));
    } else this.#addLines(runs, marks, isLine);
  }

  /** @param {Partial<Paragraph>} paragraph */
  #add(paragraph) {
    this.#paragraphs.push({
      kind: "text",
      level: 0,
      text: "",
      note: "",
      marks: [],
      isLine: false,
      ...paragraph,
      empty: this.#empty,
      scene: this.#scene,
    });
    [this.#empty, this.#scene] = [0, 0];
  }

  /** @param {number} level @param {Run[]} runs @param {Mark[]} marks */
  #addHeading(level, runs, marks) {
    const spaced = runs.map(({ text, style }) => ({ text: text.replace(/\s/g, " "), style: style & BITS.em })); // as long as they were
    const line = lineOf(spaced, marks, true);
    const signs = `${"#".repeat(Math.min(level, 6))} `;
    this.#count(line.isWhole);
    this.#add({
      kind: "heading",
      level,
      text: signs + line.text,
      marks: line.marks.map((mark) => ({ ...mark, at: mark.at + signs.length })),
    });
  }

  /** Add a paragraph; two line ends in it part two paragraphs. @param {Run[]} runs @param {Mark[]} marks @param {boolean} isLine */
  #addLines(runs, marks, isLine) {
    let follows = isLine;
    /** @type {ReturnType<typeof lineOf>[]} */
    let lines = [];
    const close = () => {
      if (lines.length === 0) return;
      let text = "";
      /** @type {Mark[]} */
      const placed = [];
      for (const line of lines) {
        if (text !== "") text += "\n";
        placed.push(...line.marks.map((mark) => ({ ...mark, at: mark.at + text.length })));
        text += line.text;
      }
      this.#add({ text, marks: placed, isLine: follows });
      [lines, follows] = [[], false];
    };
    let from = 0;
    let left = marks;
    const all = linesOf(runs);
    for (const [index, line] of all.entries()) {
      const to = from + line.reduce((sum, run) => sum + run.text.length, 0);
      const isLast = index === all.length - 1;
      const here = left
        .filter((mark) => mark.at <= to || isLast)
        .map((mark) => ({ ...mark, at: Math.max(0, mark.at - from) }));
      if (here.length > 0) left = left.filter((mark) => mark.at > to && !isLast);
      if (line.every((run) => run.text.trim() === "")) {
        const wasOpen = lines.length > 0;
        close();
        if (!wasOpen && this.#paragraphs.length > 0) this.#empty += 1;
        left.unshift(...here.map((mark) => ({ ...mark, at: to + 1 })));
      } else {
        const made = lineOf(line, here);
        this.#count(made.isWhole);
        lines.push(made);
      }
      from = to + 1;
    }
    close();
    this.#marks.push(...left.map((mark) => ({ ...mark, at: 0 })));
  }

  /** @param {boolean} isWhole */
  #count(isWhole) {
    if (!isWhole) this.leaveOut("emphasis");
  }

  /** Forget the words of the open paragraph. */
  drop() {
    [this.#words, this.#runs] = ["", []];
  }

  /** Forget all words that have come: of the title page, but for the title. @param {string} title */
  dropAll(title) {
    const words = this.#paragraphs.map(({ text }) => text).join(" ");
    this.leaveOut("before", wordsIn(words) + wordsIn(this.#words) - wordsIn(title));
    this.drop();
    [this.#paragraphs, this.#marks, this.#empty] = [[], [], 0];
  }

  /** Add a break between scenes; none stands at the beginning, nor twice. */
  break() {
    const last = this.#paragraphs.at(-1);
    if (last && last.kind !== "break" && last.kind !== "name") this.#add({ kind: "break", text: "***" });
  }

  /** Take the first paragraphs, or nothing, as a title or an author that stand elsewhere already. @param {string[]} known */
  without(...known) {
    for (const words of known) {
      const [first] = this.#paragraphs;
      if (words !== "" && first && oneLine(wordsOf(first.text)) === oneLine(words)) this.#paragraphs.shift();
    }
  }

  /**
   * @param {Omit<import("./types.js").Facts, "current">} facts
   * @param {Map<number, Comment>} [comments]  by the numbers of their marks
   * @returns {Draft}
   */
  draft(facts, comments = new Map()) {
    this.end();
    const tree = new SegmentTree();
    /** @type {Map<number, {from: number, to: number}>} words that comments are on */
    const ranges = new Map();
    /** @param {Mark} mark @param {number} begun  where its paragraph begins */
    const place = ({ number, at }, begun) =>
      ranges.set(number, { from: ranges.get(number)?.from ?? begun + at, to: begun + at });
    /** @type {{text: string, name: string, note: string} | null} */
    let chapter = null;
    let begun = 0; // characters of the chapters before
    const close = () => {
      if (chapter === null) return;
      const key = tree.size;
      const parent = key === 0 ? null : key - 1;
      const marks = Object.fromEntries(
        Object.entries({ name: chapter.name, note: chapter.note }).filter(([, said]) => said !== ""),
      );
      tree.add(key, { parent, text: whole(chapter.text), by: "person", marks });
      begun += chapter.text.length;
      chapter = null;
    };
    let isFirst = true;
    for (const { paragraph, gap } of withGaps(this.#paragraphs)) {
      const { kind, level, text, marks } = paragraph;
      const begins = kind === "name" || (kind === "heading" && level <= CHAPTER && chapter?.text !== "");
      if (begins) close();
      chapter ??= { text: "", name: "", note: "" };
      if (kind === "name") {
        Object.assign(chapter, { name: text, note: paragraph.note });
        continue;
      }
      chapter.text += isFirst ? "" : "\n".repeat(gap);
      isFirst = false;
      for (const mark of marks) place(mark, begun + chapter.text.length);
      chapter.text += text;
    }
    close();
    if (isFirst) throw new StoryError(msg`The file holds no text.`);
    for (const mark of this.#marks) place(mark, begun);
    const draft = tree.draft({ ...facts, current: tree.size - 1 });
    const found = [...ranges].flatMap(([number, range]) => {
      const comment = comments.get(number);
      return comment ? [{ ...range, ...comment }] : [];
    });
    return { ...draft, remarks: [...draft.remarks, ...this.remarks], comments: found };
  }
}

/** @param {string} words */
const oneLine = (words) => words.replace(/\s+/g, " ").trim();

/** Runs cut at line ends. @param {Run[]} runs @returns {Run[][]} */
function linesOf(runs) {
  /** @type {Run[][]} */
  const lines = [[]];
  for (const { text, style } of runs) {
    const [first = "", ...others] = text.split("\n");
    if (first !== "") lines.at(-1)?.push({ text: first, style });
    for (const each of others) lines.push(each === "" ? [] : [{ text: each, style }]);
  }
  return lines;
}

/** A line with its signs, without spaces at its ends. @param {Run[]} runs @param {Mark[]} marks */
function lineOf(runs, marks, isHeading = false) {
  const words = runs.map((run) => run.text).join("");
  const [begin, end] = [words.length - words.trimStart().length, words.trimEnd().length];
  let at = 0;
  const own = runs.flatMap(({ text, style }) => {
    const part = text.slice(Math.max(0, begin - at), Math.max(0, end - at));
    at += text.length;
    return part === "" ? [] : [{ text: part, style }];
  });
  const { text, placeOf, isWhole } = written(own, isHeading);
  const placed = (/** @type {number} */ place) => placeOf(Math.min(Math.max(place - begin, 0), end - begin));
  return { text, isWhole, marks: marks.map((mark) => ({ ...mark, at: placed(mark.at) })) };
}

/**
 * Paragraphs with the line ends before them: two, and three where a scene begins. It does at empty paragraphs, where these are rarer
 * than other gaps; in a text that parts all paragraphs by one, at more than one.
 * @param {Paragraph[]} paragraphs
 * @returns {{paragraph: Paragraph, gap: number}[]}
 */
function withGaps(paragraphs) {
  const isBetween = (/** @type {number} */ index) =>
    paragraphs[index]?.kind === "text" && paragraphs[index - 1]?.kind === "text";
  const counts = [0, 0, 0]; // of gaps of no, one, and more empty paragraphs
  for (const [index, { empty }] of paragraphs.entries()) if (isBetween(index)) counts[Math.min(empty, 2)] += 1;
  const [none = 0, one = 0, more = 0] = counts;
  const least = one + more < none ? 1 : more < none + one ? 2 : Number.POSITIVE_INFINITY;
  return paragraphs.map((paragraph, index) => ({
    paragraph,
    gap: (paragraph.isLine ? 1 : 2) + (isBetween(index) ? paragraph.scene || Number(paragraph.empty >= least) : 0),
  }));
}
