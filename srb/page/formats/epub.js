/** The manuscript as an EPUB 3 book: a file for each chapter, pictures, and a table of contents. */
import { msg } from "../languages.js";
import { withoutMarkers } from "../markers.js";
import { strToU8, zipSync } from "../vendor/zip.js";
import { chaptersOf, firstWords, manuscriptOf } from "./chapters.js";
import { picturesOf } from "./pictures.js";
import { BOOK_STYLE, chapterBody } from "./xhtml.js";
import { DECLARATION, escaped, stamp } from "./xml.js";

/** @import {Files, Picture} from "./pictures.js" */
/** @import {Story} from "./types.js" */

/** @typedef {{id: string, label: string, body: string, type?: string}} Page */
/** @typedef {{id: string, title: string, author: string, language: string, pages: Page[]}} Book */

const MIMETYPE = "application/epub+zip";
const XHTML = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"';

/**
 * @param {Story} story
 * @param {Files} [media]  its pictures and sounds
 * @param {Date} [now]
 * @returns {Uint8Array}
 */
export function writeEpub(story, media = {}, now = new Date()) {
  const pictures = picturesOf(manuscriptOf(story), media);
  const { title: given, author, language, chapters } = chaptersOf(story);
  const title = given === "" ? msg`Untitled` : given;
  /** @type {import("./xhtml.js").Shown["source"]} */
  const source = ({ name }) => name;
  const pages = chapters.map((each, index) => ({
    id: `chapter-${index + 1}`,
    label: withoutMarkers(each.name) || firstWords(each.text),
    body: chapterBody(each, { media, pictures, source }),
  }));
  const by = author === "" ? "" : `<p class="author">${escaped(author)}</p>`;
  const titlePage = { id: "title", label: title, body: `<h1>${escaped(title)}</h1>${by}`, type: "titlepage" };
  /** @type {Record<string, string>} */
  const files = { "META-INF/container.xml": CONTAINER, "OEBPS/style.css": BOOK_STYLE };
  const book = { id: story.id, title, author, language, pages: [titlePage, ...pages] };
  files["OEBPS/content.opf"] = DECLARATION + contents(book, [...pictures.values()], stamp(now));
  files["OEBPS/nav.xhtml"] = page(language, title, navigation(title, pages));
  for (const { id, label, body, type = "chapter" } of /** @type {Page[]} */ (book.pages))
    files[`OEBPS/${id}.xhtml`] = page(language, label, `<section epub:type="${type}">${body}</section>`);
  /** @type {import("../vendor/zip.js").Zippable} */
  const archive = { mimetype: [strToU8(MIMETYPE), { level: 0, mtime: now }] }; // first, and not compressed
  for (const [name, text] of Object.entries(files)) archive[name] = [strToU8(text), { mtime: now }];
  for (const { name, bytes } of pictures.values()) archive[`OEBPS/${name}`] = [bytes, { level: 0, mtime: now }]; // packed already
  return zipSync(archive);
}

/**
 * @param {string} language
 * @param {string} title
 * @param {string} body
 */
function page(language, title, body) {
  return (
    `${DECLARATION}<!DOCTYPE html>\n<html ${XHTML} lang="${language}" xml:lang="${language}"><head><title>${escaped(title)}</title>` +
    `<link rel="stylesheet" type="text/css" href="style.css"/></head>\n<body>${body}</body></html>\n`
  );
}

/** @param {string} title @param {Page[]} pages */
function navigation(title, pages) {
  const items = pages.map(({ id, label }) => `<li><a href="${id}.xhtml">${escaped(label)}</a></li>`);
  return `<nav epub:type="toc"><h1>${escaped(title)}</h1><ol>${items.join("")}</ol></nav>`;
}

/**
 * @param {Book} book
 * @param {Picture[]} pictures
 * @param {string} time
 */
function contents({ id, title, author, language, pages }, pictures, time) {
  const items = pages.map(
    (each) => `<item id="${each.id}" href="${each.id}.xhtml" media-type="application/xhtml+xml"/>`,
  );
  const images = pictures.map(
    ({ name, type }, index) => `<item id="picture-${index + 1}" href="${name}" media-type="${type}"/>`,
  );
  const spine = pages.map((each) => `<itemref idref="${each.id}"/>`);
  return (
    '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="book">' +
    '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">' +
    `<dc:identifier id="book">urn:srb:${escaped(id)}</dc:identifier><dc:title>${escaped(title)}</dc:title>` +
    (author === "" ? "" : `<dc:creator>${escaped(author)}</dc:creator>`) +
    `<dc:language>${language}</dc:language><meta property="dcterms:modified">${time}</meta></metadata>` +
    '<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>' +
    `<item id="style" href="style.css" media-type="text/css"/>${[...items, ...images].join("")}</manifest><spine>${spine.join("")}</spine></package>\n`
  );
}

const CONTAINER =
  `${DECLARATION}<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>` +
  '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>\n';
