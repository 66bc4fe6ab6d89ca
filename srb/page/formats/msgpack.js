/**
 * MessagePack as msgpackr packs it: besides the values of MessagePack itself, records (objects that name a list of keys by a number), strings
 * that are gathered in bundles and told by their lengths, sets and times. Values of a program's own kind are what stands behind their sign.
 */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";

const DEEPEST = 100;
const RECORD = 0x72;
const BUNDLE = 0x62;
const UNDEFINED = 0;
const TIME = 0xff;
const FOLLOWED = 1; // bytes of a kind's sign that a value follows

/** Unpack one value; a map is a Map, a record an object without a prototype. @param {Uint8Array} bytes @returns {unknown} */
export function unpack(bytes) {
  try {
    return new Unpacker(bytes).value(0);
  } catch (error) {
    if (error instanceof RangeError) throw new StoryError(msg`The document was cut short.`, { cause: error });
    throw error;
  }
}

class Unpacker {
  #at = 0;
  /** @type {Map<number, string[]>} keys, by the number of a record */
  #records = new Map();
  /** @type {{texts: string[], places: number[]} | null} gathered strings: those with letters beyond Latin, and all others */
  #bundle = null;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** @param {number} depth @returns {any} */
  value(depth) {
    if (depth > DEEPEST) throw new StoryError(msg`The document is nested more than ${DEEPEST} levels deep.`);
    const sign = this.#number("Uint8", 1);
    if (sign < 0x40) return sign;
    if (sign < 0x80) return this.#record(sign, depth);
    if (sign < 0x90) return this.#map(sign & 0xf, depth);
    if (sign < 0xa0) return this.#list(sign & 0xf, depth);
    if (sign < 0xc0) return this.#string(sign & 0x1f);
    if (sign >= 0xe0) return sign - 0x100;
    switch (sign) {
      case 0xc0:
        return null;
      case 0xc1:
        return this.#gathered(this.value(depth + 1));
      case 0xc2:
      case 0xc3:
        return sign === 0xc3;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#take(this.#size(sign - 0xc4));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#kind(this.#size(sign - 0xc7), depth);
      case 0xca:
        return this.#number("Float32", 4);
      case 0xcb:
        return this.#number("Float64", 8);
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#size(sign - 0xcc);
      case 0xcf:
        return Number(this.#number("BigUint64", 8));
      case 0xd0:
        return this.#number("Int8", 1);
      case 0xd1:
        return this.#number("Int16", 2);
      case 0xd2:
        return this.#number("Int32", 4);
      case 0xd3:
        return Number(this.#number("BigInt64", 8));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#string(this.#size(sign - 0xd9));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#size(sign - 0xdb), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#size(sign - 0xdd), depth);
      default:
        return this.#kind(2 ** (sign - 0xd4), depth); // 1, 2, 4, 8 or 16 bytes
    }
  }

  /** @param {"Uint8" | "Uint16" | "Uint32" | "Int8" | "Int16" | "Int32" | "Float32" | "Float64" | "BigInt64" | "BigUint64"} type @param {number} size @returns {any} */
  #number(type, size) {
    const value = this.view[`get${type}`](this.#at);
    this.#at += size;
    return value;
  }

  /** A number of 1, 2 or 4 bytes. @param {number} width  0, 1 or 2 @returns {number} */
  #size(width) {
    return this.#number(/** @type {const} */ (["Uint8", "Uint16", "Uint32"])[width] ?? "Uint8", 2 ** width);
  }

  /** @param {number} size */
  #take(size) {
    if (size > this.bytes.length - this.#at) throw new RangeError("beyond the end");
    this.#at += size;
    return this.bytes.subarray(this.#at - size, this.#at);
  }

  /** @param {number} size */
  #string(size) {
    return new TextDecoder().decode(this.#take(size));
  }

  /** The next string of a bundle. @param {unknown} length  in UTF-16 units; below 0 for the strings with letters beyond Latin */
  #gathered(length) {
    const bundle = this.#bundle;
    if (bundle === null || !Number.isSafeInteger(length))
      throw new StoryError(msg`The document refers to strings that it lacks.`);
    const which = Number(length) > 0 ? 1 : 0;
    const from = bundle.places[which] ?? 0;
    bundle.places[which] = from + Math.abs(Number(length));
    return /** @type {string} */ (bundle.texts[which]).slice(from, bundle.places[which]);
  }

  /** @param {number} size @param {number} depth */
  #list(size, depth) {
    if (size > this.bytes.length - this.#at) throw new RangeError("beyond the end");
    return Array.from({ length: size }, () => this.value(depth + 1));
  }

  /** @param {number} size @param {number} depth */
  #map(size, depth) {
    if (2 * size > this.bytes.length - this.#at) throw new RangeError("beyond the end");
    const map = new Map();
    for (let count = 0; count < size; count += 1) {
      const key = this.value(depth + 1);
      map.set(key, this.value(depth + 1));
    }
    return map;
  }

  /** @param {number} number @param {number} depth */
  #record(number, depth) {
    const keys = this.#records.get(number);
    if (!keys) throw new StoryError(msg`The document has a record whose keys it does not name.`);
    const record = Object.create(null);
    for (const key of keys) record[key] = this.value(depth + 1);
    return record;
  }

  /** A value of another kind than MessagePack's own. @param {number} size @param {number} depth */
  #kind(size, depth) {
    const kind = this.#number("Uint8", 1);
    const data = this.#take(size);
    if (kind === BUNDLE) return this.#openBundle(data, depth);
    if (kind === RECORD) {
      if (size !== 1) throw new StoryError(msg`The document has more kinds of records than can be read here.`);
      const keys = this.value(depth + 1);
      if (!Array.isArray(keys) || !keys.every((key) => typeof key === "string"))
        throw new StoryError(msg`The document names no keys of a record.`);
      this.#records.set(data[0] ?? 0, keys);
      return this.#record(data[0] ?? 0, depth + 1);
    }
    if (kind === UNDEFINED) return undefined;
    if (kind === TIME) return null; // of no use to a story
    if (size === FOLLOWED) return this.value(depth + 1);
    throw new StoryError(msg`The document has a value of a kind (${kind}) that is not known here.`);
  }

  /** Find the strings that from here on are told by their lengths, and go on. @param {Uint8Array} data @param {number} depth */
  #openBundle(data, depth) {
    const next = this.#at;
    const distance = new DataView(data.buffer, data.byteOffset, data.byteLength).getUint32(0);
    this.#at = next - data.length + distance;
    const texts = [this.value(DEEPEST), this.value(DEEPEST)];
    if (!texts.every((text) => typeof text === "string"))
      throw new StoryError(msg`The document's strings are no strings.`);
    this.#bundle = { texts, places: [0, 0] };
    this.#at = next;
    return this.value(depth + 1);
  }
}
