/** EPUBs as prose: the pages of the spine in their order. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { elementText } from "./docx_in.js";
import { quoted, titleOf } from "./file.js";
import { addPage, picturesLeftOut } from "./html_in.js";
import { attributesOf, tokens } from "./markup.js";
import { Prose } from "./prose.js";
import { CONTAINER } from "./signs.js";

/** @import {Draft, Opened} from "./types.js" */

const ENCRYPTION = "META-INF/encryption.xml";
const WANTED = /\.(x?html?|opf|xml)$/i;
const PAGE = /xhtml|html/;

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  checkLocks(files, name);
  const root = firstOf(textOfFile(files, CONTAINER, name), "rootfile").get("full-path") ?? "";
  const book = textOfFile(files, root, name);
  const prose = new Prose();
  const title = elementText(book, "dc:title");
  let pictures = 0;
  let missing = 0;
  for (const page of pagesOf(book, root)) {
    if (!files.has(page)) {
      missing += 1;
      continue;
    }
    pictures += addPage(prose, textOfFile(files, page, name)).pictures;
  }
  const remarks = picturesLeftOut(pictures);
  if (missing > 0) remarks.push(msg`Pages of the book (${missing}) are missing in the file.`);
  prose.withoutTitle(title);
  return [prose.draft({ title: title || titleOf(name) }, remarks)];
}

/** Refuse a book whose pages are locked; fonts often are, and nobody needs them. @param {Map<string, Uint8Array>} files @param {string} name */
function checkLocks(files, name) {
  if (!files.has(ENCRYPTION)) return;
  for (const token of tokens(textOfFile(files, ENCRYPTION, name))) {
    if (token.kind !== "open" || !/CipherReference$/.test(token.name)) continue;
    if (WANTED.test(attributesOf(token.source).get("URI") ?? ""))
      throw new StoryError(msg`${quoted(name)} is locked by a copy protection.`);
  }
}

/** @param {string} xml @param {string} wanted @returns {Map<string, string>} attributes of the first element of a name */
function firstOf(xml, wanted) {
  for (const token of tokens(xml))
    if (token.kind === "open" && token.name.endsWith(wanted)) return attributesOf(token.source);
  return new Map();
}

/**
 * Return the pages of a book in the order in which they are read, each once.
 * @param {string} book  its package document
 * @param {string} root  where that stands
 */
function pagesOf(book, root) {
  const items = new Map();
  /** @type {Set<string>} */
  const pages = new Set();
  for (const token of tokens(book)) {
    if (token.kind !== "open") continue;
    const attributes = attributesOf(token.source);
    const local = token.name.replace(/^.*:/, "");
    if (local === "item") items.set(attributes.get("id"), attributes);
    if (local !== "itemref" || attributes.get("linear") === "no") continue;
    const item = items.get(attributes.get("idref"));
    const isPage = item && PAGE.test(item.get("media-type") ?? "") && !/\bnav\b/.test(item.get("properties") ?? "");
    if (isPage) pages.add(pathFrom(root, item.get("href") ?? ""));
  }
  return pages;
}

/** @param {string} root @param {string} reference  relative to it, with escapes */
function pathFrom(root, reference) {
  const folder = root.split("/").slice(0, -1);
  const [plain = ""] = reference.split("#");
  for (const part of safelyDecoded(plain).split("/")) {
    if (part === "..") folder.pop();
    else if (part !== "." && part !== "") folder.push(part);
  }
  return folder.join("/");
}

/** @param {string} text */
function safelyDecoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a name with a percent sign
  }
}
