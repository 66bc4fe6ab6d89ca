/** A file's bytes as text or JSON, and the checks that all formats share. Each failure is a StoryError with a sentence. */
import { msg, NUMBER } from "../languages.js";
import { isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { whole } from "../story/text.js";
import { textIn } from "./encoding.js";

/** A story may be as large as this on the server, so no larger file of another program is read. */
export const MAX_BYTES = 64 * 2 ** 20;
/** A page keeps what the server has no room for, and exports all of it. */
export const MAX_OWN = 256 * 2 ** 20;
export const BEGINNING = 64; // bytes by which an exported story is known
const OWN = /^\s*\{\s*"format"\s*:\s*"srb-story"/;

const aPdf = (/** @type {string} */ name) => msg`${name} is a PDF. Save it as plain text (UTF-8) and import that.`;
const anImage = (/** @type {string} */ name) =>
  msg`${name} is an image. Save it as plain text (UTF-8) and import that.`;
const compressed = (/** @type {string} */ name) =>
  msg`${name} is compressed. Save it as plain text (UTF-8) and import that.`;
const oldWord = (/** @type {string} */ name) =>
  msg`${name} is of Word before 2007. Save it as plain text (UTF-8) and import that.`;

const BINARY = [
  { bytes: [0x25, 0x50, 0x44, 0x46], fault: aPdf },
  { bytes: [0x89, 0x50, 0x4e, 0x47], fault: anImage },
  { bytes: [0xff, 0xd8, 0xff], fault: anImage },
  { bytes: [0x1f, 0x8b], fault: compressed },
  { bytes: [0xd0, 0xcf, 0x11, 0xe0], fault: oldWord },
];

/**
 * Refuse a file that is too large to be read, before it is read.
 * @param {string} name
 * @param {number} size  in bytes
 * @param {string} beginning  the text of its first bytes
 */
export function checkSize(name, size, beginning) {
  const most = OWN.test(beginning) ? MAX_OWN : MAX_BYTES;
  if (size <= most) return;
  const [has, may] = [Math.ceil(size / 2 ** 20), most / 2 ** 20];
  throw new StoryError(
    most === MAX_OWN
      ? msg`${quoted(name)} has ${has} MB; the largest story that can be read has ${may} MB.`
      : msg`${quoted(name)} has ${has} MB; the largest file that can be read has ${may} MB.`,
  );
}

/**
 * Return a file's text, in whatever encoding it is.
 * @param {Uint8Array} bytes
 * @param {string} name
 * @returns {{text: string, encoding: string, remarks: string[]}}
 */
export function decode(bytes, name) {
  checkSize(name, bytes.length, new TextDecoder().decode(bytes.subarray(0, BEGINNING)));
  const binary = BINARY.find((each) => each.bytes.every((byte, index) => bytes[index] === byte));
  if (binary) throw new StoryError(binary.fault(quoted(name)));
  const found = textIn(bytes);
  if (found === null) throw new StoryError(msg`${quoted(name)} is not a text file.`);
  const { text, encoding, damaged } = found;
  const lost =
    damaged === 1
      ? msg`1 byte is damaged: the sign � stands there.`
      : msg`${NUMBER.format(damaged)} bytes are damaged: the sign � stands there.`;
  return { text, encoding, remarks: damaged > 0 ? [lost] : [] };
}

/**
 * @param {string} text
 * @param {string} where  names the text in an error, as the beginning of a sentence
 * @returns {unknown}
 */
export function parse(text, where) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof RangeError) throw new StoryError(msg`${where} is nested too deeply to be read.`);
    if (!(error instanceof SyntaxError)) throw error;
    throw new StoryError(msg`${where} is not valid JSON; perhaps it was cut short (${error.message}).`, {
      cause: error,
    });
  }
}

let halves = 0; // of characters, since `takeRemarks` was asked

/** Sentences on what was wrong with texts since they were asked for. @returns {string[]} */
export function takeRemarks() {
  const count = halves;
  halves = 0;
  return count > 0 ? [msg`Halves of characters (${NUMBER.format(count)}) became the sign �.`] : [];
}

/**
 * Return a text of a file as a story has it: lines end in \n, without NUL and byte order marks. Half of a character becomes U+FFFD, since
 * no file could keep it; a number is its digits.
 * @param {unknown} given
 * @param {string} where
 * @returns {string}
 */
export function textOf(given, where) {
  if (typeof given === "number" || typeof given === "boolean") return String(given);
  if (typeof given !== "string") throw new StoryError(msg`${where} is ${kindOf(given)}, not a text.`);
  const text = whole(given);
  if (text !== given) halves += given.match(/\p{Surrogate}/gu)?.length ?? 0;
  return text.replace(/\r\n?|[\u2028\u2029]/g, "\n").replace(/[\0\ufeff]/g, "");
}

/**
 * @param {unknown} text
 * @param {string} where
 * @returns {string} empty if the file has no such text
 */
export function optionalText(text, where) {
  return text === undefined || text === null ? "" : textOf(text, where);
}

/**
 * @param {unknown} value
 * @param {string} where
 * @returns {Record<string, any>}
 */
export function objectOf(value, where) {
  if (isRecord(value)) return value;
  throw new StoryError(msg`${where} is ${kindOf(value)}, not an object.`);
}

/**
 * @param {unknown} value
 * @param {string} where
 * @returns {unknown[]} empty if the file has no such list
 */
export function listOf(value, where) {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  throw new StoryError(msg`${where} is ${kindOf(value)}, not a list.`);
}

/** @param {unknown} value */
export function kindOf(value) {
  if (value === undefined) return msg`missing`;
  if (value === null) return "null";
  if (Array.isArray(value)) return msg`a list`;
  if (typeof value === "object") return msg`an object`;
  if (typeof value === "string") return msg`a string`;
  return typeof value === "number" ? msg`a number` : msg`a boolean`;
}

/**
 * Return a name or an id for use in a sentence: short, in quotation marks.
 * @param {string | number} name
 */
export function quoted(name) {
  const text = String(name);
  return msg`“${text.length > 60 ? `${text.slice(0, 59)}…` : text}”`;
}

/**
 * Return the title that a file's name suggests.
 * @param {string} name  perhaps with folders before it
 */
export function titleOf(name) {
  const last = name.split(/[\\/]/).at(-1) ?? "";
  return last.replace(/(?<=.)(\.(srb|obsidian))?\.[a-z0-9]{1,8}$/i, "").trim();
}
