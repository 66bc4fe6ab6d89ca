/** Plain text and Markdown: the manuscript alone. */
import { chaptersOf, manuscriptOf } from "./chapters.js";
import { textOf, titleOf } from "./file.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Story} from "./types.js" */

/**
 * @param {string} text
 * @param {string} name  of the file
 * @returns {Draft}
 */
export function readText(text, name) {
  return draftOf(textOf(text, "The text"), titleOf(name));
}

/**
 * Read Markdown as it is written: it stays as it is, but a first line `# Title` becomes the title.
 * @param {string} text
 * @param {string} name  of the file
 * @returns {Draft}
 */
export function readMarkdown(text, name) {
  const whole = textOf(text, "The text");
  const heading = /^# +(.*\S) *\n+/.exec(whole);
  return heading === null ? draftOf(whole, titleOf(name)) : draftOf(whole.slice(heading[0].length), heading[1] ?? "");
}

/**
 * @param {string} text
 * @param {string} title
 */
function draftOf(text, title) {
  const tree = new SegmentTree();
  tree.add(0, { parent: null, text, by: "person" });
  return tree.draft({ title });
}

/**
 * @param {Story} story
 * @returns {string} exactly the manuscript
 */
export function writeText(story) {
  return manuscriptOf(story);
}

/**
 * Return the manuscript with headings: the story's title, and the names of its chapters.
 * @param {Story} story
 */
export function writeMarkdown(story) {
  const { title, chapters } = chaptersOf(story);
  let written = title === "" ? "" : `# ${title}\n\n`;
  for (const { name, text } of chapters) {
    if (name === "") written += text;
    else written += `${gapAfter(written)}## ${name}\n\n${text.replace(/^\n+/, "")}`;
  }
  return written;
}

/**
 * Return what a heading needs before it: an empty line, unless the text begins with it.
 * @param {string} text
 */
function gapAfter(text) {
  if (text === "" || text.endsWith("\n\n")) return "";
  return text.endsWith("\n") ? "\n" : "\n\n";
}
