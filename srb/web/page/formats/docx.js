/** The manuscript as a Word file (Office Open XML, ECMA-376): paragraphs, chapters as headings, nothing else. */
import { strToU8, zipSync } from "../vendor/zip.js";
import { chaptersOf, paragraphsOf } from "./chapters.js";
import { DECLARATION, escaped, isRightToLeft, stamp } from "./xml.js";

/** @import {Story} from "./types.js" */

const WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
const PACKAGE = "http://schemas.openxmlformats.org/package/2006";
const OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml";

/**
 * @param {Story} story
 * @param {Date} [now]
 * @returns {Uint8Array}
 */
export function writeDocx(story, now = new Date()) {
  const { title, chapters } = chaptersOf(story);
  const body = [title === "" ? "" : paragraph(title, "Title"), ...chapters.map(chapter)].join("");
  const files = {
    "[Content_Types].xml": CONTENT_TYPES,
    "_rels/.rels": relationships([
      [`${OFFICE}/officeDocument`, "word/document.xml"],
      [`${PACKAGE}/relationships/metadata/core-properties`, "docProps/core.xml"],
    ]),
    "docProps/core.xml": core(title, stamp(now)),
    "word/_rels/document.xml.rels": relationships([[`${OFFICE}/styles`, "styles.xml"]]),
    "word/styles.xml": STYLES,
    "word/document.xml": `<w:document xmlns:w="${WORD}"><w:body>${body}${PAGE}</w:body></w:document>`,
  };
  return zipSync(Object.fromEntries(Object.entries(files).map(([name, xml]) => [name, strToU8(DECLARATION + xml)])), {
    mtime: now,
  });
}

/** @param {{name: string, text: string}} chapter */
function chapter({ name, text }) {
  const paragraphs = paragraphsOf(text).map((each) => (each.scene ? "<w:p/>" : "") + paragraph(each.text));
  return (name === "" ? "" : paragraph(name, "Heading1")) + paragraphs.join("");
}

/**
 * @param {string} text
 * @param {string} [style]
 */
function paragraph(text, style) {
  const bidi = isRightToLeft(text);
  const of = (style === undefined ? "" : `<w:pStyle w:val="${style}"/>`) + (bidi ? "<w:bidi/>" : "");
  const runs = text.split("\t").map((part) => (part === "" ? "" : `<w:t xml:space="preserve">${escaped(part)}</w:t>`));
  const run = `<w:r>${bidi ? "<w:rPr><w:rtl/></w:rPr>" : ""}${runs.join("<w:tab/>")}</w:r>`;
  return `<w:p>${of === "" ? "" : `<w:pPr>${of}</w:pPr>`}${run}</w:p>`;
}

/** @param {[type: string, target: string][]} list */
function relationships(list) {
  const each = list.map(
    ([type, target], index) => `<Relationship Id="r${index + 1}" Type="${type}" Target="${target}"/>`,
  );
  return `<Relationships xmlns="${PACKAGE}/relationships">${each.join("")}</Relationships>`;
}

/**
 * @param {string} title
 * @param {string} time
 */
function core(title, time) {
  return (
    `<cp:coreProperties xmlns:cp="${PACKAGE}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/" ` +
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">' +
    `<dc:title>${escaped(title)}</dc:title><dcterms:created xsi:type="dcterms:W3CDTF">${time}</dcterms:created>` +
    `<dcterms:modified xsi:type="dcterms:W3CDTF">${time}</dcterms:modified></cp:coreProperties>`
  );
}

const CONTENT_TYPES =
  `<Types xmlns="${PACKAGE}/content-types">` +
  '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
  '<Default Extension="xml" ContentType="application/xml"/>' +
  `<Override PartName="/word/document.xml" ContentType="${TYPE}.document.main+xml"/>` +
  `<Override PartName="/word/styles.xml" ContentType="${TYPE}.styles+xml"/>` +
  '<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>';

const PAGE = // A4, margins of an inch, in twentieths of a point
  '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/>' +
  '<w:pgMar w:top="1440" w:right="1440" w:bottom="1440" w:left="1440" w:header="708" w:footer="708" w:gutter="0"/></w:sectPr>';

/**
 * @param {string} id
 * @param {string} name
 * @param {string} paragraphs
 * @param {string} characters
 */
const heading = (id, name, paragraphs, characters) =>
  `<w:style w:type="paragraph" w:styleId="${id}"><w:name w:val="${name}"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/>` +
  `<w:qFormat/><w:pPr>${paragraphs}</w:pPr><w:rPr>${characters}</w:rPr></w:style>`;

const STYLES =
  `<w:styles xmlns:w="${WORD}"><w:docDefaults><w:rPrDefault><w:rPr>` +
  '<w:rFonts w:ascii="Georgia" w:hAnsi="Georgia" w:cs="Times New Roman"/><w:sz w:val="24"/><w:szCs w:val="24"/></w:rPr></w:rPrDefault>' +
  '<w:pPrDefault><w:pPr><w:spacing w:after="160" w:line="300" w:lineRule="auto"/></w:pPr></w:pPrDefault></w:docDefaults>' +
  '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>' +
  heading(
    "Title",
    "Title",
    '<w:spacing w:after="480"/><w:jc w:val="center"/>',
    '<w:sz w:val="44"/><w:szCs w:val="44"/>',
  ) +
  heading(
    "Heading1",
    "heading 1",
    '<w:keepNext/><w:spacing w:before="480" w:after="240"/><w:outlineLvl w:val="0"/>',
    '<w:b/><w:bCs/><w:sz w:val="30"/><w:szCs w:val="30"/>',
  ) +
  "</w:styles>";
