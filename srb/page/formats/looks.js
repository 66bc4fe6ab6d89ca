/**
 * How a page's own styles make words look: italic, bold, hidden, with spaces as they are. Selectors
 * of elements, classes and ids are read, also within others; of two rules the more special one holds, then the later one.
 *
 * @typedef {{italic?: boolean, bold?: boolean, hidden?: boolean, pre?: boolean, plainer?: boolean}} Look  `plainer`: a look that a story has not
 * @typedef {{name: string, classes: string[], id: string}} Part  of a selector
 * @typedef {Part & {around: Part[], rank: number, order: number, look: Look}} Rule  `around`: what it is within, the innermost first
 */

/** @import {Element} from "./markup.js" */

const RULE = /([^{}]+)\{([^{}]*)\}/g;
const COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/g;
const PART = /^([a-z][a-z\d-]*|\*)?((?:[.#][\w-]+)*)$/i;
const MOST = 5000; // rules of one file

/** @param {string} declarations @returns {Look} */
export function lookOf(declarations) {
  /** @type {Look} */
  const look = {};
  for (const declaration of declarations.split(";")) {
    const [key = "", said = ""] = declaration.split(/:(.*)/s).map((part) => part.trim().toLowerCase());
    if (key === "font-style") look.italic = /italic|oblique/.test(said);
    else if (key === "font-weight" && !/inherit/.test(said)) look.bold = isBold(said);
    else if (key === "font") [look.italic, look.bold] = [/\b(italic|oblique)\b/.test(said), isBold(said)];
    else if (key === "display") look.hidden = /^none\b/.test(said);
    else if (key === "visibility") look.hidden = /^(hidden|collapse)\b/.test(said);
    else if (key === "white-space") look.pre = /^(pre|break-spaces)/.test(said);
    else if (/^text-decoration/.test(key)) look.plainer = /underline|line-through/.test(said);
  }
  return look;
}

/** @param {string} said */
const isBold = (said) => /\b(bold|bolder|[6-9]00|1000)\b/.test(said);

/** @param {string} text @returns {Part | null} null: it is of another kind */
function partOf(text) {
  const [all, name = "", more = ""] = PART.exec(text) ?? [];
  if (!all) return null;
  const parts = more.match(/[.#][\w-]+/g) ?? [];
  const of = (/** @type {string} */ sign) => parts.filter((part) => part.startsWith(sign)).map((part) => part.slice(1));
  return { name: name === "*" ? "" : name.toLowerCase(), classes: of("."), id: of("#")[0] ?? "" };
}

/** @param {Element} element */
const classesOf = ({ attributes }) => (attributes.get("class") ?? "").split(/\s+/).filter(Boolean);

/** @param {Part} part @param {Element} element */
function isPart({ name, classes, id }, element) {
  if ((name !== "" && name !== element.name) || (id !== "" && id !== element.attributes.get("id"))) return false;
  const own = classes.length > 0 ? classesOf(element) : [];
  return classes.every((each) => own.includes(each));
}

/** Whether elements have others around them, one within the other. @param {Part[]} parts @param {Element[]} around */
function isWithin(parts, around) {
  let at = around.length - 1;
  return parts.every((part) => {
    while (at >= 0 && !isPart(part, /** @type {Element} */ (around[at]))) at -= 1;
    at -= 1;
    return at >= -1;
  });
}

/** The rules of a page or book. */
export class Styles {
  /** @type {Map<string, Rule[]>} by what their selector must have: "#id", ".class" or a name */
  #rules = new Map();
  #count = 0;

  /** @param {string} css */
  add(css) {
    for (const [, selectors = "", declarations = ""] of css.replace(COMMENT, "").matchAll(RULE)) {
      const look = lookOf(declarations);
      if (Object.keys(look).length === 0) continue;
      for (const selector of selectors.split(",")) this.#addRule(selector.trim(), look);
    }
  }

  /** @param {string} selector @param {Look} look */
  #addRule(selector, look) {
    const parts = selector
      .split(/\s*>\s*|\s+/)
      .map(partOf)
      .reverse();
    const [own, ...around] = parts;
    if (!own || parts.includes(null) || this.#count === MOST) return; // with siblings or states, which a file has not
    const key = own.id ? `#${own.id}` : own.classes[0] ? `.${own.classes[0]}` : own.name || "*";
    const within = /** @type {Part[]} */ (around);
    const rank = [own, ...within].reduce(
      (sum, { name, classes, id }) => sum + (id ? 100 : 0) + classes.length * 10 + (name ? 1 : 0),
      0,
    );
    this.#count += 1;
    const rule = { ...own, around: within, rank, order: this.#count, look };
    this.#rules.set(key, [...(this.#rules.get(key) ?? []), rule]);
  }

  /**
   * What the rules say of an element.
   * @param {Element} element
   * @param {Element[]} around  those that it is in, the innermost last
   * @returns {Look}
   */
  of(element, around) {
    const { name, attributes } = element;
    const id = attributes.get("id") ?? "";
    const classes = classesOf(element);
    const keys = [...(id ? [`#${id}`] : []), ...classes.map((each) => `.${each}`), name, "*"];
    const rules = keys
      .flatMap((key) => this.#rules.get(key) ?? [])
      .filter((rule) => isPart(rule, element) && isWithin(rule.around, around));
    rules.sort((one, other) => one.rank - other.rank || one.order - other.order);
    return Object.assign({}, ...rules.map(({ look }) => look));
  }

  /** Whether a rule has a class, so that its name alone says nothing. @param {string} name */
  has(name) {
    return this.#rules.has(`.${name}`);
  }
}
