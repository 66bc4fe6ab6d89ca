/**
 * Versions of a lorebook's entries: what an entry says from a place of the story on. Each is a value of the story by itself,
 * `lore_from.ID`, so that two windows that change two of them are merged. A text reads the last version whose place it has;
 * a branch that forked before the place reads the one before it.
 *
 * @typedef {import("../desk/held.js").Held & {entry: string, text: string, made: number}} Version
 * @typedef {import("../story.js").Story} Story
 * @typedef {import("./entries.js").Entry} Entry
 */
import { isHeld, placesIn } from "../desk/held.js";
import { valuesOf } from "../desk/values.js";
import { isCount } from "../story/check.js";
import { MOST } from "./entries.js";

export const FROM = "lore_from.";

/** @param {unknown} value @returns {value is Version} */
function isVersion(value) {
  if (!isHeld(value)) return false;
  const { entry, text, made } = /** @type {any} */ (value);
  return typeof entry === "string" && typeof text === "string" && text.length <= MOST.text && isCount(made);
}

/** The versions of a story's entries by their keys. @param {Story} story @returns {Map<string, Version>} */
export const versionsOf = (story) => valuesOf(story, FROM, isVersion, MOST.entries);

/**
 * Return the versions that a text reads, their keys by the ids of their entries.
 * @param {Map<string, Version>} versions @param {Map<string, number>} places  where they are in the text: `placesIn`
 * @returns {Map<string, string>}
 */
export function readOf(versions, places) {
  /** @type {Map<string, string>} */
  const read = new Map();
  const order = [...places].sort(
    ([one, at], [other, otherAt]) =>
      at - otherAt || made(versions, one) - made(versions, other) || (one < other ? -1 : 1),
  );
  for (const [key] of order) {
    const version = versions.get(key);
    if (version) read.set(version.entry, key);
  }
  return read;
}

/** @param {Map<string, Version>} versions @param {string} key */
const made = (versions, key) => versions.get(key)?.made ?? 0;

/**
 * Return entries with the words that a text reads of them.
 * @param {Story} story @param {Entry[]} entries @param {Map<string, Version>} versions @param {import("../story/types.js").Place} place
 */
export function entriesAt(story, entries, versions, place) {
  const read = readOf(versions, placesIn(story, place, versions));
  const at = entries.map((entry) => {
    const version = versions.get(read.get(entry.id) ?? "");
    return version ? { ...entry, text: version.text } : entry;
  });
  return { entries: at, read };
}
