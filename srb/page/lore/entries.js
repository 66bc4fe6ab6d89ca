/**
 * The entries of a story's lorebook. Each is a value of the story by itself, `lore.ID`: two windows that change two entries are
 * merged, and a version of the page that knows no lorebook keeps them.
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {string} name
 * @property {string[]} keys  keywords: the model reads the entry while one of them is in the last words of the text
 * @property {string} text  what it reads
 * @property {boolean} always  it is read in every round, whatever is in the text
 * @property {boolean} off
 * @property {boolean} cased  capitals count in the keywords
 * @property {number} order  where not all fit, those of a higher order go first; they stand nearer to the text's end
 * @property {string[]} others  second keywords …
 * @property {Rule} rule  … of which so many have to be there as well
 *
 * @typedef {"any" | "all" | "none" | "not all"} Rule
 */
import { msg } from "../languages.js";
import { isRecord } from "../story/check.js";

export const PREFIX = "lore.";
/** Of a lorebook and its entries; texts in characters. An entry of the largest is a value that the server takes. */
export const MOST = Object.freeze({ entries: 2000, keys: 64, key: 120, name: 200, text: 20_000, order: 1_000_000 });
export const ORDER = 100; // of an entry that does not say

/** @type {readonly Rule[]} */
export const RULES = ["any", "all", "none", "not all"];

/** @type {Omit<Entry, "id">} */
const EMPTY = {
  name: "",
  keys: [],
  text: "",
  always: false,
  off: false,
  cased: false,
  order: ORDER,
  others: [],
  rule: "any",
};

/** @param {Partial<Omit<Entry, "id">>} [given] @returns {Omit<Entry, "id">} without fields that are no entry's */
export function entryOf(given = {}) {
  return /** @type {any} */ (
    Object.fromEntries(Object.entries(EMPTY).map(([name, value]) => [name, /** @type {any} */ (given)[name] ?? value]))
  );
}

/**
 * Say what is wrong with an entry.
 * @param {unknown} value
 * @param {string} where  names the entry, as the beginning of a sentence
 * @returns {string} "" if nothing is
 */
export function faultOfEntry(value, where) {
  if (!isRecord(value)) return msg`${where} is not an object.`;
  for (const name of /** @type {const} */ (["name", "text"])) {
    const text = value[name] ?? "";
    if (typeof text !== "string") return msg`${where}: “${name}” is not a text.`;
    if (text.length > MOST[name])
      return msg`${where}: “${name}” has ${text.length} characters; it may have ${MOST[name]}.`;
  }
  for (const name of ["keys", "others"]) {
    const keys = value[name] ?? [];
    if (!Array.isArray(keys) || keys.some((key) => typeof key !== "string"))
      return msg`${where}: “${name}” is not a list of texts.`;
    if (keys.length > MOST.keys) return msg`${where}: “${name}” has ${keys.length} keywords; it may have ${MOST.keys}.`;
    const long = keys.find((key) => key.length > MOST.key);
    if (long !== undefined)
      return msg`${where}: a keyword of “${name}” has ${long.length} characters; it may have ${MOST.key}.`;
  }
  for (const name of ["always", "off", "cased"])
    if (value[name] !== undefined && typeof value[name] !== "boolean")
      return msg`${where}: “${name}” is neither true nor false.`;
  const { order = ORDER, rule = "any" } = value;
  if (typeof order !== "number" || !(Math.abs(order) <= MOST.order))
    return msg`${where}: “order” is not a number between -${MOST.order} and ${MOST.order}.`;
  if (!RULES.includes(/** @type {any} */ (rule))) return msg`${where}: “rule” is none of ${RULES.join(", ")}.`;
  return "";
}

/**
 * Return a story's entries, the highest order first; what another program or version has put there and is no entry is none.
 * @param {import("../story.js").Story} story
 * @returns {Entry[]}
 */
export function entriesOf(story) {
  /** @type {Entry[]} */
  const entries = [];
  for (const [key, value] of Object.entries(story.stampsOf(null).values)) {
    if (!key.startsWith(PREFIX) || faultOfEntry(value, "") !== "") continue;
    entries.push({ ...entryOf(/** @type {any} */ (value)), id: key.slice(PREFIX.length) });
    if (entries.length === MOST.entries) break;
  }
  return entries.sort((a, b) => b.order - a.order || compare(nameOf(a), nameOf(b)) || compare(a.id, b.id));
}

/** @param {string} a @param {string} b */
const compare = (a, b) => a.localeCompare(b, "en");

/** What an entry is called: by its name, else by its keywords. @param {Pick<Entry, "name" | "keys">} entry */
export function titleOf(entry) {
  return nameOf(entry) || msg`Untitled`;
}

/** @param {Pick<Entry, "name" | "keys">} entry */
const nameOf = ({ name, keys }) => name.trim() || keys.join(", ");
