/** OpenDocument texts (LibreOffice) as prose. What was deleted with changes tracked stays deleted; notes and remarks become comments. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { quoted, titleOf } from "./file.js";
import { child, elements, factsIn, first, lineOf, walk, xmlTree } from "./markup.js";
import { Prose } from "./prose.js";
import { CONTENT } from "./signs.js";

/** @import {Element} from "./markup.js" */
/** @import {Comment} from "./prose.js" */
/** @import {Draft, Opened} from "./types.js" */

/** @typedef {{italic?: boolean, bold?: boolean, hidden?: boolean, plainer?: boolean}} Look */
/** @typedef {Look & {name: string, parent: string, level?: number}} Style */

const WANTED = /^(content|styles|meta)\.xml$|^META-INF\/manifest\.xml$/;
const PASSED = new Set(
  "text:tracked-changes text:sequence-decls text:ruby-text office:forms text:variable-decls text:user-field-decls".split(
    " ",
  ),
);
const CONTENTS = new Set(
  "text:table-of-content text:alphabetical-index text:illustration-index text:bibliography".split(" "),
);
const LONGEST_CHAIN = 20; // of styles that are based on one another
const MOST_SPACES = 1000; // that one element stands for

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  const { root, isClosed } = xmlTree(textOfFile(files, CONTENT, name));
  const body = first(root, "office:text");
  if (!isClosed) throw new StoryError(msg`${quoted(name)} is damaged: ${quoted(CONTENT)} was cut short.`);
  if (body === undefined) throw new StoryError(msg`${quoted(name)} is damaged: ${quoted(CONTENT)} has no text.`);
  const part = (/** @type {string} */ file) => xmlTree(files.has(file) ? textOfFile(files, file, name) : "").root;
  const reader = new Reader(stylesOf(root, part("styles.xml")));
  reader.read(body);
  const facts = factsIn(part("meta.xml"));
  const title = reader.title || facts.title || titleOf(name);
  return [reader.prose.draft({ title, author: reader.author || facts.author }, reader.comments)];
}

class Reader {
  prose = new Prose();
  title = "";
  author = "";
  /** @type {Map<number, Comment>} */
  comments = new Map();
  /** @type {Map<string, number>} of remarks that go on over words, by their names */
  #open = new Map();
  /** @type {Look[]} */
  #looks = [{}];
  /** @type {Element[]} */
  #boxes = [];
  #words = ""; // of the paragraph
  #style = ""; // its name

  /** @param {Map<string, Style>} styles  by family and name */
  constructor(styles) {
    this.styles = styles;
  }

  /** @param {Element} body */
  read(body) {
    walk(body, {
      enter: (element) => this.#enter(element),
      leave: (element) => this.#leave(element),
      text: (text) => this.#say(text.replace(/\s+/g, " "), true),
    });
  }

  /** @param {Element} element @returns {boolean} */
  #enter(element) {
    const { name, attributes } = element;
    if (PASSED.has(name)) return false;
    const style = attributes.get("text:style-name") ?? "";
    if (CONTENTS.has(name)) {
      this.prose.leaveOut("beside", lineOf(element));
      return false;
    }
    switch (name) {
      case "text:p":
      case "text:h": {
        const of = this.#styleOf("paragraph", style);
        [this.#words, this.#style] = ["", style];
        this.#push(of, name === "text:h" || of.level !== undefined);
        return true;
      }
      case "text:span":
        this.#push(this.#styleOf("text", style), false);
        return true;
      case "text:list-item":
        this.prose.leaveOut("numbers");
        return true;
      case "text:s":
        this.#say(" ".repeat(Math.min(Number(attributes.get("text:c") ?? 1) || 1, MOST_SPACES)), false);
        return false;
      case "text:tab":
        this.#say("\t", false);
        return false;
      case "text:line-break":
        this.#say("\n", false);
        return false;
      case "text:note":
        this.#note(plainText(first(element, "text:note-body")), "");
        return false;
      case "office:annotation": {
        const author = lineOf(child(element, "dc:creator"));
        const number = this.#note(plainText(element), author);
        const isLong = attributes.has("office:name");
        if (isLong) this.#open.set(attributes.get("office:name") ?? "", number);
        return false;
      }
      case "office:annotation-end": {
        const number = this.#open.get(attributes.get("office:name") ?? "");
        if (number !== undefined) this.prose.mark(number);
        return false;
      }
      case "draw:frame":
      case "draw:g":
      case "draw:custom-shape":
      case "draw:rect":
        this.#draw(element);
        return false;
    }
    return true;
  }

  /** @param {Element} element */
  #leave({ name, attributes }) {
    if (name === "text:span") this.#looks.pop();
    if (name !== "text:p" && name !== "text:h") return;
    this.#looks.pop();
    const of = this.#styleOf("paragraph", this.#style);
    const isTaken = (of.name === "title" && !this.title) || (of.name === "author" && !this.author);
    if (isTaken && this.#words.trim() !== "") {
      const words = this.#words.replace(/\s+/g, " ").trim().slice(0, 200);
      if (of.name === "author") this.author = words;
      else this.title = words;
      if (of.name === "title") this.prose.dropAll(this.title);
      else this.prose.drop();
    } else {
      const level = name === "text:h" ? Number(attributes.get("text:outline-level") ?? 1) || 1 : (of.level ?? 0);
      this.prose.end(level, { isParagraph: true });
    }
    for (const box of this.#boxes.splice(0)) this.read(box);
  }

  /** @param {Partial<Style>} style @param {boolean} isHeading */
  #push({ italic, bold, hidden, plainer }, isHeading) {
    const above = this.#looks.at(-1) ?? {};
    const look = { italic: italic ?? above.italic, bold: bold ?? above.bold, hidden: hidden ?? above.hidden };
    if (plainer) this.prose.leaveOut("looks");
    this.#looks.push(isHeading ? { hidden: look.hidden } : look);
  }

  /** @param {string} text @param {boolean} isSpaced  spaces in a row are one */
  #say(text, isSpaced) {
    const look = this.#looks.at(-1) ?? {};
    if (look.hidden) return this.prose.leaveOut("hidden", text);
    const words = isSpaced && this.prose.isSpaced && text.startsWith(" ") ? text.slice(1) : text;
    this.#words += words;
    this.prose.add(words, look);
  }

  /** @param {string} text @param {string} author @returns {number} */
  #note(text, author) {
    const number = this.comments.size;
    this.comments.set(number, { text, author });
    this.prose.mark(number);
    return number;
  }

  /** @param {Element} element */
  #draw(element) {
    const boxes = elements(element, ({ name }) => name === "draw:text-box");
    if (boxes.length > 0) this.#boxes.push(...boxes.slice(0, 1));
    else if (elements(element, ({ name }) => name === "text:p").length > 0) this.#boxes.push(element);
    else this.prose.leaveOut("pictures");
  }

  /** @param {"paragraph" | "text"} family @param {string} name @returns {Partial<Style>} */
  #styleOf(family, name) {
    /** @type {Partial<Style>} */
    const said = {};
    let next = name;
    for (let count = 0; next !== "" && count < LONGEST_CHAIN; count += 1) {
      const style = this.styles.get(`${family} ${next}`);
      const own = style?.name ?? next.replace(/_20_/g, " ").toLowerCase(); // one of the program's own is nowhere defined
      said.name ||= /^[pt]\d+$/.test(own) ? "" : own; // names of automatic styles say nothing
      said.italic ??= style?.italic;
      said.bold ??= style?.bold;
      said.hidden ??= style?.hidden;
      said.plainer ??= style?.plainer;
      said.level ??= style?.level;
      next = style?.parent ?? "";
    }
    said.level ??= Number(/^heading ([1-9])$/.exec(said.name ?? "")?.[1] ?? 0) || undefined;
    return said;
  }
}

/** @param {...Element} roots @returns {Map<string, Style>} */
function stylesOf(...roots) {
  const styles = new Map();
  for (const root of roots) {
    for (const element of elements(root, ({ name }) => name === "style:style")) {
      const of = (/** @type {string} */ name) => element.attributes.get(`style:${name}`) ?? "";
      const text = child(element, "style:text-properties")?.attributes ?? new Map();
      const [slant, weight] = [text.get("fo:font-style"), text.get("fo:font-weight")];
      const level = Number(of("default-outline-level"));
      const lines = ["text-underline-style", "text-line-through-style"].map(
        (each) => text.get(`style:${each}`) ?? "none",
      );
      styles.set(`${of("family")} ${of("name")}`, {
        name: (of("display-name") || of("name")).toLowerCase(),
        parent: of("parent-style-name"),
        italic: slant && /italic|oblique/.test(slant),
        bold: weight && /bold|[6-9]00/.test(weight),
        hidden: text.has("text:display") ? text.get("text:display") === "none" : undefined,
        plainer: lines.some((line) => line !== "none") || undefined,
        level: level > 0 ? level : undefined,
      });
    }
  }
  return styles;
}

/** Words of paragraphs, as lines. @param {Element | undefined} root */
function plainText(root) {
  return elements(root ?? { name: "", attributes: new Map(), children: [] }, ({ name }) => name === "text:p")
    .map(lineOf)
    .join("\n");
}
