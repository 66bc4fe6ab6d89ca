/** EPUBs as prose: the pages of the spine in their order. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { quoted, titleOf } from "./file.js";
import { addPage, stylesIn } from "./html_in.js";
import { htmlTree } from "./html_tree.js";
import { Styles } from "./looks.js";
import { elements, factsIn, first, xmlTree } from "./markup.js";
import { Prose } from "./prose.js";
import { CONTAINER } from "./signs.js";

/** @import {Element} from "./markup.js" */
/** @import {Draft, Opened} from "./types.js" */

const ENCRYPTION = "META-INF/encryption.xml";
const WANTED = /\.(x?html?|opf|xml|css)$/i;
const PAGE = /xhtml|html/;

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  checkLocks(files, name);
  const root = first(xmlTree(textOfFile(files, CONTAINER, name)).root, "rootfile")?.attributes.get("full-path") ?? "";
  const book = xmlTree(textOfFile(files, root, name)).root;
  const prose = new Prose();
  const { title, author } = factsIn(book);
  let missing = 0;
  /** @type {string[]} */
  const unread = [];
  for (const page of pagesOf(book, root)) {
    if (!files.has(page)) missing += 1;
    else if (!addFile(prose, files, page, name)) unread.push(page);
  }
  const remarks = missing > 0 ? [msg`Pages of the book (${missing}) are missing in the file.`] : [];
  if (unread.length > 0)
    remarks.push(msg`Pages of the book could not be read: ${unread.slice(0, 5).map(quoted).join(", ")}.`);
  prose.without(title, author);
  const draft = prose.draft({ title: title || titleOf(name), author });
  return [{ ...draft, remarks: [...remarks, ...draft.remarks] }];
}

/**
 * Add a page: XML, as the standard of books has it, else HTML.
 * @param {Prose} prose @param {Map<string, Uint8Array>} files @param {string} page @param {string} name  of the book
 * @returns {boolean} whether it could be read
 */
function addFile(prose, files, page, name) {
  try {
    const text = textOfFile(files, page, name);
    const { root: xml, isWhole } = xmlTree(text);
    const root = isWhole && elements(xml, (each) => each.name === "body").length > 0 ? xml : htmlTree(text);
    const styles = new Styles();
    for (const link of elements(root, (each) => each.name === "link")) {
      const path = pathFrom(page, link.attributes.get("href") ?? "");
      if (/stylesheet/i.test(link.attributes.get("rel") ?? "") && files.has(path))
        styles.add(textOfFile(files, path, name));
    }
    addPage(prose, root, stylesIn(root, styles));
    return true;
  } catch (error) {
    if (error instanceof StoryError && !prose.isFull) return false;
    throw error;
  }
}

/** Refuse a book whose pages are locked; fonts often are, and nobody needs them. @param {Map<string, Uint8Array>} files @param {string} name */
function checkLocks(files, name) {
  if (!files.has(ENCRYPTION)) return;
  const { root } = xmlTree(textOfFile(files, ENCRYPTION, name));
  for (const { attributes } of elements(root, (each) => /CipherReference$/.test(each.name)))
    if (WANTED.test(attributes.get("URI") ?? ""))
      throw new StoryError(msg`${quoted(name)} is locked by a copy protection.`);
}

/**
 * Return the pages of a book in the order in which they are read, each once.
 * @param {Element} book  its package document
 * @param {string} root  where that stands
 */
function pagesOf(book, root) {
  const local = (/** @type {Element} */ { name }) => name.replace(/^.*:/, "");
  const items = new Map(
    elements(book, (each) => local(each) === "item").map(({ attributes }) => [attributes.get("id"), attributes]),
  );
  /** @type {Set<string>} */
  const pages = new Set();
  for (const { attributes } of elements(book, (each) => local(each) === "itemref")) {
    if (attributes.get("linear") === "no") continue;
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
