/** The manuscript as a web page of one file, which browsers show and word processors open. A chapter is printed on a new page. */
import { msg } from "../languages.js";
import { base64 } from "../media.js";
import { chaptersOf, manuscriptOf } from "./chapters.js";
import { picturesOf } from "./pictures.js";
import { BOOK_STYLE, chapterBody } from "./xhtml.js";
import { escaped } from "./xml.js";

/** @import {Files} from "./pictures.js" */
/** @import {Story} from "./types.js" */

const STYLE = `body { max-width: 40em; margin: 2em auto; padding: 0 1em; font: 1.1em/1.6 Georgia, serif }
${BOOK_STYLE}@media print { section + section { break-before: page } }
`;

/**
 * @param {Story} story
 * @param {Files} [media]  its pictures and sounds
 */
export function writeHtml(story, media = {}) {
  const { title, author, language, chapters } = chaptersOf(story);
  const pictures = picturesOf(manuscriptOf(story), media);
  /** @type {import("./xhtml.js").Shown["source"]} */
  const source = ({ type, bytes }) => `data:${type};base64,${base64(bytes)}`;
  const by = author === "" ? "" : `<p class="author">${escaped(author)}</p>\n`;
  const sections = chapters.map((each) => `<section>${chapterBody(each, { media, pictures, source })}</section>\n`);
  return (
    `<!DOCTYPE html>\n<html${language === "und" ? "" : ` lang="${language}"`}><head><meta charset="utf-8"/>` +
    '<meta name="viewport" content="width=device-width, initial-scale=1"/>' +
    (author === "" ? "" : `<meta name="author" content="${escaped(author)}"/>`) +
    `<title>${escaped(title || msg`Untitled`)}</title><style>${STYLE}</style></head>\n` +
    `<body>${title === "" ? "" : `<h1>${escaped(title)}</h1>\n`}${by}${sections.join("")}</body></html>\n`
  );
}
