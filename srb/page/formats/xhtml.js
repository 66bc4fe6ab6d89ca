/** Chapters as the body of a page, in HTML that is XML as well: for EPUB and for web pages. */
import { runsOf } from "../markdown.js";
import { paragraphsOf } from "./chapters.js";
import { piecesOf } from "./pictures.js";
import { escaped, isRightToLeft } from "./xml.js";

/** @import {Run} from "../markdown.js" */
/** @import {Chapter} from "./chapters.js" */
/** @import {Files, Picture} from "./pictures.js" */
/** @typedef {{media: Files, pictures: Map<string, Picture>, source: (picture: Picture) => string}} Shown  `source`: a picture's address */

/** @param {Chapter} chapter @param {Shown} shown */
export function chapterBody({ title, level: of, text, body }, shown) {
  const heading = title.length > 0 ? block("h2", [body === 0 && "chapter-name", of === 1 && "part"], title, shown) : "";
  const blocks = paragraphsOf(text.slice(body)).map(({ kind, level, text: words, scene, line }) => {
    if (kind === "break") return "<hr/>";
    const classes = [scene > 0 && "scene", line && "next-line"];
    const wider = '<p class="scene"></p>'.repeat(Math.max(0, scene - 1));
    return wider + block(kind === "heading" ? `h${level}` : "p", classes, runsOf(words), shown);
  });
  return heading + (blocks.join("\n") || "<p></p>");
}

/** @param {string} name @param {(string | false)[]} classes @param {Run[]} runs @param {Shown} shown */
function block(name, classes, runs, shown) {
  const of = classes.filter(Boolean).join(" ");
  const isRight = isRightToLeft(runs.map(({ text }) => text).join(""));
  return `<${name}${of ? ` class="${of}"` : ""}${isRight ? ' dir="rtl"' : ""}>${inline(runs, shown)}</${name}>`;
}

/** @param {Run[]} runs @param {Shown} shown */
function inline(runs, { media, pictures, source }) {
  return runs
    .map(({ text, em, strong }) => {
      const inner = piecesOf(text, media, pictures)
        .map((piece) => (typeof piece === "string" ? escaped(piece) : image(piece.picture, piece.alt, source)))
        .join("");
      const emphasised = em ? `<em>${inner}</em>` : inner;
      return strong ? `<strong>${emphasised}</strong>` : emphasised;
    })
    .join("");
}

/** @param {Picture} picture @param {string} alt @param {Shown["source"]} source */
const image = (picture, alt, source) =>
  `<img src="${source(picture)}" alt="${escaped(alt)}" width="${picture.width}" height="${picture.height}"/>`;

/** How a book looks, on a screen and on paper. */
export const BOOK_STYLE = `h1 { text-align: center; margin: 4em 0 }
p.author { text-align: center }
h2 { margin: 2em 0 1em }
h1, h2, h3, h4, h5, h6, p { white-space: pre-wrap }
p { margin: 0 0 0.7em }
p.scene { margin-top: 2em }
hr { width: 20%; margin: 2em auto; border: 0; border-top: 1px solid }
img { max-width: 100%; height: auto }
`;
