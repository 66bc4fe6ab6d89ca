/** Finds the format of a file and reads it: a whole story or several, or nothing and a sentence that says why. */

import { StoryError, storyOf } from "../story/read.js";
import { exoloom } from "./exoloom.js";
import { decode, parse, quoted } from "./file.js";
import { lite } from "./lite.js";
import { mikupad } from "./mikupad.js";
import { obsidianLoom } from "./obsidian_loom.js";
import { socketteer } from "./socketteer.js";
import { srb } from "./srb.js";
import { readMarkdown, readText } from "./text.js";

/** @import {Draft, Reader} from "./types.js" */

/** @type {Reader[]} the first that knows a file reads it */
const READERS = [srb, exoloom, obsidianLoom, socketteer, lite, mikupad];
const TEXTS = [
  { label: "Markdown", ending: /\.(md|markdown)$/i, read: readMarkdown },
  { label: "text", ending: /\.te?xt$/i, read: readText },
];

/**
 * @typedef {object} Found
 * @property {string} format  the program's name, or "text" or "Markdown"
 * @property {import("../story.js").Story[]} stories
 * @property {string[]} remarks  sentences on what of the file is not in the stories
 */

/**
 * Read a file of any known format.
 * @param {string} name  of the file; pasted text has none
 * @param {Uint8Array} bytes
 * @returns {Found | {error: string}}
 */
export function read(name, bytes) {
  try {
    return readFile(name, bytes);
  } catch (error) {
    if (error instanceof StoryError) return { error: error.message };
    if (error instanceof RangeError) return { error: `${nameOf(name)} is too large or nested too deeply to be read.` };
    throw error;
  }
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {Found}
 */
function readFile(name, bytes) {
  const text = decode(bytes, name === "" ? "The pasted text" : name);
  if (text.trim() === "") throw new StoryError(`${nameOf(name)} is empty.`);
  const plain = TEXTS.find(({ ending }) => ending.test(name));
  if (plain !== undefined) return found(plain.label, [plain.read(text, name)]);
  const value = valueOf(text, name);
  if (value === undefined) return found("text", [readText(text, name)]);
  const reader = READERS.find((each) => each.knows(value));
  if (reader !== undefined) return found(reader.label, reader.read(value, name));
  throw new StoryError(
    `${nameOf(name)} is JSON, but no story of ${READERS.slice(0, -1)
      .map(({ label }) => label)
      .join(", ")} or ${READERS.at(-1)?.label}.`,
  );
}

/**
 * Return a file's JSON value, or undefined for prose, which may begin with a bracket. A name that ends in .json promises JSON.
 * @param {string} text
 * @param {string} name
 * @returns {unknown}
 */
function valueOf(text, name) {
  const isPromised = /\.json$/i.test(name);
  if (!isPromised && !/^\s*[{[]/.test(text)) return undefined;
  try {
    return parse(text, nameOf(name));
  } catch (error) {
    const isProse = /** @type {Error} */ (error).cause instanceof SyntaxError && !isPromised;
    if (isProse) return undefined;
    throw error;
  }
}

/**
 * @param {string} format
 * @param {Draft[]} drafts
 * @returns {Found}
 */
function found(format, drafts) {
  return {
    format,
    stories: drafts.map(({ json }) => storyOf(json)),
    remarks: drafts.flatMap(({ remarks }) => remarks),
  };
}

/** @param {string} name */
function nameOf(name) {
  return name === "" ? "The pasted text" : quoted(name);
}
