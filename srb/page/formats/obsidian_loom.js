/** Notes of Obsidian Loom: segments by id. A plugin's data.json holds many notes, a file that it exports holds one. */
import { msg, NUMBER } from "../languages.js";
import { StoryError } from "../story/read.js";
import { objectOf, quoted, titleOf } from "./file.js";
import { cutsOf } from "./segment_cuts.js";
import { SegmentTree } from "./segments.js";
import { isNote } from "./signs.js";

/**
 * @import {Cut} from "./segment_cuts.js"
 * @import {Draft, Opened, Story} from "./types.js"
 */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  if (isNote(file)) return [readNote(file, titleOf(name))];
  const notes = Object.entries(objectOf(file.state, msg`The list of notes`));
  const written = notes.filter(([, note]) => isNote(note) && Object.keys(/** @type {any} */ (note).nodes).length > 0);
  const drafts = written.map(([path, note]) => readOneOf(path, note));
  const first = drafts[0];
  if (first === undefined) throw new StoryError(msg`None of the notes in this file has a node.`);
  const empty = notes.length - written.length;
  if (empty === 1) first.remarks.push(msg`1 note without nodes was left out.`);
  if (empty > 1) first.remarks.push(msg`${NUMBER.format(empty)} notes without nodes were left out.`);
  return drafts;
}

/**
 * @param {string} path
 * @param {unknown} note
 */
function readOneOf(path, note) {
  try {
    return readNote(note, titleOf(path));
  } catch (error) {
    if (error instanceof StoryError) throw new StoryError(msg`Note ${quoted(path)}: ${error.message}`);
    throw error;
  }
}

/**
 * @param {any} note
 * @param {string} title
 * @returns {Draft}
 */
function readNote(note, title) {
  const tree = new SegmentTree();
  const list = Array.isArray(note.nodes) ? note.nodes.map(withId) : Object.entries(note.nodes);
  for (const [id, value] of list) {
    const node = objectOf(value, msg`Node ${quoted(id)}`);
    tree.add(id, {
      parent: node.parentId === null || node.parentId === undefined ? null : String(node.parentId),
      text: node.text ?? node.value, // early versions called it so
      by: isModel(node.author) ? "model" : "import",
      marks: { star: node.bookmarked === true, folded: node.collapsed === true, seen: node.unread === false },
    });
  }
  if (tree.size === 0) throw new StoryError(msg`This file of Obsidian Loom has no nodes.`);
  return tree.draft({ title, current: note.current });
}

/**
 * @param {unknown} node
 * @param {number} index
 * @returns {[string, unknown]}
 */
function withId(node, index) {
  return [String(objectOf(node, msg`Node ${index + 1}`).id), node];
}

/** @param {unknown} author  absent in files of today; once a model's name, or one of two words for a person */
function isModel(author) {
  return typeof author === "string" && author !== "" && author !== "genesis" && author !== "N/A";
}

/**
 * Return one note's state, which the plugin imports.
 * @param {Story} story
 * @returns {string}
 */
export function writeObsidianLoom(story) {
  const { segments, head } = cutsOf(story);
  const ids = new Map(segments.map((cut) => [cut, uuid()]));
  const nodes = Object.fromEntries(segments.map((cut) => [ids.get(cut), nodeOf(story, cut, ids)]));
  const note = { current: ids.get(head), hoisted: [], searchTerm: "", nodes, generating: null };
  return `${JSON.stringify(note, null, 2)}\n`;
}

/**
 * @param {Story} story
 * @param {Cut} cut
 * @param {Map<Cut, string>} ids
 */
function nodeOf(story, { parent, text, ends }, ids) {
  const marks = [...ends].map((id) => story.mark(id));
  return {
    text,
    parentId: parent === null ? null : ids.get(parent),
    collapsed: marks.some(({ folded }) => folded === true),
    unread:
      ends.size > 0 && [...ends].every((id) => story.nodes.get(id)?.by === "model" && story.mark(id).seen !== true),
    bookmarked: marks.some(({ star }) => star === true),
    searchResultState: null,
  };
}

/** Return a random UUID; crypto.randomUUID needs a secure context. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (Number(bytes[6]) & 0x0f) | 0x40;
  bytes[8] = (Number(bytes[8]) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
