/** Sessions of mikupad: an object whose values are JSON texts; its prompt is a list of chunks, typed and generated. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { listOf, objectOf, optionalText, parse, titleOf } from "./file.js";
import { ofMikupad } from "./lorebooks.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Opened} from "./types.js" */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  const tree = new SegmentTree();
  for (const { by, texts } of runsOf(field(file, "prompt"))) {
    tree.add(tree.size, {
      parent: tree.size === 0 ? null : tree.size - 1,
      text: texts.join(""),
      by,
      marks: { seen: true },
    });
  }
  if (tree.size === 0) throw new StoryError(msg`The mikupad session holds no text.`);
  const draft = tree.draft({
    title: optionalText(field(file, "name"), msg`The session's name`) || titleOf(name),
    current: tree.size - 1,
    memory: memoryOf(field(file, "memoryTokens")),
    note: {
      ...noteOf(field(file, "authorNoteTokens")),
      depth: depthOf(field(file, "authorNoteDepth")),
    },
    lore: ofMikupad(objectOf(field(file, "worldInfo") ?? {}, msg`The world info`)),
  });
  return [draft];
}

/**
 * Return one field, which is JSON in a text.
 * @param {Record<string, unknown>} file
 * @param {string} name
 * @returns {any}
 */
function field(file, name) {
  const value = file[name];
  return typeof value === "string" ? parse(value, msg`The session's field “${name}”`) : value;
}

/**
 * Return the stretches of one author: a generated token is a chunk of its own, but no node.
 * @param {unknown} prompt
 */
function runsOf(prompt) {
  const chunks = typeof prompt === "string" ? [{ type: "user", content: prompt }] : listOf(prompt, msg`The prompt`);
  /** @type {{by: "person" | "model", texts: string[]}[]} */
  const runs = [];
  for (const [index, each] of chunks.entries()) {
    const chunk = objectOf(each, msg`Chunk ${index + 1} of the prompt`);
    if (chunk.content === undefined || chunk.content === "") continue;
    if (typeof chunk.content !== "string") throw new StoryError(msg`Chunk ${index + 1} of the prompt has no text.`);
    const by = chunk.type === "user" ? "person" : "model";
    const last = runs.at(-1);
    if (last?.by === by) last.texts.push(chunk.content);
    else runs.push({ by, texts: [chunk.content] });
  }
  return runs;
}

/**
 * Return the memory as it was sent, with what stood around it.
 * @param {unknown} value
 */
function memoryOf(value) {
  const { text, frame } = partsOf(value, msg`The memory`);
  return text === "" ? "" : frame.replace("<|>", () => text).trim();
}

/** @param {unknown} value */
function noteOf(value) {
  const { text, frame } = partsOf(value, msg`The author's note`);
  return text === "" ? { text } : { text, frame };
}

/**
 * @param {unknown} value  a text, and what stands around it in the prompt
 * @param {string} where  names it in an error
 */
function partsOf(value, where) {
  const { text, prefix, suffix } = objectOf(value ?? {}, where);
  const [before, after] = [prefix, suffix].map((each) => optionalText(each, where).replaceAll("\\n", "\n"));
  return { text: optionalText(text, msg`${where}'s text`), frame: `${before}<|>${after}`.trim() };
}

/** @param {unknown} depth */
function depthOf(depth) {
  return Number.isInteger(depth) && Number(depth) >= 0 ? Math.min(Number(depth), 100) : 3;
}
