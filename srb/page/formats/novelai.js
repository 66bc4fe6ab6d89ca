/** NovelAI's stories, of the older editor and of today's, whose document is packed as MessagePack, and its scenarios. */
import { msg, NUMBER } from "../languages.js";
import { fromBase64 } from "../media.js";
import { isCount, isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { isWhole } from "../story/text.js";
import { listOf, objectOf, optionalText, textOf, titleOf } from "./file.js";
import { ofNovelAi } from "./lorebooks.js";
import { unpack } from "./msgpack.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Opened} from "./types.js" */

const AUTHORS = { user: "person", prompt: "person", edit: "person", ai: "model" };
/** The same by the numbers that a document has. @type {Record<number, "person" | "model">} */
const NUMBERED = { 1: "person", 2: "model", 3: "person" };
const ORIGINS = 1; // key of the authors in what a paragraph says of its text

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value: file, name }) {
  const isScenario = file.scenarioVersion !== undefined;
  const content = isScenario ? file : objectOf(file.content, msg`The story's “content”`);
  const metadata = isScenario ? file : objectOf(file.metadata ?? {}, msg`The story's “metadata”`);
  const tree = new SegmentTree();
  const { fragments, remarks } = isScenario
    ? { fragments: [{ text: optionalText(file.prompt, msg`The prompt`), by: "person" }], remarks: [] }
    : fragmentsOf(content);
  for (const { text, by } of fragments) {
    if (text === "") continue;
    const parent = tree.size === 0 ? null : tree.size - 1;
    tree.add(tree.size, { parent, text, by: /** @type {any} */ (by), marks: { seen: true } });
  }
  if (tree.size === 0) throw new StoryError(msg`The story holds no text.`);
  const [memory, note] = listOf(content.context, msg`The list “context”`).map((each, index) =>
    optionalText(objectOf(each, msg`Part ${index + 1} of “context”`).text, msg`Part ${index + 1} of “context”`),
  );
  const lore = ofNovelAi(objectOf(content.lorebook ?? {}, msg`The story's lorebook`));
  const title = optionalText(metadata.title, msg`The story's title`) || titleOf(name);
  const draft = tree.draft({ title, current: tree.size - 1, memory, note: { text: note ?? "", depth: 3 }, lore });
  return [{ ...draft, remarks: [...draft.remarks, ...remarks] }];
}

/** @typedef {{fragments: {text: string, by: string}[], remarks: string[]}} Fragments */

/**
 * @param {Record<string, unknown>} content
 * @returns {Fragments}
 */
function fragmentsOf({ story, document }) {
  if (!isRecord(story) && typeof document === "string") return fragmentsIn(document);
  const fragments = listOf(objectOf(story, msg`The story's text`).fragments, msg`The list of fragments`).map(
    (each, index) => {
      const { data, origin } = objectOf(each, msg`Fragment ${index + 1}`);
      return {
        text: textOf(data, msg`Fragment ${index + 1}`),
        by: AUTHORS[/** @type {keyof typeof AUTHORS} */ (origin)] ?? "import",
      };
    },
  );
  return { fragments, remarks: [] };
}

/**
 * Read a document: its sections are paragraphs, in an order of their own. Of changes that it calls dirty nobody has said whether the sections
 * have them already, so these are taken as they stand, and the person is told.
 * @param {string} document
 * @returns {Fragments}
 */
function fragmentsIn(document) {
  const { sections, order, history, dirtySections } = objectOf(unpack(bytesOf(document)), msg`The story's document`);
  if (!(sections instanceof Map) || !Array.isArray(order))
    throw new StoryError(msg`The story's document holds no paragraphs.`);
  /** @type {Fragments["fragments"]} */
  const fragments = [];
  let others = 0;
  for (const id of order) {
    const section = sections.get(id);
    if (!isRecord(section) || typeof section.text !== "string") others += 1;
    else {
      const gap = fragments.length > 0 ? "\n" : "";
      const pieces = section.text === "" ? [{ text: "", by: "import" }] : piecesOf(section.text, section.meta);
      fragments.push(...pieces.map(({ text, by }, index) => ({ text: (index === 0 ? gap : "") + text, by })));
    }
  }
  const remarks = [];
  if (others === 1) remarks.push(msg`1 part that is no text was left out.`);
  if (others > 1) remarks.push(msg`${NUMBER.format(others)} parts that are no text were left out.`);
  if (dirtySections instanceof Map && dirtySections.size > 0)
    remarks.push(msg`It was saved amid a change: look whether the last one is in the text.`);
  const nodes = isRecord(history) ? history.nodes : undefined;
  if (nodes instanceof Map && nodes.size > 1)
    remarks.push(msg`Its history, with what was tried again or taken back, was left out.`);
  return { fragments, remarks };
}

/** @param {string} document */
function bytesOf(document) {
  try {
    return fromBase64(document);
  } catch (error) {
    throw new StoryError(msg`The story's document ${/** @type {Error} */ (error).message}.`, { cause: error });
  }
}

/**
 * Cut a paragraph where its author changes.
 * @param {string} text @param {unknown} meta  a map that has a list of stretches, each with its author's number
 * @returns {Fragments["fragments"]}
 */
function piecesOf(text, meta) {
  const stretches = meta instanceof Map && Array.isArray(meta.get(ORIGINS)) ? meta.get(ORIGINS) : [];
  const pieces = [];
  let at = 0;
  for (const stretch of stretches) {
    const { position, length, data } = isRecord(stretch) ? stretch : {};
    if (!isCount(position) || !isCount(length) || position < at) continue;
    if (position > at) pieces.push({ text: text.slice(at, position), by: "import" });
    at = Math.min(position + length, text.length);
    pieces.push({ text: text.slice(position, at), by: NUMBERED[typeof data === "number" ? data : 0] ?? "import" });
  }
  if (at < text.length) pieces.push({ text: text.slice(at), by: "import" });
  const isCut = pieces.some((piece) => !isWhole(piece.text)); // within a character
  return isCut ? [{ text, by: "import" }] : pieces.filter((piece) => piece.text !== "");
}
