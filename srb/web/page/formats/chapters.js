/** The manuscript in chapters and paragraphs, for formats that print it. A chapter begins at each named node of its path. */

import { withoutMarkers } from "../markers.js";

/** @import {Story} from "./types.js" */

const LISTED = 6; // words of a chapter without a name

/**
 * @param {Story} story
 * @returns {string}
 */
export function manuscriptOf(story) {
  const { node, at } = story.head;
  return node === "" ? "" : story.text(node, at);
}

/**
 * Return the manuscript cut at the names of nodes. What stands before the first name is a chapter without one.
 * @param {Story} story
 * @returns {{title: string, author: string, language: string, chapters: {name: string, text: string}[]}}
 */
export function chaptersOf(story) {
  const text = manuscriptOf(story);
  const cuts = [{ name: "", at: 0 }, ...namesOf(story).filter(({ at }) => at <= text.length)];
  const chapters = cuts.map(({ name, at }, index) => ({ name, text: text.slice(at, cuts[index + 1]?.at) }));
  const first = chapters[0];
  if (chapters.length > 1 && first?.text.trim() === "") chapters.shift();
  const [title, author, language] = ["title", "author", "language"].map((key) => String(story.meta(key) ?? "").trim());
  return { title, author, language: languageTag(language) ?? "und", chapters };
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
  const words = withoutMarkers(text, () => "")
    .trim()
    .split(/\s+/u);
  const first = words.slice(0, LISTED).join(" ");
  return first === "" ? "…" : words.length > LISTED ? `${first} …` : first;
}

/**
 * Return the names on the path, with the offsets where their nodes' texts begin in the manuscript, through later splices.
 * @param {Story} story
 * @returns {{name: string, at: number}[]}
 */
function namesOf(story) {
  /** @type {{name: string, at: number}[]} */
  let names = [];
  for (const id of story.head.node === "" ? [] : story.path(story.head.node)) {
    const { keep = 0, tail, text } = /** @type {{keep?: number, tail?: number, text: string}} */ (story.nodes.get(id));
    names = names.filter(({ at }) => at <= keep || tail !== undefined); // what was cut away with its text has no place
    const end = keep + text.length;
    for (const each of names) if (each.at > keep) each.at = end + Math.max(0, each.at - Number(tail));
    const name = (story.mark(id).name ?? "").replace(/\s+/g, " ").trim();
    if (name !== "") names.push({ name, at: keep });
  }
  return names.sort((a, b) => a.at - b.at);
}

/**
 * Cut a text into paragraphs. Where most paragraphs are parted by one empty line, a wider gap is a break between scenes;
 * where each line is a paragraph, every empty line is one.
 * @param {string} text
 * @returns {{text: string, scene: boolean}[]}  text: with its markers; scene: a break stands before the paragraph
 */
export function paragraphsOf(text) {
  const blank = text.match(/\n[^\S\n]*\n/g)?.length ?? 0;
  const single = text.match(/[^\s][^\S\n]*\n[^\S\n]*[^\s]/g)?.length ?? 0;
  const wide = blank > single ? 2 : 1;
  /** @type {{text: string, scene: boolean}[]} */
  const paragraphs = [];
  let empty = 0;
  for (const line of text.split("\n")) {
    if (line.trim() === "") {
      empty += 1;
      continue;
    }
    const first = paragraphs.length === 0; // it may be the rest of a sentence, with the space before it
    paragraphs.push({ text: first ? line.trim() : line.trimEnd(), scene: !first && empty >= wide });
    empty = 0;
  }
  return paragraphs;
}
