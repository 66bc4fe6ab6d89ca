/** A story as the list of stories shows it: its title, taken from its first words until it is given one, its words, and how it begins. */

import { settingsOf } from "../desk/defaults.js";
import { canonical } from "../story/merge.js";

const TITLE_WORDS = 6;
const TITLE_LENGTH = 60;
const OPENING = 140; // characters of the first line
const HEADING = /^\s*#{1,6}[ \t]+(\S.*)/;
const STARS = /\*+(?=\S)|(?<=\S)\*+/g; // markdown.js is not loaded yet where a title is wanted
const PICTURE = /!\[([^[\]\n]*)\]\(srb:\w+\)/g; // see markers.js

/** @param {number} unit */
const isSpace = (unit) =>
  unit <= 0x20 ||
  unit === 0xa0 ||
  (unit >= 0x2000 && unit <= 0x200b) ||
  unit === 0x2028 ||
  unit === 0x2029 ||
  unit === 0x3000;

/**
 * Scripts that put no spaces between words: each of their characters counts as one.
 * @param {number} unit
 */
const isUnspaced = (unit) =>
  (unit >= 0x3041 && unit <= 0x30ff) || (unit >= 0x3400 && unit <= 0x9fff) || (unit >= 0xf900 && unit <= 0xfaff);

/**
 * @param {string} text
 * @returns {string} its first words, or those of the heading that it begins with, without signs; or ""
 */
export function titleOf(text) {
  const beginning = text.slice(0, 1000).replace(PICTURE, "🖼 $1");
  const plain = (HEADING.exec(beginning)?.[1] ?? beginning.replace(/\n\s*#{1,6}[ \t][\s\S]*/u, "")).replace(STARS, "");
  const words = plain.trim().split(/\s+/u).slice(0, TITLE_WORDS).join(" ");
  return words.length <= TITLE_LENGTH
    ? words
    : `${Array.from(words)
        .slice(0, TITLE_LENGTH - 1)
        .join("")}…`;
}

/** @param {string} text @returns {string} how it begins below its headings, without signs; or "" */
export function openingOf(text) {
  const [line = ""] = text
    .slice(0, 3000)
    .replace(PICTURE, "")
    .split("\n")
    .filter((each) => each.trim() && !HEADING.test(each));
  return line.replace(STARS, "").trim().slice(0, OPENING);
}

/** Whether a text is of a script that puts no spaces between words, so that its characters are counted. @param {string} text */
export function countsCharacters(text) {
  const letters = [...text.slice(0, 400)].filter((each) => /\p{L}/u.test(each));
  return letters.length > 0 && 2 * letters.filter((each) => isUnspaced(each.charCodeAt(0))).length > letters.length;
}

/**
 * @param {string} text
 * @returns {number}
 */
export function countWords(text) {
  let words = 0;
  let isInWord = false;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    const unspaced = isUnspaced(unit);
    const begins = unspaced || (!isInWord && !isSpace(unit));
    if (begins) words += 1;
    isInWord = !unspaced && !isSpace(unit);
  }
  return words;
}

/**
 * Whether a story has anything to keep: words, a value such as its title or a draft, or a setting that it did not begin with.
 * @param {import("../story.js").Story} story
 * @param {import("../desk/defaults.js").Settings} begun  the settings with which it was opened
 * @returns {boolean}
 */
export function isEntry(story, begun) {
  const values = Object.entries(/** @type {Record<string, any>} */ (story.stampsOf(null).values));
  return (
    story.nodes.size > 0 ||
    values.some(([key, value]) => !key.startsWith("settings.") && (key === "note" ? value?.text : value)) ||
    canonical(settingsOf(story)) !== canonical(begun)
  );
}

/**
 * Bring a story's own entry in the list up to date.
 * @param {import("../story.js").Story} story
 * @returns {boolean} whether the title has become another
 */
export function describe(story) {
  const { node, at } = story.head;
  const text = story.text(node, at);
  const words = countWords(text);
  if (story.meta("words") !== words) story.setMeta("words", words);
  const opening = openingOf(text);
  if ((story.meta("opening") ?? "") !== opening) story.setMeta("opening", opening);
  const title = titleOf(text);
  const given = story.meta("title") ?? "";
  const isOwn = given === "" || given === story.meta("title_of_text");
  if (!isOwn || given === title) return false;
  story.setMeta("title", title);
  story.setMeta("title_of_text", title);
  return true;
}
