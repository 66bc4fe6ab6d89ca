/** Text in XML. */
import { withoutMarkers } from "../markers.js";

/**
 * Return a text as it stands in XML: escaped, without the characters that XML cannot have.
 * @param {string} text
 */
export function escaped(text) {
  return text
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");
}

/**
 * Say whether a paragraph runs from right to left: its first letter decides, not the name of a picture.
 * @param {string} text
 */
export function isRightToLeft(text) {
  const letter = /\p{L}/u.exec(withoutMarkers(text, () => ""))?.[0] ?? "";
  return /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(letter);
}

export const DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';

/**
 * Return a time as XML has it, to the second.
 * @param {Date} time
 */
export function stamp(time) {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}
