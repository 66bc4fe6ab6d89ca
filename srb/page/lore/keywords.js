/**
 * Keywords in a text. A keyword is a whole word, or several: neither letter nor digit stands before or behind it. In scripts that
 * have no spaces between words, any place is a word's edge. Spaces of all kinds, and the two apostrophes, are the same.
 *
 * Each place of the text is looked at once for each length of the keywords that begin with its character, however many they are.
 */

/** @typedef {import("./entries.js").Entry} Entry */
/** @typedef {Map<string, Map<number, Set<string>>>} Index  keywords by their first UTF-16 unit and their length */

const UNSPACED =
  "\\p{scx=Han}\\p{scx=Hiragana}\\p{scx=Katakana}\\p{scx=Thai}\\p{scx=Lao}\\p{scx=Khmer}\\p{scx=Myanmar}";
const OF_A_WORD = new RegExp(`^(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}_]$`, "u");
const MOST_UNITS = 12; // of a word, for the last words of a text: a page of digits, or of a script without spaces, is not endless

export class Keywords {
  /** @param {Entry[]} entries */
  constructor(entries) {
    this.entries = entries.filter(({ off, text }) => !off && text.trim() !== "");
    /** @type {Index} */
    this.folded = new Map();
    /** @type {Index} */
    this.cased = new Map();
    for (const { keys, others, cased } of this.entries)
      for (const key of [...keys, ...others]) add(cased ? this.cased : this.folded, keyOf(key, cased));
  }

  /**
   * Return the entries that a text asks for by its keywords, and by which of them.
   * @param {string} text
   * @returns {Map<string, string>} keywords by ids of entries
   */
  in(text) {
    if (this.entries.length === 0) return new Map();
    const folded = found(normal(text, false), this.folded);
    const cased = found(normal(text, true), this.cased);
    /** @type {Map<string, string>} */
    const asked = new Map();
    for (const { id, keys, others, rule, cased: isCased } of this.entries) {
      const isThere = (/** @type {string} */ key) => (isCased ? cased : folded).has(keyOf(key, isCased));
      const key = keys.find(isThere);
      if (key !== undefined && (others.length === 0 || agrees(rule, others.map(isThere)))) asked.set(id, key);
    }
    return asked;
  }
}

/** @param {import("./entries.js").Rule} rule @param {boolean[]} there */
function agrees(rule, there) {
  const all = there.every(Boolean);
  const any = there.some(Boolean);
  return { any, all, none: !any, "not all": !all }[rule];
}

/** @param {string} text @param {boolean} isCased */
function normal(text, isCased) {
  const plain = text.normalize("NFC").replace(/\s+/g, " ").replaceAll("’", "'");
  return isCased ? plain : plain.toLowerCase();
}

/** @param {string} key @param {boolean} isCased */
const keyOf = (key, isCased) => normal(key, isCased).trim();

/** @param {Index} index @param {string} key */
function add(index, key) {
  if (key === "") return;
  const first = key.charAt(0);
  const lengths = index.get(first) ?? new Map();
  index.set(first, lengths.set(key.length, (lengths.get(key.length) ?? new Set()).add(key)));
}

/** @param {string} text @param {Index} index @returns {Set<string>} */
function found(text, index) {
  const there = new Set();
  if (index.size === 0) return there;
  for (let at = 0; at < text.length; at += 1) {
    const lengths = index.get(text.charAt(at));
    if (lengths === undefined || !isEdge(text, at)) continue;
    for (const [length, keys] of lengths) {
      const word = text.slice(at, at + length);
      if (keys.has(word) && isEdge(text, at + length)) there.add(word);
    }
  }
  return there;
}

/** Whether no word goes on over a place of a text. @param {string} text @param {number} at */
function isEdge(text, at) {
  return !OF_A_WORD.test(characterBefore(text, at)) || !OF_A_WORD.test(characterAt(text, at));
}

/** @param {string} text @param {number} at */
function characterBefore(text, at) {
  const isPair = /[\udc00-\udfff]/.test(text.charAt(at - 1));
  return text.slice(Math.max(0, at - (isPair ? 2 : 1)), at);
}

/** @param {string} text @param {number} at */
const characterAt = (text, at) => String.fromCodePoint(text.codePointAt(at) ?? 0x20);

/**
 * Return where the last words of a text begin.
 * @param {string} text
 * @param {number} end
 * @param {number} words
 */
export function lastWords(text, end, words) {
  const least = Math.max(0, end - words * MOST_UNITS);
  let at = end;
  for (let count = 0; count < words && at > least; count += 1) {
    while (at > least && isSpace(text, at - 1)) at -= 1;
    while (at > least && !isSpace(text, at - 1)) at -= 1;
  }
  return at;
}

/** @param {string} text @param {number} at */
const isSpace = (text, at) => text.charAt(at).trim() === "";
