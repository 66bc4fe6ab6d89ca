/** Pictures and sounds of the manuscript, for formats that print it: pictures as files of their own, sounds by their names. */

import { msg } from "../languages.js";
import { markersOf } from "../markers.js";
import { fromBase64, isSound } from "../media.js";
import { sizeOf } from "../picture_header.js";

/** @typedef {Record<string, {type: string, data: string}>} Files bytes as base64, by id */
/** @typedef {{name: string, type: string, bytes: Uint8Array, width: number, height: number}} Picture `name`: of its file; sizes in pixels */
/** @typedef {{alt: string, picture: Picture}} Shown */

/** @type {Record<string, string>} */
const ENDINGS = { "image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif" };

/**
 * Return the pictures of a text by their ids, each once, in their order.
 * @param {string} text
 * @param {Files} files  those that are at hand
 * @returns {Map<string, Picture>}
 */
export function picturesOf(text, files) {
  const pictures = new Map();
  for (const { id } of markersOf(text)) {
    const { type, data } = files[id] ?? { type: "", data: "" };
    const ending = ENDINGS[type];
    if (ending === undefined || pictures.has(id)) continue;
    const bytes = fromBase64(data);
    const size = sizeOf(bytes);
    if (size) pictures.set(id, { name: `picture-${pictures.size + 1}.${ending}`, type, bytes, ...size });
  }
  return pictures;
}

/**
 * Cut a paragraph at its pictures. A sound, and a picture that is not at hand, is a sign and its name in the text.
 * @param {string} text
 * @param {Files} files
 * @param {Map<string, Picture>} pictures  see `picturesOf`
 * @returns {(string | Shown)[]}
 */
export function piecesOf(text, files, pictures) {
  /** @type {(string | Shown)[]} */
  const pieces = [""];
  let at = 0;
  const add = (/** @type {string} */ words) => {
    pieces.push(`${pieces.pop()}${words}`);
  };
  for (const { from, to, name, id } of markersOf(text)) {
    add(text.slice(at, from));
    at = to;
    const picture = pictures.get(id);
    if (picture) pieces.push({ alt: name || msg`Picture`, picture }, "");
    else add(isSound(files[id]?.type ?? "") ? `♪ ${name || msg`Sound`}` : `🖼 ${name || msg`Picture`}`);
  }
  add(text.slice(at));
  return pieces.filter((piece) => piece !== "");
}
