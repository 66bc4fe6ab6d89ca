/**
 * Finds the format of a file and reads it: a whole story or several, or nothing and a sentence that says why. In a browser that is
 * done by a worker, which can be ended, so that no file keeps the page busy.
 */

import { commentOn, LONGEST, MOST, PREFIX } from "../desk/comments.js";
import { msg } from "../languages.js";
import { StoryError, storyOf } from "../story/read.js";
import { newId } from "../story.js";
import { isArchive, namesIn } from "./archive.js";
import { BEGINNING, checkSize, decode, parse, quoted, takeRemarks } from "./file.js";
import { IMPORTERS } from "./importers.js";
import { CARD } from "./signs.js";
import { draftsByWorker } from "./workers.js";

/** @import {Draft, Opened} from "./types.js" */

const LONGEST_NAME = 200; // of a comment's author

/**
 * @typedef {object} Found
 * @property {string} format  the program's name, or "text" or "Markdown"
 * @property {import("../story.js").Story[]} stories
 * @property {string[]} remarks  sentences on what of the file is not in the stories
 *
 * @typedef {{format: string, drafts: Draft[], remarks: string[]}} Drafts  `remarks`: on the file as a whole
 */

/** @implements {Opened} */
class OpenedFile {
  /** @type {Set<string> | null | undefined} */
  #parts;
  /** @type {ReturnType<typeof decode> | undefined} */
  #decoded;
  /** @type {{value: unknown} | undefined} */
  #parsed;

  /** @param {string} name @param {Uint8Array} bytes */
  constructor(name, bytes) {
    checkSize(name, bytes.length, new TextDecoder().decode(bytes.subarray(0, BEGINNING)));
    this.name = name;
    this.bytes = bytes;
  }

  get parts() {
    if (this.#parts === undefined) this.#parts = isArchive(this.bytes) ? namesIn(this.bytes, this.name) : null;
    return this.#parts;
  }

  get text() {
    return this.decoded.text;
  }

  get encoding() {
    return this.decoded.encoding;
  }

  /** Sentences on bytes that are damaged; none for a file whose text was not asked for. */
  get remarks() {
    return this.#decoded?.remarks ?? [];
  }

  get value() {
    this.#parsed ??= { value: valueOf(this.text, this.name) };
    return this.#parsed.value;
  }

  get decoded() {
    if (this.#decoded) return this.#decoded;
    if (this.parts?.has(CARD)) throw isLorebook(this.name);
    if (this.parts !== null)
      throw new StoryError(
        msg`${nameOf(this.name)} is an archive, but no Word file (.docx), OpenDocument, EPUB, project of Scrivener or novelWriter, or folder of Markdown.`,
      );
    this.#decoded = decode(this.bytes, this.name === "" ? msg`The pasted text` : this.name);
    if (this.#decoded.text.trim() === "") throw new StoryError(msg`${nameOf(this.name)} is empty.`);
    return this.#decoded;
  }
}

/**
 * Read a file of any known format.
 * @param {string} name  of the file; pasted text has none
 * @param {Uint8Array} bytes
 * @param {AbortSignal} [signal]  gives up
 * @returns {Promise<Found | {error: string}>}
 */
export async function read(name, bytes, signal) {
  const drafts = (await draftsByWorker(name, bytes, signal)) ?? (await draftsIn(name, bytes));
  return "error" in drafts ? drafts : said(name, () => storiesOf(drafts));
}

/**
 * Read a file, whoever waits meanwhile.
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {Promise<Drafts | {error: string}>}
 */
export function draftsIn(name, bytes) {
  return said(name, async () => {
    const file = new OpenedFile(name, bytes);
    const importer = IMPORTERS.find((each) => each.knows(file));
    if (importer === undefined) throw await unknown(file);
    const module = await loaded(importer.load);
    takeRemarks(); // those of a file that was refused
    const drafts = module.read(file);
    return { format: importer.label, drafts, remarks: [...file.remarks, ...takeRemarks()] };
  });
}

/** @template T @param {string} name @param {() => T | Promise<T>} work @returns {Promise<T | {error: string}>} the sentence of what it throws */
async function said(name, work) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoryError) return { error: error.message };
    if (error instanceof RangeError)
      return { error: msg`${nameOf(name)} is too large or nested too deeply to be read.` };
    throw error;
  }
}

/** Load a module; the server may be away. @template T @param {() => Promise<T>} load */
async function loaded(load) {
  try {
    return await load();
  } catch (cause) {
    throw new StoryError(msg`This part of the page could not be loaded. Try again when the server is back.`, { cause });
  }
}

/** @param {string} name */
const isLorebook = (name) =>
  new StoryError(msg`${nameOf(name)} is a lorebook: open a story, and import it in the side panel, under Lorebook.`);

/** The error for JSON of no known format. @param {Opened} file */
async function unknown({ name, value }) {
  const { lorebookOf } = await loaded(() => import("./lorebooks.js"));
  if (lorebookOf(value) !== null) return isLorebook(name);
  const labels = IMPORTERS.filter(({ isJson }) => isJson).map(({ label }) => label);
  return new StoryError(
    msg`${nameOf(name)} is JSON, but no story of ${labels.slice(0, -1).join(", ")} or ${labels.at(-1)}.`,
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

/** @param {Drafts} drafts @returns {Found} */
function storiesOf({ format, drafts, remarks }) {
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
