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

/** The length of the white space at a text's beginning; Infinity while there is nothing else. @param {string} text */
export function leadingSpace(text) {
  const at = text.search(/\S/u);
  return at < 0 ? Number.POSITIVE_INFINITY : at;
}
