/** Plain text and Markdown: the manuscript alone. Markdown has its pictures as references, whose bytes stand at the file's end. */
import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { chaptersOf, manuscriptOf } from "./chapters.js";
import { textOf, titleOf } from "./file.js";
import { picturesOf } from "./pictures.js";
import { SegmentTree } from "./segments.js";

/** @import {Files} from "./pictures.js" */
/** @import {Draft, Opened, Story} from "./types.js" */

const REFERENCE = /!\[([^[\]\n]{0,200})\]\[srb-([0-9a-f]{32})\]/g;
const BYTES = /^\[srb-([0-9a-f]{32})\]: data:([a-z]+\/[a-z]+);base64,/;
const FRONT_MATTER = /^---[ \t]*\n([\s\S]{0,20000}?)\n(?:---|\.\.\.)[ \t]*(?:\n+|$)/;
const FACT = /^([A-Za-z][\w-]*):[ \t]+(\S.*)$/gm;
const LONGEST_BEGINNING = 100; // of a line of bytes

/** @param {Opened} opened @returns {Draft[]} */
export function readText({ text, name }) {
  return [draftOf(textOf(text, msg`The text`), titleOf(name))];
}

/**
 * Read Markdown as it is written: it stays as it is, but a first line `# Title` becomes the title, title and author may stand in front
 * matter, and pictures that `writeMarkdown` has put at the end are the story's.
 * @param {Opened} opened
 * @returns {Draft[]}
 */
export function readMarkdown({ text, name }) {
  const { words: all, media } = withPictures(textOf(text, msg`The text`));
  const { facts, words } = withoutFrontMatter(all);
  const [line = "", heading] = /^# +(.*\S) *(?:\n+|$)/.exec(words) ?? [];
  const { title = "", author = "" } = facts;
  const isTitle = heading !== undefined && (title === "" || title === heading);
  const draft = draftOf(isTitle ? words.slice(line.length) : words, title || heading || titleOf(name), author);
  return [Object.keys(media).length > 0 ? { ...draft, json: { ...draft.json, media } } : draft];
}

/**
 * Return a text without the lines of `key: value` that stand between two lines of `---` at its beginning.
 * @param {string} text
 * @returns {{facts: Record<string, string>, words: string}}
 */
export function withoutFrontMatter(text) {
  const [all = "", lines = ""] = FRONT_MATTER.exec(text) ?? [];
  const facts = [...lines.matchAll(FACT)].map(([, key = "", value = ""]) => [
    key.toLowerCase(),
    unquoted(value.trim()),
  ]);
  return facts.length === 0
    ? { facts: {}, words: text }
    : { facts: Object.fromEntries(facts), words: text.slice(all.length) };
}

/** @param {string} value  of YAML, on one line */
function unquoted(value) {
  if (/^'.*'$/.test(value)) return value.slice(1, -1).replace(/''/g, "'");
  if (!/^".*"$/.test(value)) return value;
  try {
    return String(JSON.parse(value));
  } catch (error) {
    if (error instanceof SyntaxError) return value.slice(1, -1); // an escape that YAML alone has
    throw error;
  }
}

/**
 * Return a Markdown text without the bytes of its pictures, and with markers in the places of the references to them.
 * @param {string} text
 * @returns {{words: string, media: Files}}
 */
function withPictures(text) {
  /** @type {Files} */
  const media = {};
  if (!text.includes("\n[srb-")) return { words: text, media };
  /** @type {string[]} */
  const kept = [];
  let isBehind = false; // behind a line of bytes
  const lines = text.split("\n");
  for (const line of lines) {
    const found = BYTES.exec(line.slice(0, LONGEST_BEGINNING));
    if (found) {
      media[found[1] ?? ""] = { type: found[2] ?? "", data: line.slice(found[0].length) };
      if (!isBehind && kept.at(-1) === "") kept.pop(); // the empty line before them
    } else kept.push(line);
    isBehind = found !== null || (isBehind && line === "");
  }
  if (isBehind && lines.at(-1) === "") kept.pop(); // the end of the last line of bytes
  const words = kept.join("\n").replace(REFERENCE, (whole, name, id) => (media[id] ? `![${name}](srb:${id})` : whole));
  return { words, media };
}

/**
 * @param {string} text
 * @param {string} title
 */
function draftOf(text, title, author = "") {
  const tree = new SegmentTree();
  tree.add(0, { parent: null, text, by: "person" });
  return tree.draft({ title, author });
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
 * @param {Files} [media]  its pictures and sounds; one that is not given, and a sound, keeps its marker
 */
export function writeMarkdown(story, media = {}) {
  const { title, author, chapters } = chaptersOf(story);
  let written = author === "" ? "" : `---\ntitle: ${JSON.stringify(title)}\nauthor: ${JSON.stringify(author)}\n---\n\n`;
  if (title !== "") written += `# ${title}\n\n`;
  for (const { name, text, body } of chapters) {
    if (name === "" || body > 0) written += text;
    else written += `${gapAfter(written)}## ${name}\n\n${text.replace(/^\n+/, "")}`;
  }
  const pictures = picturesOf(written, media);
  if (pictures.size === 0) return written;
  const words = withoutMarkers(written, (name, id) =>
    pictures.has(id) ? `![${name}][srb-${id}]` : `![${name}](srb:${id})`,
  );
  const bytes = [...pictures].map(([id, { type }]) => `[srb-${id}]: data:${type};base64,${media[id]?.data}`);
  return `${words}\n\n${bytes.join("\n")}\n`;
}

/**
 * Return what a heading needs before it: an empty line, unless the text begins with it.
 * @param {string} text
 */
function gapAfter(text) {
  if (text === "" || text.endsWith("\n\n")) return "";
  return text.endsWith("\n") ? "\n" : "\n\n";
}
