/** Word files (Office Open XML) as prose: paragraphs, headings, emphasis. What was deleted with changes tracked stays deleted. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { quoted, titleOf } from "./file.js";
import { notesLeftOut, picturesLeftOut } from "./html_in.js";
import { attributesOf, tokens } from "./markup.js";
import { Prose } from "./prose.js";
import { DOCUMENT } from "./signs.js";

/** @import {Draft, Opened} from "./types.js" */

/** @typedef {{italic?: boolean, bold?: boolean, level?: number, name: string, basedOn: string}} Style */

const WANTED = /^(_rels\/\.rels|docProps\/core\.xml|word\/[^/]+\.xml)$/;
const COMMENTS = "word/comments.xml";
const SKIPPED = new Set(["w:drawing", "w:pict", "w:object", "mc:Fallback", "w:instrText", "w:moveFrom"]);
const LONGEST_CHAIN = 20; // of styles that are based on one another

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  const styles = files.has("word/styles.xml") ? stylesOf(textOfFile(files, "word/styles.xml", name)) : new Map();
  const core = files.has("docProps/core.xml") ? textOfFile(files, "docProps/core.xml", name) : "";
  const reader = new Reader(styles);
  const isWhole = reader.read(textOfFile(files, DOCUMENT, name));
  if (!isWhole) throw new StoryError(msg`${quoted(name)} is damaged: ${quoted(DOCUMENT)} was cut short.`);
  const title = reader.title || elementText(core, "dc:title") || titleOf(name);
  const { prose, notes, pictures } = reader;
  const comments = files.has(COMMENTS) ? commentsIn(textOfFile(files, COMMENTS, name)) : new Map();
  const remarks = [...picturesLeftOut(pictures), ...notesLeftOut(notes)];
  const { marked, ...draft } = prose.draft({ title }, remarks);
  const found = marked.flatMap(({ number, from, to }) => {
    const comment = comments.get(number);
    return comment ? [{ from, to, ...comment }] : [];
  });
  return [{ ...draft, comments: found }];
}

class Reader {
  prose = new Prose();
  notes = 0;
  pictures = 0;
  title = "";

  /** @param {Map<string, Style>} styles */
  constructor(styles) {
    this.styles = styles;
  }

  /** @param {string} xml @returns {boolean} whether the document is whole */
  read(xml) {
    /** @type {{italic?: boolean, bold?: boolean, style: string}} */
    let run = { style: "" };
    let paragraph = { style: "", level: 0 };
    let skipped = { name: "", depth: 0 };
    let isText = false;
    let isWhole = false;
    let words = ""; // of the paragraph, for a title
    for (const token of tokens(xml)) {
      if (token.kind === "text") {
        if (!isText || skipped.depth > 0) continue;
        words += token.text;
        const style = this.look(run, paragraph.style);
        this.prose.add(token.text, this.nameOf(paragraph.style) === "title" ? {} : style);
        continue;
      }
      const { name } = token;
      const isOpen = token.kind === "open";
      const isEmpty = isOpen && token.isEmpty;
      if (skipped.depth > 0) {
        if (name === skipped.name && !isEmpty) skipped.depth += isOpen ? 1 : -1;
        continue;
      }
      if (isOpen && SKIPPED.has(name)) {
        this.pictures += Number(name === "w:drawing" || name === "w:pict");
        if (!isEmpty) skipped = { name, depth: 1 };
        continue;
      }
      const value = () => (isOpen ? (attributesOf(token.source).get("w:val") ?? "") : "");
      const isOn = () => isOpen && !/^(0|false|off|none)$/.test(value());
      switch (name) {
        case "w:p":
          if (isOpen && !isEmpty) [paragraph, words] = [{ style: "", level: 0 }, ""];
          else if (this.title === "" && this.nameOf(paragraph.style) === "title") this.endTitle(words);
          else this.prose.end(paragraph.level || this.styleOf(paragraph.style).level || 0);
          break;
        case "w:pStyle":
          paragraph.style = value() || paragraph.style;
          break;
        case "w:outlineLvl":
          if (isOpen && Number(value()) < 9) paragraph.level = Number(value()) + 1;
          break;
        case "w:r":
          run = { style: "" };
          break;
        case "w:rStyle":
          run.style = value() || run.style;
          break;
        case "w:i":
          if (isOpen) run.italic = isOn();
          break;
        case "w:b":
          if (isOpen) run.bold = isOn();
          break;
        case "w:t":
          isText = isOpen && !isEmpty;
          break;
        case "w:tab":
          if (isOpen && !/w:pos=/.test(token.source)) this.prose.add("\t");
          break;
        case "w:br":
        case "w:cr":
          if (isOpen && !/w:type="(page|column)"/.test(token.source)) this.prose.add("\n");
          break;
        case "w:noBreakHyphen":
          if (isOpen) this.prose.add("\u2011");
          break;
        case "w:commentRangeStart":
        case "w:commentRangeEnd":
        case "w:commentReference":
          if (isOpen) this.markComment(name, attributesOf(token.source).get("w:id"));
          break;
        case "w:footnoteReference":
        case "w:endnoteReference":
          this.notes += Number(isOpen);
          break;
        case "w:document":
          isWhole = !isOpen;
          break;
      }
    }
    return isWhole;
  }

  /** @param {string} name  of the tag @param {string} [id]  of the comment */
  markComment(name, id = "") {
    if (/^\d{1,9}$/.test(id)) this.prose.mark(name === "w:commentRangeStart" ? "begin" : "end", Number(id));
  }

  /** Take the title, which the story has by itself. @param {string} words */
  endTitle(words) {
    this.title = words.replace(/\s+/g, " ").trim().slice(0, 200);
    this.prose = new Prose(); // a title page's words before it are none of the text's
  }

  /** @param {{italic?: boolean, bold?: boolean, style: string}} run @param {string} paragraph */
  look({ italic, bold, style }, paragraph) {
    const [own, around] = [this.styleOf(style), this.styleOf(paragraph)];
    const isHeading = (around.level ?? 0) > 0;
    return {
      italic: italic ?? own.italic ?? (isHeading ? false : around.italic) ?? false,
      bold: isHeading ? false : (bold ?? own.bold ?? around.bold ?? false),
    };
  }

  /** @param {string} id @returns {string} a style's name in small letters */
  nameOf(id) {
    return this.styles.get(id)?.name ?? "";
  }

  /** What a style says, by itself or by those that it is based on. @param {string} id @returns {Partial<Style>} */
  styleOf(id) {
    /** @type {Partial<Style>} */
    const said = {};
    let style = this.styles.get(id);
    for (let count = 0; style && count < LONGEST_CHAIN; count += 1) {
      said.italic ??= style.italic;
      said.bold ??= style.bold;
      said.level ??= style.level;
      style = this.styles.get(style.basedOn);
    }
    return said;
  }
}

/** @param {string} xml @returns {Map<string, Style>} */
function stylesOf(xml) {
  const styles = new Map();
  /** @type {Style | null} */
  let style = null;
  for (const token of tokens(xml)) {
    if (token.kind !== "open") {
      if (token.kind === "close" && token.name === "w:style") style = null;
      continue;
    }
    const attributes = attributesOf(token.source);
    const value = attributes.get("w:val") ?? "";
    const isOn = !/^(0|false|off|none)$/.test(value);
    if (token.name === "w:style") {
      style = { name: "", basedOn: "" };
      styles.set(attributes.get("w:styleId") ?? "", style);
    }
    if (style === null) continue;
    if (token.name === "w:name") Object.assign(style, named(value));
    else if (token.name === "w:basedOn") style.basedOn = value;
    else if (token.name === "w:outlineLvl" && Number(value) < 9) style.level = Number(value) + 1;
    else if (token.name === "w:i") style.italic = isOn;
    else if (token.name === "w:b") style.bold = isOn;
  }
  return styles;
}

/** @param {string} name */
function named(name) {
  const heading = /^heading ([1-9])$/i.exec(name);
  return { name: name.toLowerCase(), ...(heading ? { level: Number(heading[1]) } : {}) };
}

/** The text of the first element of a name. @param {string} xml @param {string} wanted */
export function elementText(xml, wanted) {
  let text = "";
  let isIn = false;
  for (const token of tokens(xml)) {
    if (token.kind === "text") text += isIn ? token.text : "";
    else if (token.name === wanted && !(token.kind === "open" && token.isEmpty)) {
      if (isIn) break;
      isIn = true;
    }
  }
  return text.replace(/\s+/g, " ").trim().slice(0, 200);
}

/** The comments of a file by their numbers. @param {string} xml @returns {Map<number, {text: string, author: string}>} */
function commentsIn(xml) {
  const comments = new Map();
  let comment = { text: "", author: "" };
  let isText = false;
  for (const token of tokens(xml)) {
    if (token.kind === "text") {
      if (isText) comment.text += token.text;
      continue;
    }
    const isOpen = token.kind === "open";
    if (token.name === "w:comment" && isOpen) {
      const attributes = attributesOf(token.source);
      comment = { text: "", author: attributes.get("w:author") ?? "" };
      comments.set(Number(attributes.get("w:id")), comment);
    } else if (token.name === "w:t") isText = isOpen && !token.isEmpty;
    else if (token.name === "w:br" || (token.name === "w:p" && !isOpen)) comment.text += "\n";
    else if (token.name === "w:tab" && isOpen) comment.text += "\t";
  }
  return comments;
}
