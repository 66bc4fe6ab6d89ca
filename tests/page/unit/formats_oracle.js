// Oracles for tests of formats: files of stories, the texts that they should have, and random stories.

import { readFileSync } from "node:fs";
import { storyOf } from "../../../srb/page/story/read.js";
import { Random } from "./random.js";

/** @param {string} name of a file in tests/page/stories */
export const bytesOf = (name) => new Uint8Array(readFileSync(new URL(`../stories/${name}`, import.meta.url)));

/** @param {string} name */
export const jsonOf = (name) => JSON.parse(new TextDecoder().decode(bytesOf(name)));

/** @param {unknown} value */
export const encoded = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

/**
 * Return the text of each node of an srb-story, by string slicing alone.
 * @param {any} json
 * @returns {Map<string, string>}
 */
export function textsOf(json) {
  const texts = new Map();
  const left = new Map(Object.entries(json.nodes));
  while (left.size > 0) {
    const before = left.size;
    for (const [id, node] of left) {
      if (node.parent !== undefined && !texts.has(node.parent)) continue;
      const above = texts.get(node.parent) ?? "";
      const rest = node.tail === undefined ? "" : above.slice(node.tail);
      texts.set(id, above.slice(0, node.keep ?? 0) + node.text + rest);
      left.delete(id);
    }
    if (left.size === before) throw new Error("the story has nodes without a root");
  }
  return texts;
}

/** @param {any} json an srb-story */
export const manuscript = (json) => (textsOf(json).get(json.head.node) ?? "").slice(0, json.head.at);

/**
 * Return the text of each path of segments, from a list of [id, parent, text].
 * @param {[unknown, unknown, string][]} segments
 * @returns {string[]} sorted
 */
export function pathTexts(segments) {
  const byId = new Map(segments.map(([id, parent, text]) => [id, { parent, text }]));
  return segments
    .map(([id]) => {
      const parts = [];
      for (let each = byId.get(id); each !== undefined; each = byId.get(each.parent)) parts.push(each.text);
      return parts.reverse().join("");
    })
    .sort();
}

/** @param {any} note an Obsidian Loom note's state */
export const noteSegments = (note) =>
  Object.entries(note.nodes).map(
    ([id, node]) => /** @type {[string, any, string]} */ ([id, node.parentId, node.text ?? node.value]),
  );

const WORDS = ["the ", "lamp ", "saw\n", "🌕 ", "her.\n\n", "שלום ", "<b>", "", "a", "灯台", " – ", "e\u0301"];

/**
 * Return a random story: appended nodes, cuts, edits in the middle, several roots, names and stars.
 * @param {number} seed
 * @param {number} size
 */
export function randomStory(seed, size) {
  const random = new Random(seed);
  const pick = (/** @type {number} */ below) => random.below(below);
  /** @type {Record<string, any>} */
  const nodes = {};
  /** @type {Record<string, any>} */
  const marks = {};
  const texts = new Map();
  const ids = [];
  for (let index = 0; index < size; index += 1) {
    const id = `n${index}`;
    const text = Array.from({ length: pick(4) }, () => WORDS[pick(WORDS.length)]).join("");
    const by = ["person", "model", "import"][pick(3)];
    if (index === 0 || pick(25) === 0) {
      nodes[id] = { text, by, made: index };
      texts.set(id, text);
    } else {
      const parent = pick(3) === 0 ? ids[pick(ids.length)] : ids.at(-1);
      const above = texts.get(parent);
      const keep = pick(3) > 0 ? above.length : whole(above, pick(above.length + 1));
      const tail = pick(4) === 0 ? whole(above, keep + pick(above.length - keep + 1)) : undefined;
      nodes[id] = { parent, keep, text, ...(tail === undefined ? {} : { tail }), by, made: index };
      texts.set(id, above.slice(0, keep) + text + (tail === undefined ? "" : above.slice(tail)));
    }
    if (pick(8) === 0) marks[id] = { star: true, changed: 1 };
    if (pick(12) === 0) marks[id] = { ...marks[id], name: `Chapter ${index}`, changed: 1 };
    ids.push(id);
  }
  const head = ids[pick(ids.length)];
  const at = pick(2) === 0 ? texts.get(head).length : whole(texts.get(head), pick(texts.get(head).length + 1));
  return {
    ...{
      format: "srb-story",
      version: 1,
      id: `story${seed}`,
      title: `Story ${seed}`,
      changed: 1,
      memory: "",
      note: { text: "", depth: 3 },
    },
    ...{ settings: {}, head: { node: head, at }, nodes, runs: {}, marks },
  };
}

/**
 * Return the nearest offset that is not inside a surrogate pair.
 * @param {string} text
 * @param {number} offset
 */
function whole(text, offset) {
  return /[\udc00-\udfff]/.test(text[offset] ?? "") ? offset + 1 : offset;
}

/** A story of these nodes, a person's if they do not say otherwise. @param {Record<string, any>} nodes @param {object} more */
export const storyWith = (nodes, more) =>
  storyOf({
    ...randomStory(1, 1),
    marks: {},
    nodes: Object.fromEntries(Object.entries(nodes).map(([id, node], made) => [id, { by: "person", made, ...node }])),
    ...more,
  });
