/**
 * XML as a tree, and ways through trees. htmlparser2 reads it; the browser's own parser is not for this page: to it, text of others
 * is script until the page's policy says otherwise, and the policy says nothing of the kind.
 *
 * @typedef {{name: string, attributes: Map<string, string>, children: (Element | string)[]}} Element  names as `SPACES` has them
 * @typedef {{enter: (element: Element) => boolean | void, leave?: (element: Element) => void, text: (text: string) => void}} Visitor
 *   `enter` returns false for an element that is passed over, with all that is in it
 */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { decodeHTMLStrict, Parser } from "../vendor/xml.js";

const DEEPEST = 1000; // elements within one another
const OFFICE = "http://schemas.openxmlformats.org/";
/** Namespaces whose names keep a prefix, whatever the file calls it. @type {Map<string, string>} */
const SPACES = new Map([
  [`${OFFICE}wordprocessingml/2006/main`, "w:"],
  ["http://purl.oclc.org/ooxml/wordprocessingml/main", "w:"],
  [`${OFFICE}markup-compatibility/2006`, "mc:"],
  [`${OFFICE}officeDocument/2006/relationships`, "r:"],
  ["http://purl.oclc.org/ooxml/officeDocument/relationships", "r:"],
  ["http://purl.org/dc/elements/1.1/", "dc:"],
  ["http://www.idpf.org/2007/ops", "epub:"],
  ["urn:oasis:names:tc:opendocument:xmlns:office:1.0", "office:"],
  ["urn:oasis:names:tc:opendocument:xmlns:text:1.0", "text:"],
  ["urn:oasis:names:tc:opendocument:xmlns:style:1.0", "style:"],
  ["urn:oasis:names:tc:opendocument:xmlns:drawing:1.0", "draw:"],
  ["urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0", "fo:"],
]);

/** @param {string} key @param {string} value @returns {[string, string]} */
const pair = (key, value) => [key, value];

/** Builds the tree; `text` and names are the file's, checked by nobody. */
class Builder {
  root = /** @type {Element} */ ({ name: "", attributes: new Map(), children: [] });
  isWhole = true; // each element was closed by its own tag
  isClosed = false; // the outermost one was
  #open = [this.root];
  #spaces = [new Map([["xml", "xml:"]])]; // prefixes of the open elements
  #isPlain = false; // within CDATA

  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }

  /** @param {Parser} parser */
  onparserinit(parser) {
    this.parser = parser;
  }

  /** @param {string} name @param {Record<string, string>} attributes */
  onopentag(name, attributes) {
    if (this.#open.length > DEEPEST) throw new StoryError(msg`The file is nested too deeply to be read.`);
    const entries = Object.entries(attributes);
    let spaces = /** @type {Map<string, string>} */ (this.#spaces.at(-1));
    const declared = entries.filter(([key]) => /^xmlns(:|$)/.test(key));
    if (declared.length > 0)
      spaces = new Map([...spaces, ...declared.map(([key, uri]) => pair(key.slice(6), SPACES.get(uri) ?? ""))]);
    this.#spaces.push(spaces);
    const own = entries.map(([key, value]) => pair(named(key, spaces, false), decodeHTMLStrict(value)));
    const element = { name: named(name, spaces, true), attributes: new Map(own), children: [] };
    this.#open.at(-1)?.children.push(element);
    this.#open.push(element);
  }

  /** @param {string} _name @param {boolean} isImplied */
  onclosetag(_name, isImplied) {
    if (this.#open.length === 1) return;
    const isOwn = !isImplied || this.source[Number(this.parser?.endIndex) - 1] === "/";
    this.isWhole &&= isOwn;
    if (this.#open.length === 2) this.isClosed = isOwn;
    this.#open.pop();
    this.#spaces.pop();
  }

  /** @param {string} text */
  ontext(text) {
    this.#open.at(-1)?.children.push(this.#isPlain ? text : decodeHTMLStrict(text));
  }

  oncdatastart() {
    this.#isPlain = true;
  }

  oncdataend() {
    this.#isPlain = false;
  }
}

/** A name with the prefix of its namespace; one whose prefix is nowhere declared stays as it is. @param {string} name @param {Map<string, string>} spaces @param {boolean} isElement */
function named(name, spaces, isElement) {
  const [, prefix = "", local = ""] = /^(?:([^:]*):)?(.*)$/s.exec(name) ?? [];
  if (prefix === "" && !isElement) return name;
  const space = spaces.get(prefix);
  return space === undefined ? name : space + local;
}

/**
 * Read XML. What is damaged is read as far as it can be.
 * @param {string} text
 * @returns {{root: Element, isWhole: boolean, isClosed: boolean}} the root holds the outermost element
 */
export function xmlTree(text) {
  const builder = new Builder(text);
  const parser = new Parser(builder, { xmlMode: true, decodeEntities: false });
  parser.end(text);
  return builder;
}

/** Walk through a tree, in its order. @param {Element} root @param {Visitor} visitor */
export function walk(root, { enter, leave, text }) {
  const open = [{ element: root, next: 0 }];
  for (let top = open.at(-1); top; top = open.at(-1)) {
    const child = top.element.children[top.next];
    top.next += 1;
    if (child === undefined) {
      open.pop();
      if (open.length > 0) leave?.(top.element);
    } else if (typeof child === "string") text(child);
    else if (enter(child) !== false) open.push({ element: child, next: 0 });
  }
}

/** @param {Element} root @param {(element: Element) => boolean} isWanted @returns {Element[]} all that are wanted, in their order */
export function elements(root, isWanted) {
  /** @type {Element[]} */
  const found = [];
  walk(root, {
    enter: (element) => void (isWanted(element) && found.push(element)),
    text: () => {},
  });
  return found;
}

/** @param {Element} root @param {string} name @returns {Element | undefined} the first of a name, with any prefix or none */
export function first(root, name) {
  return elements(root, (element) => element.name.replace(/^.*:/, "") === name.replace(/^.*:/, ""))[0];
}

/** @param {Element | undefined} element @returns {Element[]} */
export const childrenOf = (element) => (element?.children ?? []).filter((each) => typeof each !== "string");

/** @param {Element | undefined} element @param {string} name */
export const child = (element, name) => childrenOf(element).find((each) => each.name === name);

const LONGEST_FACT = 200; // characters

/** The title and the author that a part about a file says. @param {Element | undefined} root @returns {{title: string, author: string}} */
export function factsIn(root) {
  const [title, author] = ["dc:title", "dc:creator"].map((name) =>
    lineOf(root && first(root, name)).slice(0, LONGEST_FACT),
  );
  return { title: title ?? "", author: author ?? "" };
}

/** All text within an element, as one line. @param {Element | undefined} element */
export function lineOf(element) {
  let line = "";
  const add = (/** @type {string} */ text) => {
    line += text;
  };
  if (element) walk(element, { enter: () => true, text: add });
  return line.replace(/\s+/g, " ").trim();
}
