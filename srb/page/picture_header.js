/** Headers of pictures: the size in pixels, and whether a JPEG is to be turned before it is shown. Pure. */

import { typeOf } from "./media.js";

/** @typedef {{width: number, height: number}} Size */

const UPRIGHT = 1; // the value of Exif's tag Orientation for a picture as it is
const ORIENTATION = 0x0112;
const EXIF = "Exif\0\0";

/**
 * Return a picture's size as its header says it; null for what is no PNG, JPEG or GIF, and for a header that is cut short.
 * @param {Uint8Array} bytes @returns {Size | null}
 */
export function sizeOf(bytes) {
  const view = viewOf(bytes);
  try {
    const size = sizeIn(view, typeOf(bytes));
    return size && size.width > 0 && size.height > 0 ? size : null;
  } catch (error) {
    if (error instanceof RangeError) return null; // beyond the end
    throw error;
  }
}

/** @param {DataView} view @param {string} type @returns {Size | null} */
function sizeIn(view, type) {
  if (type === "image/png") return { width: view.getUint32(16), height: view.getUint32(20) };
  if (type === "image/gif") return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  if (type !== "image/jpeg") return null;
  for (const { marker, at } of segmentsOf(view))
    if (isFrame(marker)) return { width: view.getUint16(at + 3), height: view.getUint16(at + 1) };
  return null;
}

/** Whether a JPEG's segment begins a frame: SOF0 to SOF15, of which three numbers are others'. @param {number} marker */
const isFrame = (marker) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

/** Whether a picture is a JPEG whose Exif says that it is shown turned or mirrored. @param {Uint8Array} bytes */
export function isTurned(bytes) {
  if (typeOf(bytes) !== "image/jpeg") return false;
  const view = viewOf(bytes);
  try {
    for (const { marker, at, end } of segmentsOf(view)) {
      if (isFrame(marker)) return false; // Exif stands before it
      if (marker === 0xe1 && textAt(view, at, EXIF.length) === EXIF)
        return ![0, UPRIGHT].includes(
          orientationIn(new DataView(view.buffer, view.byteOffset + at + EXIF.length, end - at - EXIF.length)),
        );
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // it is cut short: shown as it is
  }
  return false;
}

/** Return the tag Orientation of the first directory of a TIFF, 0 if it has none. @param {DataView} tiff */
function orientationIn(tiff) {
  const little = textAt(tiff, 0, 2) === "II";
  const directory = tiff.getUint32(4, little);
  const count = tiff.getUint16(directory, little);
  for (let n = 0; n < count; n += 1) {
    const entry = directory + 2 + 12 * n;
    if (tiff.getUint16(entry, little) === ORIENTATION) return tiff.getUint16(entry + 8, little);
  }
  return 0;
}

/**
 * Go through a JPEG's segments up to its pixels: `at` is where the content begins, behind the length, and `end` where it ends.
 * @param {DataView} view @returns {Generator<{marker: number, at: number, end: number}>}
 */
function* segmentsOf(view) {
  let at = 2;
  while (at < view.byteLength) {
    if (view.getUint8(at) !== 0xff) return; // damaged
    const marker = view.getUint8(at + 1);
    if (marker === 0xff)
      at += 1; // a byte of filling
    else if (marker === 0xda || marker === 0xd9) return;
    else {
      const end = at + 2 + view.getUint16(at + 2);
      yield { marker, at: at + 4, end };
      at = end;
    }
  }
}

/** @param {Uint8Array} bytes */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** @param {DataView} view @param {number} at @param {number} length */
const textAt = (view, at, length) => String.fromCharCode(...Array.from({ length }, (_, n) => view.getUint8(at + n)));
