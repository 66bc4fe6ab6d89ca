/** Text as JavaScript holds it: UTF-16 units, of which two may be halves of one character. */

const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const HALVES = new RegExp(HALF, "g");
const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** @param {number} unit */
export const isHigh = (unit) => unit >= 0xd800 && unit <= 0xdbff;

/** @param {number} unit */
export const isLow = (unit) => unit >= 0xdc00 && unit <= 0xdfff;

/** @param {string} text */
export const hasPairs = (text) => /[\ud800-\udfff]/.test(text);

/**
 * Whether a text has no half of a character. Browsers of before 2024 have no method for it.
 * @param {string & {isWellFormed?: () => boolean}} text
 */
export const isWhole = (text) => text.isWellFormed?.() ?? !HALF.test(text);

/**
 * Return the text with a replacement character for each half of a character.
 * @param {string} text
 */
export const whole = (text) => (isWhole(text) ? text : text.replace(HALVES, "\ufffd"));

/**
 * Return a random id of 16 letters and digits. It needs no secure context.
 * @returns {string}
 */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => ALPHABET[byte & 31]).join("");
}

/**
 * Cut a text into stretches of at most `size` units: at a heading, else at the end of a paragraph, a line or a word, if one is
 * in their second half. None ends inside a character.
 * @param {string} text
 * @param {number} size
 * @returns {string[]}
 */
export function stretches(text, size) {
  const cut = [];
  for (let from = 0; from < text.length; ) {
    let to = from + size < text.length ? endOf(text, from + size / 2, from + size) : text.length;
    if (to < text.length && isHigh(text.charCodeAt(to - 1))) to -= 1;
    cut.push(text.slice(from, to));
    from = to;
  }
  return cut;
}

const ENDS = [/\n(?=#{1,6} )/gu, /\n\n(?=\S)/gu, /\n/gu, /\s(?=\S)/gu]; // the best first

/** @param {string} text @param {number} least @param {number} most @returns {number} where a stretch ends best, between the two */
function endOf(text, least, most) {
  const part = text.slice(least, most);
  for (const end of ENDS) {
    const last = [...part.matchAll(end)].at(-1);
    if (last) return Math.floor(least) + last.index + last[0].length;
  }
  return most;
}

/**
 * Return how many characters two texts have in common at the beginning, and how many of the others at the end.
 * @param {string} one
 * @param {string} other
 * @returns {[number, number]}
 */
export function alike(one, other) {
  const most = Math.min(one.length, other.length);
  const first = longest(most, (known, length) => one.slice(known, length) === other.slice(known, length));
  const isEnd = (/** @type {number} */ known, /** @type {number} */ length) =>
    one.slice(one.length - length, one.length - known) === other.slice(other.length - length, other.length - known);
  return [first, longest(most - first, isEnd)];
}

/**
 * The greatest length up to `most` that is alike, by halves: a browser compares parts of a book faster than a loop its characters.
 * @param {number} most
 * @param {(known: number, length: number) => boolean} isAlike  whether all up to `length` is, where all up to `known` is
 */
function longest(most, isAlike) {
  let [known, end] = [0, most];
  while (known < end) {
    const length = Math.ceil((known + end) / 2);
    if (isAlike(known, length)) known = length;
    else end = length - 1;
  }
  return known;
}
