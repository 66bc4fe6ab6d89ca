/** Word files (Office Open XML) as prose: paragraphs, headings, emphasis. What was deleted with changes tracked stays deleted. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { quoted, titleOf } from "./file.js";
import { child, childrenOf, elements, factsIn, lineOf, walk, xmlTree } from "./markup.js";
import { Prose } from "./prose.js";
import { DOCUMENT, RELATIONS } from "./signs.js";

/** @import {Element} from "./markup.js" */
/** @import {Comment} from "./prose.js" */
/** @import {Draft, Opened} from "./types.js" */

/** @typedef {{italic?: boolean, bold?: boolean, hidden?: boolean}} Look */
/** @typedef {Look & {name: string, basedOn: string, level?: number}} Style */

const WANTED = /\.(xml|rels)$/;
const PASSED = new Set(
  "w:pPr w:rPr w:sectPr w:tblPr w:trPr w:tcPr w:del w:moveFrom w:instrText w:delText w:delInstrText w:rt".split(" "),
);
const LONGEST_CHAIN = 20; // of styles that are based on one another
const OFF = /^(0|false|off|none)$/;
const OWN_SIGNS = /[\ue000-\uf8ff]/; // characters that mean something in one font alone

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  const parts = new Parts(files, name);
  const { root, isClosed } = xmlTree(textOfFile(files, parts.document, name));
  const body = child(child(root, "w:document"), "w:body");
  if (!isClosed) throw new StoryError(msg`${quoted(name)} is damaged: ${quoted(parts.document)} was cut short.`);
  if (body === undefined) throw new StoryError(msg`${quoted(name)} is damaged: ${quoted(parts.document)} has no text.`);
  const facts = factsIn(parts.tree("core-properties"));
  const reader = new Reader(stylesOf(parts.tree("styles")), notesOf(parts));
  reader.read(body);
  const title = reader.title || facts.title || titleOf(name);
  const comments = new Map([...commentsIn(parts.tree("comments")), ...reader.noted]);
  return [reader.prose.draft({ title, author: reader.author || facts.author }, comments)];
}

/** The parts of a file, by what its relationships call them. */
class Parts {
  /** @param {Map<string, Uint8Array>} files @param {string} name */
  constructor(files, name) {
    this.files = files;
    this.name = name;
    this.document = this.#named("", RELATIONS).get("officeDocument") ?? DOCUMENT;
    const [, folder = "", file = ""] = /^(.*\/)?([^/]*)$/.exec(this.document) ?? [];
    this.folder = folder;
    this.related = this.#named(folder, `${folder}_rels/${file}.rels`);
  }

  /** @param {string} folder  to which they are relative @param {string} path @returns {Map<string, string>} paths of parts by their kind */
  #named(folder, path) {
    if (!this.files.has(path)) return new Map();
    const { root } = xmlTree(textOfFile(this.files, path, this.name));
    return new Map(
      childrenOf(childrenOf(root)[0]).map(({ attributes }) => {
        const target = attributes.get("Target") ?? "";
        const kind = (attributes.get("Type") ?? "").split("/").at(-1) ?? "";
        return [kind, target.startsWith("/") ? target.slice(1) : folder + target];
      }),
    );
  }

  /** @param {string} kind @returns {Element} an empty one where the file has no such part */
  tree(kind) {
    const usual = kind === "core-properties" ? "docProps/core.xml" : `${this.folder}${kind}.xml`;
    const path = [this.related.get(kind), usual].find((each) => each !== undefined && this.files.has(each));
    return path === undefined ? xmlTree("").root : xmlTree(textOfFile(this.files, path, this.name)).root;
  }
}

class Reader {
  prose = new Prose();
  title = "";
  author = "";
  /** @type {Map<number, Comment>} notes that became comments, by numbers below zero */
  noted = new Map();
  /** @type {Element[]} boxes of text that stand beside the open paragraph */
  #boxes = [];
  /** @type {Look} of the open run */
  #look = {};
  #style = ""; // of the open paragraph
  #words = ""; // of it, as they stand

  /** @param {Map<string, Style>} styles @param {Map<string, string>} notes */
  constructor(styles, notes) {
    this.styles = styles;
    this.notes = notes;
  }

  /** @param {Element} body */
  read(body) {
    walk(body, {
      enter: (element) => this.#enter(element),
      leave: (element) => void (element.name === "w:p" && this.#end(element)),
      text: () => {},
    });
  }

  /** @param {Element} element @returns {boolean} whether what is in it is read */
  #enter(element) {
    const { name, attributes } = element;
    if (PASSED.has(name)) return false;
    switch (name) {
      case "w:p":
        this.#style = value(child(child(element, "w:pPr"), "w:pStyle"));
        this.#words = "";
        if (child(child(element, "w:pPr"), "w:numPr")) this.prose.leaveOut("numbers");
        break;
      case "w:r":
        this.#look = this.#lookOf(child(element, "w:rPr"));
        break;
      case "w:sdt":
        if (!isContents(element)) break;
        this.prose.leaveOut("beside", lineOf(element));
        return false;
      case "mc:AlternateContent":
        element.children = [alternative(element)];
        break;
      case "w:drawing":
      case "w:pict":
      case "w:object":
        this.#draw(element);
        return false;
      case "w:t":
        this.#say(lineless(element));
        return false;
      case "w:tab":
      case "w:ptab":
        this.#say("\t");
        break;
      case "w:br":
      case "w:cr":
        if (!/^(page|column)$/.test(attributes.get("w:type") ?? "")) this.#say("\n");
        break;
      case "w:noBreakHyphen":
        this.#say("\u2011");
        break;
      case "w:sym":
        this.#symbol(Number.parseInt(attributes.get("w:char") ?? "", 16));
        break;
      case "w:commentRangeStart":
      case "w:commentRangeEnd":
      case "w:commentReference":
        if (/^\d{1,9}$/.test(attributes.get("w:id") ?? "")) this.prose.mark(Number(attributes.get("w:id")));
        break;
      case "w:footnoteReference":
      case "w:endnoteReference":
        this.#note(this.notes.get(`${name} ${attributes.get("w:id")}`) ?? "");
        break;
    }
    return true;
  }

  /** @param {string} text */
  #say(text) {
    if (this.#look.hidden) return this.prose.leaveOut("hidden", text);
    this.#words += text;
    const isTitle = this.#nameOf(this.#style) === "title";
    this.prose.add(text, isTitle ? {} : this.#look);
  }

  /** @param {number} code  of a sign that the file wants in a font of symbols */
  #symbol(code) {
    const sign = code > 31 && code < 0xfffe ? String.fromCharCode(code) : "";
    if (sign === "" || OWN_SIGNS.test(sign)) this.prose.leaveOut("signs");
    else this.#say(sign);
  }

  /** Put a note as a comment on the words before it. @param {string} text */
  #note(text) {
    if (text === "") return this.prose.leaveOut("notes");
    const number = -1 - this.noted.size;
    this.noted.set(number, { text, author: "" });
    this.prose.mark(number);
  }

  /** Pictures are left out; the words of boxes come after their paragraph. @param {Element} element */
  #draw(element) {
    const boxes = elements(element, ({ name }) => name === "w:txbxContent");
    const inner = new Set(boxes.flatMap((box) => elements(box, ({ name }) => name === "w:txbxContent")));
    this.#boxes.push(...boxes.filter((box) => !inner.has(box)));
    if (boxes.length === 0) this.prose.leaveOut("pictures");
  }

  /** End a paragraph; one whose end was deleted goes on in the next. @param {Element} element */
  #end(element) {
    const of = child(element, "w:pPr");
    const mark = child(of, "w:rPr");
    const name = this.#nameOf(this.#style);
    if (name === "title" && this.title === "" && this.#words.trim() !== "") this.#take("title");
    else if (name === "author" && this.author === "" && this.#words.trim() !== "") this.#take("author");
    else if (name === "scene gap" && this.#words.trim() === "") this.prose.beginScene();
    else if (/^toc \d$/.test(name) && this.#words.trim() !== "") {
      this.prose.leaveOut("beside", this.#words);
      this.prose.drop();
    } else if (!child(mark, "w:del") && !child(mark, "w:moveFrom")) {
      const outline = Number(value(child(of, "w:outlineLvl")) || 9);
      const level = outline < 9 ? outline + 1 : (this.#styleOf(this.#style).level ?? 0);
      this.prose.end(level, { isParagraph: true, isLine: name === "line", isName: name === "chapter name" });
    }
    for (const box of this.#boxes.splice(0)) this.read(box);
  }

  /** Take the paragraph's words, which the story has by themselves; a title page's words before them are none of the text's. @param {"title" | "author"} as */
  #take(as) {
    this[as] = this.#words.replace(/\s+/g, " ").trim().slice(0, 200);
    if (as === "title") this.prose.dropAll(this[as]);
    else this.prose.drop();
  }

  /**
   * What a run says of itself, else what its style and its paragraph's say: two that both say a look take it away.
   * @param {Element | undefined} run  its properties, without those that it had before a change
   * @returns {Look}
   */
  #lookOf(run) {
    const [own, around] = [this.#styleOf(value(child(run, "w:rStyle"))), this.#styleOf(this.#style)];
    const isHeading = (around.level ?? 0) > 0;
    const said = looksOf(run);
    if (said.isPlainer) this.prose.leaveOut("looks");
    const both = (/** @type {keyof Look} */ key) =>
      (own[key] ?? false) !== (isHeading ? false : (around[key] ?? false));
    return {
      italic: said.italic ?? both("italic"),
      bold: isHeading ? false : (said.bold ?? both("bold")),
      hidden: said.hidden ?? both("hidden"),
    };
  }

  /** @param {string} id @returns {string} a style's name in small letters */
  #nameOf(id) {
    return this.styles.get(id)?.name ?? "";
  }

  /** What a style says, by itself or by those that it is based on. @param {string} id @returns {Partial<Style>} */
  #styleOf(id) {
    /** @type {Partial<Style>} */
    const said = {};
    let style = this.styles.get(id);
    for (let count = 0; style && count < LONGEST_CHAIN; count += 1) {
      said.italic ??= style.italic;
      said.bold ??= style.bold;
      said.hidden ??= style.hidden;
      said.level ??= style.level;
      style = this.styles.get(style.basedOn);
    }
    return said;
  }
}

/** @param {Element | undefined} element */
const value = (element) => element?.attributes.get("w:val") ?? "";

/** @param {Element | undefined} properties @param {string} name @returns {boolean | undefined} undefined: they do not say */
function isOn(properties, name) {
  const element = child(properties, name);
  return element && !OFF.test(value(element));
}

/** @param {Element | undefined} properties @returns {Look & {isPlainer: boolean}} `isPlainer`: they say a look that a story has not */
function looksOf(properties) {
  const underline = child(properties, "w:u");
  return {
    italic: isOn(properties, "w:i"),
    bold: isOn(properties, "w:b"),
    hidden: isOn(properties, "w:vanish"),
    isPlainer: Boolean(
      isOn(properties, "w:strike") || isOn(properties, "w:dstrike") || (underline && value(underline) !== "none"),
    ),
  };
}

/** The text in an element, as it stands. @param {Element} element */
const lineless = (element) => element.children.filter((each) => typeof each === "string").join("");

/** Whether a part of a document is a table of contents. @param {Element} element */
function isContents(element) {
  const gallery = elements(child(element, "w:sdtPr") ?? element, ({ name }) => name === "w:docPartGallery")[0];
  return /table of contents/i.test(value(gallery));
}

/** The one of two forms of the same that can be read. @param {Element} element @returns {Element | string} */
function alternative(element) {
  const forms = childrenOf(element);
  const isRead = (/** @type {Element} */ form) =>
    elements(form, ({ name }) => name === "w:t" || name === "w:drawing" || name === "w:pict").length > 0;
  return forms.find((form) => form.name === "mc:Choice" && isRead(form)) ?? forms.find((form) => isRead(form)) ?? "";
}

/** @param {Element} root @returns {Map<string, Style>} */
function stylesOf(root) {
  return new Map(
    elements(root, ({ name }) => name === "w:style").map((style) => {
      const name = value(child(style, "w:name")).toLowerCase();
      const heading = /^heading ([1-9])$/.exec(name);
      const outline = Number(value(child(child(style, "w:pPr"), "w:outlineLvl")) || 9);
      const level = outline < 9 ? outline + 1 : heading ? Number(heading[1]) : undefined;
      const { isPlainer: _, ...look } = looksOf(child(style, "w:rPr"));
      return [
        style.attributes.get("w:styleId") ?? "",
        { name, basedOn: value(child(style, "w:basedOn")), level, ...look },
      ];
    }),
  );
}

/** @param {Parts} parts @returns {Map<string, string>} words of notes, by the reference to them */
function notesOf(parts) {
  const notes = new Map();
  for (const kind of ["footnote", "endnote"]) {
    for (const note of elements(parts.tree(`${kind}s`), ({ name }) => name === `w:${kind}`))
      notes.set(`w:${kind}Reference ${note.attributes.get("w:id")}`, plainText(note).trim());
  }
  return notes;
}

/** The comments of a file by their numbers. @param {Element} root @returns {Map<number, Comment>} */
function commentsIn(root) {
  return new Map(
    elements(root, ({ name }) => name === "w:comment").map((comment) => [
      Number(comment.attributes.get("w:id")),
      { text: plainText(comment), author: comment.attributes.get("w:author") ?? "" },
    ]),
  );
}

/** Words of paragraphs, as lines. @param {Element} root */
function plainText(root) {
  let text = "";
  walk(root, {
    enter: (element) => {
      if (element.name === "w:t") text += lineless(element);
      else if (element.name === "w:br") text += "\n";
      else if (element.name === "w:tab") text += "\t";
      return !PASSED.has(element.name);
    },
    leave: ({ name }) => {
      if (name === "w:p") text += "\n";
    },
    text: () => {},
  });
  return text;
}
