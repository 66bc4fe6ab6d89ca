/** Trees of socketteer's loom (pyloom): nodes nested in nodes, with chapters; also its simple form of text and children only. */
import { msg, NUMBER } from "../languages.js";
import { isRecord } from "../story/check.js";
import { listOf, objectOf, optionalText, titleOf } from "./file.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Key, Marks, Opened} from "./types.js" */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  const tree = new SegmentTree();
  const chapters = titles(file.chapters);
  /** @type {Key | undefined} */
  let current;
  const memories = { count: 0 };
  /** @type {{node: unknown, parent: number | null}[]} */
  const waiting = [{ node: isRecord(file.root) ? file.root : file, parent: null }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const key = tree.size;
    const node = objectOf(next.node, msg`Node ${key + 1}`);
    const text = optionalText(node.text, msg`The text of node ${key + 1}`);
    const { by, made } = origin(node.meta);
    tree.add(key, { parent: next.parent, text, by, made, marks: marksOf(node, chapters) });
    if (typeof node.id === "string" && node.id === file.selected_node_id) current = key;
    if (node.memory || node.memories) memories.count += 1;
    const children = listOf(node.children, msg`The children of node ${key + 1}`);
    for (let index = children.length - 1; index >= 0; index -= 1) waiting.push({ node: children[index], parent: key });
  }
  const draft = tree.draft({ title: titleOf(name), current, memory: contextOf(file) });
  if (memories.count === 1) draft.remarks.push(msg`Memories of 1 node were left out.`);
  if (memories.count > 1) draft.remarks.push(msg`Memories of ${NUMBER.format(memories.count)} nodes were left out.`);
  return [draft];
}

/**
 * @param {unknown} chapters
 * @returns {Map<string, string>} the title of each chapter's id
 */
function titles(chapters) {
  const entries = Object.entries(
    chapters === undefined || chapters === null ? {} : objectOf(chapters, msg`The list of chapters`),
  );
  return new Map(
    entries.map(([id, chapter]) => [id, optionalText(objectOf(chapter, msg`A chapter`).title, msg`A chapter's title`)]),
  );
}

/**
 * @param {unknown} meta
 * @returns {{by: "person" | "model" | "import", made?: number}}
 */
function origin(meta) {
  if (!isRecord(meta)) return { by: "import" };
  const by = meta.source === "AI" ? "model" : meta.source === "prompt" ? "person" : "import";
  return { by, made: timeOf(meta.creation_timestamp) };
}

/**
 * Return the time of a stamp such as 2023-02-26-10.29.33, which is local.
 * @param {unknown} stamp
 */
function timeOf(stamp) {
  const parts = typeof stamp === "string" ? /^(\d{4})-(\d\d)-(\d\d)-(\d\d)\.(\d\d)\.(\d\d)$/.exec(stamp) : null;
  if (parts === null) return undefined;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts.slice(1).map(Number);
  return new Date(year, month - 1, day, hour, minute, second).getTime();
}

/**
 * @param {Record<string, any>} node
 * @param {Map<string, string>} chapters
 * @returns {Marks}
 */
function marksOf(node, chapters) {
  const tags = Array.isArray(node.tags) ? node.tags : [];
  return {
    name: chapters.get(node.chapter_id) ?? "",
    star: node.bookmark === true || tags.includes("bookmark"),
    pruned: node.archived === true || tags.includes("archived"),
    folded: (node.open === false || node.open === 0) && node.children?.length > 0,
    seen: node.visited === true,
  };
}

/** @param {Record<string, any>} file */
function contextOf(file) {
  const settings = file.generation_settings;
  return isRecord(settings) ? optionalText(settings.global_context, msg`The global context`) : "";
}
