/** The manuscript as a Word file (Office Open XML, ECMA-376): paragraphs with their emphasis, headings, breaks, pictures, comments, nothing else. */
import { placedRunsOf } from "../markdown.js";
import { strToU8, zipSync } from "../vendor/zip.js";
import { chaptersOf, manuscriptOf, paragraphsOf } from "./chapters.js";
import { commentParts, Remarks } from "./docx_comments.js";
import { picturesOf, piecesOf } from "./pictures.js";
import { DECLARATION, escaped, isRightToLeft, stamp } from "./xml.js";

/** @import {PlacedRun, Run} from "../markdown.js" */
/** @import {Chapter} from "./chapters.js" */
/** @import {Files, Picture, Shown} from "./pictures.js" */
/** @import {Story} from "./types.js" */

const WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
const PACKAGE = "http://schemas.openxmlformats.org/package/2006";
const OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml";
const DRAWING = "http://schemas.openxmlformats.org/drawingml/2006";
const NAMES = `xmlns:w="${WORD}" xmlns:r="${OFFICE}" xmlns:a="${DRAWING}/main" xmlns:pic="${DRAWING}/picture" xmlns:wp="${DRAWING}/wordprocessingDrawing"`;

const TWIP = 635; // a twentieth of a point in English Metric Units, of which an inch has 914,400
const PIXEL = 9525; // at 96 of them to the inch
const WIDTH = 11_906; // of an A4 page, in twips
const HEIGHT = 16_838;
const MARGIN = 1440; // an inch
const BREAK = "* * *"; // between scenes
const GAP = '<w:p><w:pPr><w:pStyle w:val="SceneGap"/></w:pPr></w:p>'; // between scenes, too
const DEEPEST = 6; // heading
const WIDEST = (WIDTH - 2 * MARGIN) * TWIP;
const HIGHEST = (HEIGHT - 2 * MARGIN) * TWIP * 0.8; // words stand above or below it

/**
 * @param {Story} story
 * @param {Files} [media]  its pictures and sounds
 * @param {Date} [now]
 * @returns {Uint8Array}
 */
export function writeDocx(story, media = {}, now = new Date()) {
  const { title, author, language, chapters } = chaptersOf(story);
  const pictures = picturesOf(manuscriptOf(story), media);
  const remarks = new Remarks(story);
  const writer = new Writer(media, pictures, remarks);
  const body = [
    title === "" ? "" : writer.paragraph([plain(title)], "Title"),
    author === "" ? "" : writer.paragraph([plain(author)], "Author"),
    ...chapters.map((each) => writer.chapter(each)),
  ];
  const comments = commentParts(remarks.written, author);
  const files = {
    "[Content_Types].xml": contentTypes(comments !== ""),
    "_rels/.rels": relationships([
      [`${OFFICE}/officeDocument`, "word/document.xml"],
      [`${PACKAGE}/relationships/metadata/core-properties`, "docProps/core.xml"],
    ]),
    "docProps/core.xml": core({ title, author, language }, stamp(now)),
    "word/_rels/document.xml.rels": relationships([
      [`${OFFICE}/styles`, "styles.xml"],
      ...[...pictures.values()].map(
        (each) => /** @type {[string, string]} */ ([`${OFFICE}/image`, `media/${each.name}`]),
      ),
      .../** @type {[string, string][]} */ (comments === "" ? [] : [[`${OFFICE}/comments`, "comments.xml"]]),
    ]),
    "word/styles.xml": styles(language),
    ...(comments === "" ? {} : { "word/comments.xml": comments }),
    "word/document.xml": `<w:document ${NAMES}><w:body>${body.join("")}${PAGE}</w:body></w:document>`,
  };
  /** @type {import("../vendor/zip.js").Zippable} */
  const archive = {};
  for (const [name, xml] of Object.entries(files)) archive[name] = [strToU8(DECLARATION + xml), { mtime: now }];
  for (const { name, bytes } of pictures.values()) archive[`word/media/${name}`] = [bytes, { level: 0, mtime: now }]; // packed already
  return zipSync(archive);
}

/** Writes paragraphs, whose pictures refer to the file's relationships: the first is that to the styles. */
class Writer {
  /** @param {Files} media @param {Map<string, Picture>} pictures @param {Remarks} remarks */
  constructor(media, pictures, remarks) {
    this.media = media;
    this.pictures = pictures;
    this.remarks = remarks;
    this.references = new Map([...pictures.values()].map((picture, index) => [picture, `r${index + 2}`]));
    this.shown = 0; // pictures so far: each place has a number of its own
  }

  /** @param {Chapter} chapter */
  chapter({ title, text, at, body, level: of }) {
    const heading =
      body > 0
        ? this.line(text.slice(0, body), at, `Heading${of}`)
        : title.length > 0
          ? this.paragraph(title, "ChapterName")
          : "";
    const paragraphs = paragraphsOf(text.slice(body)).map(({ kind, level, at: from, text: words, scene, line }) => {
      const place = at + body + from;
      if (kind === "break") return this.paragraph([{ ...plain(BREAK), at: place }], "SceneBreak", place + words.length);
      const style = kind === "heading" ? `Heading${level}` : line ? "Line" : undefined;
      return GAP.repeat(scene) + this.line(words, place, style);
    });
    return heading + paragraphs.join("");
  }

  /** A paragraph of the manuscript, with its comments. @param {string} text @param {number} at  where it begins there @param {string} [style] */
  line(text, at, style) {
    const runs = placedRunsOf(text, this.remarks.cutsIn(text, at)).map((each) => ({ ...each, at: at + each.at }));
    return this.paragraph(runs, style, at + text.length);
  }

  /**
   * @param {(Run | PlacedRun)[]} runs  with their places in the manuscript, if they have comments
   * @param {string} [style]
   * @param {number} [end]  where the paragraph ends in the manuscript
   */
  paragraph(runs, style, end) {
    const bidi = isRightToLeft(runs.map(({ text }) => text).join(""));
    const of = (style === undefined ? "" : `<w:pStyle w:val="${style}"/>`) + (bidi ? "<w:bidi/>" : "");
    const pieces = runs.flatMap(({ text, em, strong, ...place }) => [
      "at" in place ? this.remarks.before(place.at) : "",
      ...piecesOf(text, this.media, this.pictures).map((piece) =>
        typeof piece === "string" ? run({ text: piece, em, strong }, bidi) : this.drawing(piece),
      ),
    ]);
    const ends = end === undefined ? "" : this.remarks.behind(end);
    return `<w:p>${of === "" ? "" : `<w:pPr>${of}</w:pPr>`}${pieces.join("")}${ends}</w:p>`;
  }

  /** Return a picture that stands in the text like a letter, as large as it is, but no larger than a page. @param {Shown} shown */
  drawing({ alt, picture }) {
    this.shown += 1;
    const scale = Math.min(PIXEL, WIDEST / picture.width, HIGHEST / picture.height);
    const [width, height] = [picture.width, picture.height].map((pixels) => Math.max(1, Math.round(scale * pixels)));
    const names = `id="${this.shown}" name="${picture.name}" descr="${escaped(alt)}"`;
    return (
      '<w:r><w:drawing><wp:inline distT="0" distB="0" distL="0" distR="0">' +
      `<wp:extent cx="${width}" cy="${height}"/><wp:docPr ${names}/>` +
      `<a:graphic><a:graphicData uri="${DRAWING}/picture"><pic:pic>` +
      `<pic:nvPicPr><pic:cNvPr ${names}/><pic:cNvPicPr/></pic:nvPicPr>` +
      `<pic:blipFill><a:blip r:embed="${this.references.get(picture)}"/><a:stretch><a:fillRect/></a:stretch></pic:blipFill>` +
      `<pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="${width}" cy="${height}"/></a:xfrm>` +
      '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom></pic:spPr>' +
      "</pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    );
  }
}

/** @param {string} text @returns {Run} */
const plain = (text) => ({ text, em: false, strong: false });

/**
 * @param {Run} run
 * @param {boolean} bidi
 */
function run({ text, em, strong }, bidi) {
  const parts = text.split("\t").map((part) => (part === "" ? "" : `<w:t xml:space="preserve">${escaped(part)}</w:t>`));
  const of = (strong ? "<w:b/><w:bCs/>" : "") + (em ? "<w:i/><w:iCs/>" : "") + (bidi ? "<w:rtl/>" : "");
  return `<w:r>${of === "" ? "" : `<w:rPr>${of}</w:rPr>`}${parts.join("<w:tab/>")}</w:r>`;
}

/** @param {[type: string, target: string][]} list */
function relationships(list) {
  const each = list.map(
    ([type, target], index) => `<Relationship Id="r${index + 1}" Type="${type}" Target="${target}"/>`,
  );
  return `<Relationships xmlns="${PACKAGE}/relationships">${each.join("")}</Relationships>`;
}

/**
 * @param {{title: string, author: string, language: string}} book
 * @param {string} time
 */
function core({ title, author, language }, time) {
  return (
    `<cp:coreProperties xmlns:cp="${PACKAGE}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/" ` +
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">' +
    `<dc:title>${escaped(title)}</dc:title><dc:creator>${escaped(author)}</dc:creator><dc:language>${language}</dc:language>` +
    `<dcterms:created xsi:type="dcterms:W3CDTF">${time}</dcterms:created>` +
    `<dcterms:modified xsi:type="dcterms:W3CDTF">${time}</dcterms:modified></cp:coreProperties>`
  );
}

/** @param {boolean} hasComments */
const contentTypes = (hasComments) =>
  `<Types xmlns="${PACKAGE}/content-types">` +
  '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
  '<Default Extension="xml" ContentType="application/xml"/>' +
  '<Default Extension="png" ContentType="image/png"/><Default Extension="jpeg" ContentType="image/jpeg"/>' +
  '<Default Extension="gif" ContentType="image/gif"/>' +
  `<Override PartName="/word/document.xml" ContentType="${TYPE}.document.main+xml"/>` +
  `<Override PartName="/word/styles.xml" ContentType="${TYPE}.styles+xml"/>` +
  (hasComments ? `<Override PartName="/word/comments.xml" ContentType="${TYPE}.comments+xml"/>` : "") +
  '<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>';

const PAGE =
  `<w:sectPr><w:pgSz w:w="${WIDTH}" w:h="${HEIGHT}"/>` +
  `<w:pgMar w:top="${MARGIN}" w:right="${MARGIN}" w:bottom="${MARGIN}" w:left="${MARGIN}" ` +
  'w:header="708" w:footer="708" w:gutter="0"/></w:sectPr>';

/**
 * @param {string} id
 * @param {string} name
 * @param {string} paragraphs
 * @param {string} characters
 */
const heading = (id, name, paragraphs, characters) =>
  `<w:style w:type="paragraph" w:styleId="${id}"><w:name w:val="${name}"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/>` +
  `<w:qFormat/><w:pPr>${paragraphs}</w:pPr><w:rPr>${characters}</w:rPr></w:style>`;

/** @param {string} language */
const styles = (language) =>
  `<w:styles xmlns:w="${WORD}"><w:docDefaults><w:rPrDefault><w:rPr>` +
  '<w:rFonts w:ascii="Georgia" w:hAnsi="Georgia" w:cs="Times New Roman"/><w:sz w:val="24"/><w:szCs w:val="24"/>' +
  `${language === "und" ? "" : `<w:lang w:val="${language}"/>`}</w:rPr></w:rPrDefault>` +
  '<w:pPrDefault><w:pPr><w:spacing w:after="160" w:line="300" w:lineRule="auto"/></w:pPr></w:pPrDefault></w:docDefaults>' +
  '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>' +
  heading(
    "Title",
    "Title",
    '<w:spacing w:after="480"/><w:jc w:val="center"/>',
    '<w:sz w:val="44"/><w:szCs w:val="44"/>',
  ) +
  heading(
    "Author",
    "Author",
    '<w:spacing w:after="480"/><w:jc w:val="center"/>',
    '<w:sz w:val="28"/><w:szCs w:val="28"/>',
  ) +
  heading("SceneBreak", "Scene Break", '<w:spacing w:before="240" w:after="240"/><w:jc w:val="center"/>', "") +
  heading("SceneGap", "Scene Gap", "", "") +
  heading("Line", "Line", "<w:contextualSpacing/>", "") +
  [
    { id: "ChapterName", name: "Chapter Name", outline: 0 },
    ...Array.from({ length: DEEPEST }, (_, at) => ({ id: `Heading${at + 1}`, name: `heading ${at + 1}`, outline: at })),
  ]
    .map(({ id, name, outline }) => {
      const begins = outline < 2; // a chapter
      const size = begins ? 30 : Math.max(24, 30 - 2 * (outline - 1));
      return heading(
        id,
        name,
        `<w:keepNext/>${begins ? "<w:pageBreakBefore/>" : ""}<w:spacing w:before="${begins ? 480 : 360}" w:after="${begins ? 240 : 120}"/>` +
          `<w:outlineLvl w:val="${outline}"/>`,
        `<w:b/><w:bCs/><w:sz w:val="${size}"/><w:szCs w:val="${size}"/>`,
      );
    })
    .join("") +
  "</w:styles>";
