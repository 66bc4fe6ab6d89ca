/** Pictures and sounds as bytes: their type, their id, and the field of a request that a prompt with markers becomes. Pure. */

import { msg } from "./languages.js";
import { withoutMarkers } from "./markers.js";

/** What came with the files of stories, by id, until it is kept. @type {WeakMap<object, Record<string, {data: string}>>} */
export const brought = new WeakMap();

/** The server's mark for a file in a prompt. */
export const MARK = "<__media__>";
/** A text that has the mark itself gets a space of no width in it, so that it stays text. */
const NO_MARK = "<\u200b__media__>";

const LONGEST_NAME = 80;

/** First bytes of the formats that the server takes. @type {[type: string, at: number, bytes: number[]][]} */
const BEGINNINGS = [
  ["image/png", 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", 0, [0xff, 0xd8, 0xff]],
  ["image/gif", 0, [0x47, 0x49, 0x46, 0x38]],
  ["image/bmp", 0, [0x42, 0x4d]],
  ["audio/wav", 8, [0x57, 0x41, 0x56, 0x45]],
  ["audio/flac", 0, [0x66, 0x4c, 0x61, 0x43]],
  ["audio/mpeg", 0, [0x49, 0x44, 0x33]],
];

/**
 * Return the media type of a file by its first bytes, or "" for one that the server takes none of.
 * @param {Uint8Array} bytes
 */
export function typeOf(bytes) {
  const known = BEGINNINGS.find(([, at, wanted]) => wanted.every((byte, n) => bytes[at + n] === byte));
  if (known) return known[0];
  return bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe0) === 0xe0 ? "audio/mpeg" : "";
}

/** @param {string} type */
export const isSound = (type) => type.startsWith("audio/");

/** Return the marker of a file. Brackets and line ends would end it. @param {string} name @param {string} id */
export function markerFor(name, id) {
  const plain = name.replace(/[[\]()\p{Cc}\p{Cf}\p{Surrogate}\s]+/gu, " ").trim();
  return `![${[...plain].slice(0, LONGEST_NAME).join("").trim()}](srb:${id})`;
}

/**
 * Return the field `prompt` of a request: a text, or text with its files as base64 in the places of their markers. A marker of an
 * unknown file stays text.
 * @param {string} prompt @param {(id: string) => Uint8Array | undefined} bytesOf
 * @returns {string | {prompt_string: string, multimodal_data: string[]}}
 */
export function promptField(prompt, bytesOf) {
  /** @type {string[]} */
  const data = [];
  const marked = withoutMarkers(prompt.replaceAll(MARK, NO_MARK), (name, id) => {
    const bytes = bytesOf(id);
    if (!bytes) return `![${name}](srb:${id})`;
    data.push(base64(bytes));
    return MARK;
  });
  return data.length ? { prompt_string: marked, multimodal_data: data } : prompt;
}

const PART = 0x8000; // arguments that a call may have

/** @param {Uint8Array} bytes */
export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += PART) text += String.fromCharCode(...bytes.subarray(at, at + PART));
  return btoa(text);
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} @throws {Error} with the end of a sentence, if it is no base64 */
export function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  } catch {
    throw new Error(msg`is not base64`);
  }
}
