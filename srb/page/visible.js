// Text as it is shown: characters that a reader cannot see are replaced by signs, one unit by one, so that offsets stay.

const HIDDEN = // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** Replace control characters, and those that turn the direction of writing. @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, sign);
}

/** The sign of a hidden character: ␛ for an escape, ⇄ for a turn of direction, ␣ for a space without width. @param {string} hidden */
function sign(hidden) {
  const code = hidden.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  if (code < 0xa0) return "␦";
  if (code === 0x2028 || code === 0x2029) return "␤";
  return code === 0x200b || code === 0x2060 || code === 0xfeff ? "␣" : "⇄";
}

const LONGEST_HALF = 40; // characters of a word that are shown before its other half
const HALF = /[\p{L}\p{M}\p{N}'’]+$/u;
/** Scripts that put no spaces between words: there a text's end is no half of one. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

/** The letters at a text's end that another text's first letters may make longer; "" if there are none. @param {string} text */
export function halfWord(text) {
  const [half = ""] = HALF.exec(text.slice(-LONGEST_HALF)) ?? [];
  return UNSPACED.test(half) ? "" : half;
}

/** Whether a text begins with letters that belong to the word before it. @param {string} text */
export const hangsOn = (text) => /^[\p{L}\p{M}\p{N}'’]/u.test(text);

/** The length of the white space at a text's beginning; Infinity while there is nothing else. @param {string} text */
export function leadingSpace(text) {
  const at = text.search(/\S/u);
  return at < 0 ? Number.POSITIVE_INFINITY : at;
}

/**
 * Return a token's text in three parts, with signs for the white space around its words. One space before them is what most
 * tokens have: it has a sign only where that tells two tokens apart.
 * @param {string} text @param {boolean} [isAlike] whether another token has the same words
 */
export function spaced(text, isAlike = false) {
  const words = text.trim();
  const at = text.indexOf(words);
  const [before, after] = words === "" ? [text, ""] : [text.slice(0, at), text.slice(at + words.length)];
  const isUsual = before === " " && words !== "" && !isAlike;
  return { before: isUsual ? "" : signs(before), words: visible(words), after: signs(after) };
}

/** @param {string} space */
const signs = (space) =>
  space
    .replaceAll("\n", "↵")
    .replaceAll(/[^\S\t↵]/g, "␣")
    .replaceAll("\t", "⇥");
