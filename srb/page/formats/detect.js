/** Finds the format of a file and reads it: a whole story or several, or nothing and a sentence that says why. */

import { commentOn, LONGEST, MOST, PREFIX } from "../desk/comments.js";
import { msg } from "../languages.js";
import { StoryError, storyOf } from "../story/read.js";
import { newId } from "../story.js";
import { isArchive, namesIn } from "./archive.js";
import { isChat, readChat } from "./chat.js";
import { isDocx, readDocx } from "./docx_in.js";
import { isEpub, readEpub } from "./epub_in.js";
import { exoloom } from "./exoloom.js";
import { checkSize, decode, parse, quoted } from "./file.js";
import { charsetOf, isHtml, readHtml } from "./html_in.js";
import { lite } from "./lite.js";
import { lorebookOf } from "./lorebooks.js";
import { mikupad } from "./mikupad.js";
import { novelAi } from "./novelai.js";
import { obsidianLoom } from "./obsidian_loom.js";
import { isRtf, readRtf } from "./rtf.js";
import { socketteer } from "./socketteer.js";
import { srb } from "./srb.js";
import { readMarkdown, readText } from "./text.js";

/** @import {Draft, Reader} from "./types.js" */

/** @type {Reader[]} the first that knows a file reads it */
const READERS = [srb, exoloom, obsidianLoom, socketteer, novelAi, lite, mikupad];
const LONGEST_NAME = 200; // of a comment's author
const TEXTS = [
  { label: "Markdown", ending: /\.(md|markdown)$/i, read: readMarkdown },
  { label: msg`text`, ending: /\.te?xt$/i, read: readText },
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
    if (error instanceof RangeError)
      return { error: msg`${nameOf(name)} is too large or nested too deeply to be read.` };
    throw error;
  }
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {Found}
 */
function readFile(name, bytes) {
  if (isArchive(bytes)) return readArchive(name, bytes);
  if (isRtf(bytes)) return found("Rich Text", [readRtf(sized(bytes, name), name)], []);
  const { text, encoding, remarks } = decode(bytes, name === "" ? msg`The pasted text` : name);
  if (text.trim() === "") throw new StoryError(msg`${nameOf(name)} is empty.`);
  const plain = TEXTS.find(({ ending }) => ending.test(name));
  if (plain !== undefined) return found(plain.label, [plain.read(text, name)], remarks);
  if (/\.x?html?$/i.test(name) || isHtml(text))
    return found("HTML", [readHtml(asItSays(bytes, text, encoding), name)], remarks);
  if (/\.jsonl$/i.test(name) || isChat(text)) return found("SillyTavern", [readChat(text, name)], remarks);
  const value = valueOf(text, name);
  if (value === undefined) return found(msg`text`, [readText(text, name)], remarks);
  const reader = READERS.find((each) => each.knows(value));
  if (reader !== undefined) return found(reader.label, reader.read(value, name), remarks);
  if (lorebookOf(value) !== null)
    throw new StoryError(
      msg`${nameOf(name)} is a lorebook: open a story, and import it in the side panel, under Lorebook.`,
    );
  throw new StoryError(
    msg`${nameOf(name)} is JSON, but no story of ${READERS.slice(0, -1)
      .map(({ label }) => label)
      .join(", ")} or ${READERS.at(-1)?.label}.`,
  );
}

/**
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {Found}
 */
function readArchive(name, bytes) {
  const names = namesIn(sized(bytes, name), name);
  if (isDocx(names)) return found("Word", [readDocx(bytes, name)], []);
  if (isEpub(names)) return found("EPUB", [readEpub(bytes, name)], []);
  throw new StoryError(
    msg`${nameOf(name)} is an archive, but neither a Word file (.docx) nor an EPUB. Save it as one of them, or as plain text.`,
  );
}

/** @param {Uint8Array} bytes @param {string} name */
function sized(bytes, name) {
  checkSize(name, bytes.length, "");
  return bytes;
}

/** A page's text in the encoding that it says, unless its bytes say UTF-8 or UTF-16. @param {Uint8Array} bytes @param {string} text @param {string} encoding */
function asItSays(bytes, text, encoding) {
  const said = /^utf-/.test(encoding) ? null : charsetOf(bytes);
  try {
    return said === null ? text : new TextDecoder(said).decode(bytes);
  } catch (error) {
    if (error instanceof RangeError) return text; // no encoding has that name
    throw error;
  }
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
 * @param {string[]} remarks  on the file as a whole
 * @returns {Found}
 */
function found(format, drafts, remarks) {
  return {
    format,
    stories: drafts.map(({ json, comments = [] }) => withComments(storyOf(json), comments)),
    remarks: [...remarks, ...drafts.flatMap((draft) => draft.remarks)],
  };
}

/** Put a file's comments on their words; one on no words is on the word before it. @param {import("../story.js").Story} story @param {NonNullable<Draft["comments"]>} comments */
function withComments(story, comments) {
  const { head } = story;
  const text = comments.length > 0 ? story.text(head.node, head.at) : "";
  for (const { from, to, text: words, author } of comments.slice(0, MOST)) {
    const [word = "", last = ""] = text.slice(from, to).trim() ? [] : (/(\S+)\s*$/u.exec(text.slice(0, from)) ?? []);
    const range = last
      ? { from: from - word.length, to: from - word.length + last.length }
      : { from, to: Math.max(to, from + 1) };
    const comment = commentOn(story, head, range, words.trim().slice(0, LONGEST));
    story.setMeta(PREFIX + newId(), author ? { ...comment, author: author.slice(0, LONGEST_NAME) } : comment);
  }
  return story;
}

/** @param {string} name */
function nameOf(name) {
  return name === "" ? msg`The pasted text` : quoted(name);
}
