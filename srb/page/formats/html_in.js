/** HTML, and the pages of EPUBs, as prose. Nothing of it is ever shown as markup: only its words come in. */
import { msg, NUMBER } from "../languages.js";
import { titleOf } from "./file.js";
import { attributesOf, tokens } from "./markup.js";
import { Prose } from "./prose.js";

/** @import {Draft, Opened} from "./types.js" */

const BLOCKS = new Set(
  "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol p pre section summary table td th tr ul".split(
    " ",
  ),
);
const SKIPPED = new Set(
  "audio canvas head iframe math nav noscript object rp rt script select style svg template textarea video".split(" "),
);
const VOID = new Set("area base br col embed hr img input link meta source track wbr".split(" "));
const ITALIC = new Set(["i", "em", "cite", "dfn", "var"]);
const BOLD = new Set(["b", "strong"]);
const DEEPEST = 400; // open tags that are remembered
const CHARSET = /<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]{1,40})/i;

/** @param {Opened} opened @returns {Draft[]} */
export function read(opened) {
  const prose = new Prose();
  const { title, pictures } = addPage(prose, asItSays(opened));
  return [prose.draft({ title: title || titleOf(opened.name) }, picturesLeftOut(pictures))];
}

/** A page's text in the encoding that it says, unless its bytes say UTF-8 or UTF-16. @param {Opened} opened */
function asItSays({ bytes, text, encoding }) {
  const said = /^utf-/.test(encoding) ? null : charsetOf(bytes);
  try {
    return said === null ? text : new TextDecoder(said).decode(bytes);
  } catch (error) {
    if (error instanceof RangeError) return text; // no encoding has that name
    throw error;
  }
}

/** The encoding that a page says it has. @param {Uint8Array} bytes */
function charsetOf(bytes) {
  return CHARSET.exec(new TextDecoder("latin1").decode(bytes.subarray(0, 4096)))?.[1] ?? null;
}

/** @param {number} pictures */
export const picturesLeftOut = (pictures) => (pictures > 0 ? [msg`Pictures (${pictures}) were left out.`] : []);

/** What is said of footnotes that a file has. @param {number} notes @returns {string[]} */
export function notesLeftOut(notes) {
  if (notes === 0) return [];
  return [notes === 1 ? msg`1 footnote was left out.` : msg`${NUMBER.format(notes)} footnotes were left out.`];
}

/**
 * Add the words of a page to prose.
 * @param {Prose} prose
 * @param {string} text
 * @returns {{title: string, pictures: number}}
 */
export function addPage(prose, text) {
  /** @type {{name: string, italic: boolean, bold: boolean}[]} */
  const open = [];
  const skipped = { name: "", depth: 0 };
  let title = "";
  let isTitle = false;
  let level = 0;
  let pre = 0;
  let pictures = 0;
  const end = () => prose.end(level);
  for (const token of tokens(text, true)) {
    if (token.kind === "text") {
      if (isTitle) title += token.text;
      else if (skipped.depth === 0) prose.add(pre > 0 ? token.text : spaced(prose, token.text), open.at(-1));
      continue;
    }
    const { name } = token;
    const isOpen = token.kind === "open";
    if (name === "title") isTitle = isOpen && title === "";
    if (skipped.depth > 0) {
      if (name === skipped.name && !(isOpen && token.isEmpty)) skipped.depth += isOpen ? 1 : -1;
      continue;
    }
    if (isOpen && SKIPPED.has(name) && !token.isEmpty) {
      Object.assign(skipped, { name, depth: 1 });
      continue;
    }
    if (name === "img" || name === "image") pictures += Number(isOpen);
    if (name === "br" && isOpen) prose.add("\n", open.at(-1));
    if (BLOCKS.has(name)) {
      end();
      const heading = /^h([1-6])$/.exec(name);
      if (heading) level = isOpen ? Number(heading[1]) : 0;
      if (name === "hr" && isOpen) prose.break();
      if (name === "pre") pre = Math.max(0, pre + (isOpen ? 1 : -1));
    }
    if (isOpen && !token.isEmpty && !VOID.has(name)) push(open, name, token.source);
    else if (!isOpen) pop(open, name);
  }
  end();
  return { title: title.replace(/\s+/g, " ").trim(), pictures };
}

/** Spaces as a page shows them: one for many, none at a paragraph's beginning. @param {Prose} prose @param {string} text */
function spaced(prose, text) {
  const one = text.replace(/[ \t\n\r\f]+/g, " ");
  return prose.isBegun ? one : one.trimStart();
}

/** @param {{name: string, italic: boolean, bold: boolean}[]} open @param {string} name @param {string} source */
function push(open, name, source) {
  if (open.length >= DEEPEST) return;
  const above = open.at(-1) ?? { italic: false, bold: false };
  const own = source === "" ? "" : styleOf(source);
  const isHeading = /^h[1-6]$/.test(name);
  const italic = /italic|oblique/.test(own) || ITALIC.has(name) || (above.italic && !/font-style:\s*normal/.test(own));
  const bold = /font-weight:\s*(bold|[6-9]00)|\bbold\b/.test(own) || BOLD.has(name) || above.bold;
  open.push({ name, italic, bold: bold && !isHeading });
}

/** What a tag says of its look: by its style, and by names of classes that say so themselves. @param {string} source */
function styleOf(source) {
  const attributes = attributesOf(source);
  return `${attributes.get("style") ?? ""} ${attributes.get("class") ?? ""}`.toLowerCase();
}

/** @param {{name: string}[]} open @param {string} name */
function pop(open, name) {
  const at = open.findLastIndex((each) => each.name === name);
  if (at >= 0) open.length = at;
}
