/** The texts in a PNG's `tEXt`, `zTXt` and `iTXt` chunks, in which cards of characters travel. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { Unzlib } from "../vendor/zip.js";
import { MAX_BYTES, quoted } from "./file.js";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const NAMES = ["ccv3", "chara", "naidata"]; // the newest form first; NovelAI's lorebooks are cards, too
const MOST_CHUNKS = 100_000;
const STEP = 4096; // packed bytes at once, which are a thousand times as many unpacked at most

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
    const end = /^(tEXt|zTXt|iTXt)$/.test(kind) ? data.indexOf(0) : -1;
    if (end > 0) {
      const keyword = letters.decode(data.subarray(0, end)).toLowerCase();
      if (NAMES.includes(keyword)) texts.set(keyword, letters.decode(textIn(kind, data.subarray(end + 1), name)));
    }
    at += 12 + length;
  }
  return texts;
}

/** The text of a chunk behind its keyword. @param {string} kind @param {Uint8Array} data @param {string} name @returns {Uint8Array} */
function textIn(kind, data, name) {
  if (kind === "tEXt") return data;
  if (kind === "zTXt") return inflated(data.subarray(1), name);
  const isPacked = data[0] === 1;
  let at = 2; // behind the ways of packing
  for (let ends = 0; ends < 2; at += 1) ends += Number((data[at] ?? 0) === 0); // a language, and a translated keyword
  return isPacked ? inflated(data.subarray(at), name) : data.subarray(at);
}

/** @param {Uint8Array} packed @param {string} name @returns {Uint8Array} */
function inflated(packed, name) {
  try {
    /** @type {Uint8Array[]} */
    const parts = [];
    let size = 0;
    const unzip = new Unzlib((part) => {
      size += part.length;
      if (size > MAX_BYTES) throw new StoryError(msg`The card in ${quoted(name)} is too large when it is unpacked.`);
      parts.push(part);
    });
    for (let at = 0; at < packed.length; at += STEP)
      unzip.push(packed.subarray(at, at + STEP), at + STEP >= packed.length);
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  } catch (error) {
    if (error instanceof StoryError) throw error;
    throw new StoryError(msg`The card in ${quoted(name)} is damaged: it cannot be unpacked.`, { cause: error });
  }
}
