/**
 * How a page's own styles make words look: italic, bold, hidden, with spaces as they are. Rules for elements, classes and ids are
 * read, the last part of longer selectors alone; of two rules the more special one holds, then the later one.
 *
 * @typedef {{italic?: boolean, bold?: boolean, hidden?: boolean, pre?: boolean, plainer?: boolean}} Look  `plainer`: a look that a story has not
 * @typedef {{name: string, classes: string[], id: string, rank: number, look: Look}} Rule
 */

const RULE = /([^{}]+)\{([^{}]*)\}/g;
const COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/g;
const LAST = /(?:^|[\s>+~])([a-z][a-z\d-]*|\*)?((?:[.#][\w-]+)*)$/i;
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
    const [, name = "", more = ""] = LAST.exec(selector) ?? [];
    if ((name === "" && more === "") || this.#count === MOST) return;
    const parts = more.match(/[.#][\w-]+/g) ?? [];
    const classes = parts.filter((part) => part.startsWith(".")).map((part) => part.slice(1));
    const id = parts.find((part) => part.startsWith("#"))?.slice(1) ?? "";
    const key = id ? `#${id}` : classes[0] ? `.${classes[0]}` : name.toLowerCase();
    const rank = (id ? 100 : 0) + classes.length * 10 + Number(name !== "" && name !== "*");
    const rule = { name: name === "*" ? "" : name.toLowerCase(), classes, id, rank, look };
    this.#count += 1;
    this.#rules.set(key, [...(this.#rules.get(key) ?? []), rule]);
  }

  /**
   * What the rules say of an element.
   * @param {import("./markup.js").Element} element
   * @returns {Look}
   */
  of({ name, attributes }) {
    const id = attributes.get("id") ?? "";
    const classes = (attributes.get("class") ?? "").split(/\s+/).filter(Boolean);
    const keys = [...(id ? [`#${id}`] : []), ...classes.map((each) => `.${each}`), name, "*"];
    const rules = keys
      .flatMap((key) => this.#rules.get(key) ?? [])
      .filter(
        (rule) =>
          (rule.name === "" || rule.name === name) &&
          (rule.id === "" || rule.id === id) &&
          rule.classes.every((each) => classes.includes(each)),
      );
    return Object.assign({}, ...rules.sort((one, other) => one.rank - other.rank).map(({ look }) => look));
  }

  /** Whether a rule has a class, so that its name alone says nothing. @param {string} name */
  has(name) {
    return this.#rules.has(`.${name}`);
  }
}
