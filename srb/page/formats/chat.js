/** Chats of SillyTavern (.jsonl): a line each for the chat and for its messages. A message's swipes are what might have stood there. */
import { msg, NUMBER } from "../languages.js";
import { isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { listOf, objectOf, optionalText, parse, textOf, titleOf } from "./file.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Opened} from "./types.js" */

const MOST_LINES = 100_000;

/** @param {Opened} opened @returns {Draft[]} */
export function read({ text, name }) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length > MOST_LINES)
    throw new StoryError(msg`The chat has more than ${NUMBER.format(MOST_LINES)} messages.`);
  const values = lines.map((line, index) => objectOf(parse(line, lineNumber(index)), lineNumber(index)));
  const head = values[0]?.mes === undefined ? (values.shift() ?? {}) : {};
  const first = lines.length - values.length;
  const tree = new SegmentTree();
  let end = /** @type {number | null} */ (null);
  let hidden = 0;
  const speakers = new Set(values.filter(({ is_user, is_system }) => !is_user && !is_system).map(({ name }) => name));
  const isGroup = speakers.size > 1;
  for (const [index, message] of values.entries()) {
    const where = lineNumber(index + first);
    if (message.is_system === true) hidden += 1;
    else end = add(tree, end, isGroup ? spoken(message) : message, where);
  }
  if (tree.size === 0) throw new StoryError(msg`The chat holds no message.`);
  const metadata = isRecord(head.chat_metadata) ? head.chat_metadata : {};
  const depth =
    Number.isInteger(metadata.note_depth) && Number(metadata.note_depth) >= 0
      ? Math.min(Number(metadata.note_depth), 100)
      : 3;
  const draft = tree.draft({
    title: titleOf(name) || optionalText(head.character_name, msg`The character's name`),
    current: end ?? undefined,
    note: { text: optionalText(metadata.note_prompt, msg`The author's note`), depth },
  });
  if (hidden === 1) draft.remarks.push(msg`1 hidden message was left out.`);
  if (hidden > 1) draft.remarks.push(msg`${NUMBER.format(hidden)} hidden messages were left out.`);
  return [draft];
}

/** A message of a group, which says who speaks. @param {Record<string, any>} message @returns {Record<string, any>} */
function spoken({ name, mes, swipes, ...rest }) {
  const said = (/** @type {unknown} */ text) =>
    typeof text === "string" && text.trim() ? `${name}: ${text.trim()}` : text;
  return { ...rest, mes: said(mes), swipes: Array.isArray(swipes) ? swipes.map(said) : swipes };
}

/**
 * Add a message and its swipes.
 * @param {SegmentTree} tree
 * @param {number | null} parent
 * @param {Record<string, any>} message
 * @param {string} where
 * @returns {number | null} the key of the message; one without words is none
 */
function add(tree, parent, message, where) {
  const said = textOf(message.mes, msg`${where}: its text`);
  const swipes = listOf(message.swipes, msg`${where}: its swipes`).map((each) =>
    optionalText(each, msg`${where}: a swipe`),
  );
  const texts = [...new Set([said, ...swipes])].filter((each) => each.trim() !== "");
  const by = message.is_user === true ? "person" : "model";
  const made = Date.parse(String(message.send_date));
  let key = parent;
  for (const [index, text] of texts.entries()) {
    const own = tree.size;
    tree.add(own, {
      parent,
      text: parent === null ? text.trim() : `\n\n${text.trim()}`,
      by,
      ...(Number.isFinite(made) ? { made: made + index } : {}),
      marks: { seen: true },
    });
    if (text === said) key = own;
  }
  return key;
}

/** @param {number} index */
const lineNumber = (index) => msg`Line ${index + 1} of the chat`;
