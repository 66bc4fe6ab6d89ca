/** Saves of KoboldAI: of Lite, of the client's old and new interface, and shared texts. A story there is a list of chunks. */
import { msg } from "../languages.js";
import { isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { isHigh, whole } from "../story/text.js";
import { listOf, objectOf, optionalText, textOf, titleOf } from "./file.js";
import { ofKobold } from "./lorebooks.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Key, Opened} from "./types.js" */

const IMAGES = /\[<\|([phd])\|.+?\|\1\|>\]/g; // marks of pictures inside the text

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  const chunks = new ChunkTree();
  const { list, rivals, last } = chunksOf(file);
  let end = /** @type {number | null} */ (null);
  let current = end;
  for (const [index, chunk] of mended(list).entries()) {
    const parent = end;
    end = chunks.add(parent, chunk, index === 0);
    if (index <= last) current = end;
    for (const rival of rivals.get(index) ?? []) chunks.add(parent, rival, false);
  }
  for (const branch of listOf(file.altbranches, msg`The list of other branches`)) {
    let above = /** @type {number | null} */ (null);
    for (const [index, chunk] of mended(listOf(branch, msg`A branch`)).entries())
      above = chunks.add(above, chunk, index === 0);
  }
  if (chunks.tree.size === 0) throw new StoryError(msg`The save holds no text.`);
  const draft = chunks.tree.draft({
    title: optionalText(file.story_name, msg`The story's name`) || titleOf(name),
    current: current ?? undefined,
    memory: optionalText(file.memory ?? file.cm, msg`The memory`),
    note: {
      ...noteOf(file),
      depth: Number.isInteger(file.andepth) && file.andepth >= 0 ? Math.min(file.andepth, 100) : 3,
    },
    lore: loreOf(file),
  });
  draft.remarks.push(...remarksOn(file, chunks.pictures.size));
  return [draft];
}

/** Chunks of several lists, as a tree: lists that begin alike share their beginning. */
class ChunkTree {
  tree = new SegmentTree();
  /** @type {Map<Key | null, Map<string, number>>} */
  #below = new Map();
  /** @type {Set<Key | null>} chunks after which the model's words are next */
  #asked = new Set();
  /** @type {Set<string>} marks of pictures that were left out */
  pictures = new Set();

  /**
   * @param {number | null} parent
   * @param {unknown} chunk
   * @param {boolean} first  of its list, typed by a person
   * @returns {number | null} the chunk's key; an empty chunk is none
   */
  add(parent, chunk, first) {
    const text = textOf(chunk, msg`Chunk ${this.tree.size + 1}`).replace(IMAGES, (mark) => {
      this.pictures.add(mark);
      return "";
    });
    if (text === "") return parent;
    const siblings = this.#below.get(parent) ?? new Map();
    const before = siblings.get(text);
    if (before !== undefined) return before;
    const key = this.tree.size;
    this.#below.set(parent, siblings.set(text, key));
    const typed = first || /^\s*(\{\{\[INPUT\]\}\}|> )/.test(text);
    const by = typed ? "person" : this.#asked.has(parent) ? "model" : "import";
    this.tree.add(key, { parent, text, by, marks: { seen: true } });
    if (/\{\{\[OUTPUT\]\}\}\s*$/.test(text)) this.#asked.add(key);
    return key;
  }
}

/**
 * Return the chunks of the story, and for some of them those that might have stood in their place.
 * @param {Record<string, any>} file
 * @returns {{list: unknown[], rivals: Map<number, unknown[]>, last: number}}  last: the chunk with which the manuscript ends; those
 *   behind it were taken back
 */
function chunksOf(file) {
  if (Array.isArray(file.ga)) return { list: file.ga, rivals: new Map(), last: file.ga.length };
  const prompt = file.prompt;
  const newer = isRecord(file.actions);
  const inner = newer ? file.actions.actions : file.actions;
  const actions = newer && isRecord(inner) ? Object.values(inner) : listOf(inner, msg`The list of actions`);
  const about = newer
    ? actions.entries()
    : Object.entries(isRecord(file.actions_metadata) ? file.actions_metadata : {});
  /** @type {Map<number, unknown[]>} */
  const rivals = new Map();
  for (const [key, action] of about) {
    const others = isRecord(action)
      ? listOf(action.Options ?? action["Alternative Text"], msg`A list of alternatives`)
      : [];
    rivals.set(Number(key) + 1, others.map(textOfRival));
  }
  const texts = newer ? actions.map((each) => objectOf(each, msg`An action`)["Selected Text"]) : actions;
  const count = newer ? file.actions.action_count : undefined;
  return { list: [prompt, ...texts], rivals, last: Number.isInteger(count) && count >= 0 ? count + 1 : texts.length };
}

/**
 * Return chunks that a program has cut within a character, or left out, as texts: halves are joined, and one alone is no character.
 * @param {unknown[]} chunks
 */
function mended(chunks) {
  let half = "";
  return chunks.map((chunk, index) => {
    if (chunk === null || chunk === undefined) return "";
    if (typeof chunk !== "string") return chunk; // refused by its number
    const text = half + chunk;
    half = isHigh(text.charCodeAt(text.length - 1)) && index < chunks.length - 1 ? text.slice(-1) : "";
    return whole(text.slice(0, text.length - half.length));
  });
}

/** @param {unknown} rival */
function textOfRival(rival) {
  const { text, Text } = objectOf(rival, msg`An alternative`);
  return text ?? Text;
}

/**
 * Return the author's note, and what stood around it.
 * @param {Record<string, any>} file
 */
function noteOf(file) {
  const text = optionalText(file.authorsnote ?? file.authornote ?? file.ca, msg`The author's note`);
  const frame = optionalText(
    file.anotetemplate ?? file.authornotetemplate ?? file.ct,
    msg`The author's note's template`,
  ).trim();
  return text !== "" && frame.includes("<|>") ? { text, frame } : { text };
}

/** The world info; a list in which an entry may be missing. @param {Record<string, any>} file */
function loreOf(file) {
  const world = file.worldinfo ?? file.cwi ?? (isRecord(file.worldinfo_v2) ? file.worldinfo_v2.entries : null);
  const list = isRecord(world) ? Object.values(world) : listOf(world, msg`The world info`);
  return ofKobold(list.filter((each) => each !== null && each !== undefined));
}

/** @param {Record<string, any>} file @param {number} pictures */
function remarksOn(file, pictures) {
  const remarks = [];
  if (pictures > 0) remarks.push(msg`Pictures (${pictures}) were left out.`);
  if (file.personal_notes) remarks.push(msg`The personal notes were left out.`);
  return remarks;
}
