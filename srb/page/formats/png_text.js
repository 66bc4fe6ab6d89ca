/** The texts in a PNG's `tEXt` chunks, in which cards of characters travel. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { quoted } from "./file.js";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const NAMES = ["ccv3", "chara", "naidata"]; // the newest form first; NovelAI's lorebooks are cards, too
const MOST_CHUNKS = 100_000;

/** @param {Uint8Array} bytes */
export const isPng = (bytes) => SIGNATURE.every((byte, index) => bytes[index] === byte);

/**
 * Return the JSON text that a picture carries.
 * @param {Uint8Array} bytes
 * @param {string} name  of the file
 */
export function cardIn(bytes, name) {
  const texts = textsIn(bytes, name);
  const found = NAMES.find((each) => texts.has(each));
  if (found === undefined) throw new StoryError(msg`${quoted(name)} is a picture without a card or a lorebook in it.`);
  try {
    const packed = Uint8Array.from(atob(/** @type {string} */ (texts.get(found))), (letter) => letter.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(packed);
  } catch {
    throw new StoryError(msg`The card in ${quoted(name)} (“${found}”) is damaged: it is no text in base64.`);
  }
}

/** @param {Uint8Array} bytes @param {string} name @returns {Map<string, string>} texts by their keywords */
function textsIn(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const letters = new TextDecoder("latin1");
  const texts = new Map();
  let at = SIGNATURE.length;
  for (let count = 0; count < MOST_CHUNKS && at + 12 <= bytes.length; count += 1) {
    const length = view.getUint32(at);
    const kind = letters.decode(bytes.subarray(at + 4, at + 8));
    const data = bytes.subarray(at + 8, at + 8 + length);
    if (data.length < length) throw new StoryError(msg`${quoted(name)} was cut short in its chunk ${quoted(kind)}.`);
    if (kind === "IEND") break;
    const end = kind === "tEXt" ? data.indexOf(0) : -1;
    if (end > 0) texts.set(letters.decode(data.subarray(0, end)).toLowerCase(), letters.decode(data.subarray(end + 1)));
    at += 12 + length;
  }
  return texts;
}
