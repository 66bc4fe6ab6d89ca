/**
 * The manuscript in chapters and paragraphs, for the list of chapters and for formats that print it. A chapter begins at each heading
 * of one or two `#` and at each named node of the path; headings of more stand inside a chapter.
 */

import { readLine, runsOf, wordsOf } from "../markdown.js";
import { withoutMarkers } from "../markers.js";
import { origin } from "../story/pen.js";

/** @import {Run} from "../markdown.js" */
/** @import {Story} from "./types.js" */
/** @import {Place} from "../story/types.js" */

/**
 * @typedef {object} Chapter
 * @property {string} name  in words alone; "" for a beginning that has none
 * @property {Run[]} title  the same with its emphasis
 * @property {number} level  of its heading; a node's name is as one of level 2
 * @property {number} at  where it begins in the manuscript
 * @property {number} body  where in `text` its heading ends
 * @property {string} text  all of it
 */
/** @typedef {Pick<Chapter, "name" | "title" | "level" | "at"> & {from: number, to: number}} Cut  `from`, `to`: its heading's line */

const DEEPEST = 2; // level of a heading that begins a chapter
const HEADING = /(?<=^|\n) {0,3}#{1,2}[ \t][^\n]*/g;
const LISTED = 6; // words of a chapter without a name
const LONGEST = 500; // characters of a line that may be a heading
const BEGINNING = 2000; // characters in which they are looked for

/**
 * @param {Story} story
 * @param {Place} [place]  of another text
 * @returns {string}
 */
export function manuscriptOf(story, { node, at } = story.head) {
  return node === "" ? "" : story.text(node, at);
}

/**
 * Return the manuscript cut at its headings and at the names of nodes. What stands before the first is a chapter without a name.
 * @param {Story} story
 * @param {Place} [place]  of another text
 * @returns {{title: string, author: string, language: string, chapters: Chapter[]}}
 */
export function chaptersOf(story, place = story.head) {
  const text = manuscriptOf(story, place);
  const opening = { name: "", title: [], level: DEEPEST, at: 0, from: 0, to: 0 };
  const cuts = [
    opening,
    ...cutsOf(
      text,
      namesOf(story, place).filter(({ at }) => at <= text.length),
    ),
  ];
  const chapters = cuts.map(({ from: _from, to, ...cut }, index) => ({
    ...cut,
    body: Math.max(0, to - cut.at),
    text: text.slice(cut.at, cuts[index + 1]?.at),
  }));
  if (chapters.length > 1 && chapters[0]?.text.trim() === "") chapters.shift();
  const [title, author, language] = ["title", "author", "language"].map((key) => String(story.meta(key) ?? "").trim());
  return { title, author, language: languageTag(language) ?? "und", chapters };
}

/**
 * Return the chapter that a place of a text is in, by its heading or its branch's name, "" before the first, and in which paragraph of it the place is. It
 * reads no farther back than to where the chapter begins.
 * @param {string} text
 * @param {number} at
 * @param {{name: string, at: number}[]} [names]  of branches, as `namesOf` has them
 */
export function whereabouts(text, at, names = []) {
  const named = names.findLast((each) => each.at <= at && !isTitled(text, each.at));
  const next = text.indexOf("\n", at);
  let paragraph = 0;
  for (let end = next < 0 ? text.length : next; end >= 0; ) {
    const begin = startOfLine(text, end);
    const line = text.slice(begin, end);
    if (named && begin <= named.at) {
      const isBegun = text.slice(named.at, end).trim() !== "";
      return { chapter: named.name, paragraph: paragraph + (isBegun ? 1 : 0) };
    }
    if (isChapter(line)) return { chapter: withoutMarkers(wordsOf(line)), paragraph };
    if (line.trim() !== "") paragraph += 1;
    end = begin - 1;
  }
  return { chapter: "", paragraph };
}

/** @param {string} text @param {number} at */
const startOfLine = (text, at) => (at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1);

/** Whether a line is a heading with which a chapter begins. @param {string} line */
function isChapter(line) {
  const { level } = readLine(line.slice(0, LONGEST));
  return level > 0 && level <= DEEPEST;
}

/** Whether only blanks lie between a place and a chapter's heading, so that a name there stands for the heading's chapter. @param {string} text @param {number} at */
function isTitled(text, at) {
  const before = text.slice(0, at).trimEnd().length;
  const behind = text.length - text.slice(at).trimStart().length;
  return [before, behind].some((place) => {
    const end = text.indexOf("\n", place);
    return isChapter(text.slice(startOfLine(text, place), end < 0 ? text.length : end));
  });
}

/**
 * Return the places where chapters begin. A name with no words between it and a heading stands for the same chapter: the heading's
 * words are its title.
 * @param {string} text
 * @param {{name: string, at: number}[]} names
 * @returns {Cut[]}
 */
function cutsOf(text, names) {
  const headings = [...text.matchAll(HEADING)].flatMap(({ 0: line, index: at }) => {
    const { level } = readLine(line);
    const end = at + line.length;
    return level > 0 ? [{ name: wordsOf(line), title: runsOf(line), level, at, from: at, to: end }] : [];
  });
  const named = names
    .filter(({ at }) => !isTitled(text, at))
    .map(({ name, at }) => {
      const title = [{ text: name, em: false, strong: false }];
      return { name, title, level: DEEPEST, at, from: at, to: at };
    });
  return [...headings, ...named].sort((one, other) => one.at - other.at);
}

/**
 * Return a language's tag in its usual spelling; null for a text that is none.
 * @param {string} text
 */
export function languageTag(text) {
  try {
    return Intl.getCanonicalLocales(text)[0] ?? null;
  } catch {
    return null;
  }
}

/**
 * Return the words by which a chapter without a name is listed: its first ones.
 * @param {string} text
 */
export function firstWords(text) {
  const lines = withoutMarkers(text.trimStart().slice(0, BEGINNING), () => "").split("\n");
  const words = lines.map(wordsOf).join(" ").trim().split(/\s+/u);
  const first = words.slice(0, LISTED).join(" ");
  return first === "" ? "…" : words.length > LISTED ? `${first} …` : first;
}

/** The nodes with names among those that a text is made of. @param {Story} story @param {Place} place @returns {{id: string, name: string}[]} */
export function namedIn(story, { node }) {
  return (node === "" ? [] : story.path(node)).flatMap((id) => {
    const name = (story.mark(id).name ?? "").replace(/\s+/g, " ").trim();
    return name === "" ? [] : [{ id, name }];
  });
}

/**
 * Return the names in a text, with the offsets where their nodes' words begin in it: also where these were moved. A name is gone where all of its
 * words are.
 * @param {Story} story
 * @param {Place} place
 * @param {{id: string, name: string}[]} [named]
 * @returns {{name: string, at: number}[]}
 */
export function namesOf(story, place, named = namedIn(story, place)) {
  if (named.length === 0) return [];
  const order = new Map(story.path(place.node).map((id, index) => [id, index]));
  const pieces = story.pieces(place.node, place.at);
  return named
    .flatMap(({ id, name }) => {
      const begins = beginningOf(nodeOf(story, id), pieces, story, order);
      return begins === null ? [] : [{ name, at: begins }];
    })
    .sort((one, other) => one.at - other.at);
}

/** @param {Story} story @param {string} id */
const nodeOf = (story, id) => /** @type {import("../story/types.js").Node} */ (story.nodes.get(id));

/**
 * Return where the words of a node begin in a text, with what was typed right before them later; null if none is there.
 * @param {import("../story/types.js").Node} node
 * @param {import("../story/types.js").Piece[]} pieces  of the text
 * @param {Story} story
 * @param {Map<string, number>} order  of the nodes on the path
 */
function beginningOf(node, pieces, story, order) {
  const own = origin(node);
  /** @type {{known: number, index: number, at: number} | null} */
  let first = null;
  for (const [index, { from, to, node: id, start }] of pieces.entries()) {
    const of = origin(nodeOf(story, id));
    if (of.node !== own.node) continue;
    const known = Math.max(of.at + start, own.at);
    const end = Math.min(of.at + start + to - from, own.at + node.text.length);
    if (known < end && (first === null || known < first.known))
      first = { known, index, at: from + known - of.at - start };
  }
  if (first === null) return null;
  let { at } = first;
  for (const piece of pieces.slice(0, first.index).reverse()) {
    const isLater = Number(order.get(piece.node)) > Number(order.get(node.id));
    if (piece.to !== at || !isLater || nodeOf(story, piece.node).of) break;
    at = piece.from;
  }
  return at;
}

/**
 * Cut a text into paragraphs. Where most paragraphs are parted by one empty line, a wider gap is a break between scenes;
 * where each line is a paragraph, every empty line is one.
 * @param {string} text
 * @returns {{kind: "text" | "heading" | "break", level: number, at: number, text: string, scene: number, line: boolean}[]}  text: with its
 *   markers and signs, from `at` on; scene: empty lines of a gap between scenes before the paragraph; line: without it the paragraph would stand in
 *   the next line
 */
export function paragraphsOf(text) {
  const blank = text.match(/\n[^\S\n]*\n/g)?.length ?? 0;
  const single = text.match(/[^\s][^\S\n]*\n[^\S\n]*[^\s]/g)?.length ?? 0;
  const wide = blank > single ? 2 : 1;
  /** @type {ReturnType<typeof paragraphsOf>} */
  const paragraphs = [];
  let empty = 0;
  let next = 0;
  for (const line of text.split("\n")) {
    const at = next;
    next += line.length + 1;
    if (line.trim() === "") {
      empty += 1;
      continue;
    }
    const last = paragraphs.at(-1); // the first one may be the rest of a sentence, with the space before it
    const { kind, level } = readLine(line);
    const scene = last?.kind === "text" && kind === "text" ? Math.max(0, empty - wide + 1) : 0;
    const words = last ? line.trimEnd() : line.trim();
    const follows = last?.kind === "text" && kind === "text" && (wide === 1 || empty === 0);
    paragraphs.push({ kind, level, at: at + (last ? 0 : line.indexOf(words)), text: words, scene, line: follows });
    empty = 0;
  }
  return paragraphs;
}
