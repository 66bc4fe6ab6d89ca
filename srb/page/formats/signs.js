/** Signs by which a file is known to be of a format, where one line does not say them. */
import { isRecord } from "../story/check.js";

export const DOCUMENT = "word/document.xml"; // of a Word file, where it does not say another
export const RELATIONS = "_rels/.rels";
export const CARD = "card.json"; // of a character, in an archive
export const CONTENT = "content.xml"; // of an OpenDocument
export const BINDER = /(^|\/)[^/]+\.scrivx$/; // of a project of Scrivener
export const MARKDOWN = /\.(md|markdown)$/i;
export const NOVEL = /(^|\/)nwProject\.nwx$/; // of a project of novelWriter
const WORDS = /^word\/[^/]*\.xml$/;
export const CONTAINER = "META-INF/container.xml"; // of an EPUB

const RTF = [0x7b, 0x5c, 0x72, 0x74, 0x66];

/** Whether an archive is a Word file. @param {Set<string> | null} parts  its names */
export const isWord = (parts) =>
  parts !== null && (parts.has(DOCUMENT) || (parts.has(RELATIONS) && [...parts].some((part) => WORDS.test(part))));

/** Whether a file is Rich Text. @param {Uint8Array} bytes */
export const isRtf = (bytes) => RTF.every((byte, index) => bytes[index] === byte);

/** Whether a text is HTML by its beginning. @param {string} text */
export const isHtml = (text) =>
  /^\s*(<\?xml[^>]*>\s*)?(<!--[^>]*-->\s*)*<(!doctype\s+html|html)[\s>]/i.test(text.slice(0, 2000));

/** Whether a text is a chat of SillyTavern by its first lines. @param {string} text */
export function isChat(text) {
  const lines = /^\s*(\{[^\n]*\})\s*\n\s*(\{[^\n]*\})\s*(?:\n|$)/.exec(text);
  return lines !== null && /"(chat_metadata|mes|user_name)"\s*:/.test(lines[1] ?? "");
}

/** Whether a value is a note of Obsidian Loom. @param {unknown} value */
export function isNote(value) {
  return isRecord(value) && "current" in value && (isRecord(value.nodes) || Array.isArray(value.nodes));
}

/** Whether a value is a node of socketteer's loom. @param {unknown} value @returns {value is Record<string, unknown>} */
export function isNested(value) {
  return (
    isRecord(value) && Array.isArray(value.children) && (value.text === undefined || typeof value.text === "string")
  );
}
