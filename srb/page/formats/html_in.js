/** HTML, and the pages of EPUBs, as prose. Nothing of it is ever shown as markup: only its words come in. */
import { titleOf } from "./file.js";
import { htmlTree } from "./html_tree.js";
import { lookOf, Styles } from "./looks.js";
import { elements, lineOf, walk } from "./markup.js";
import { Prose } from "./prose.js";

/** @import {Look} from "./looks.js" */
/** @import {Element} from "./markup.js" */
/** @import {Draft, Opened} from "./types.js" */

const BLOCKS = new Set(
  "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main ol p pre section summary table td th tr ul".split(
    " ",
  ),
);
const PASSED = new Set("head rp rt rtc script style template".split(" "));
const BESIDE = new Set("audio button canvas iframe math nav noscript object select svg textarea video".split(" "));
const ITALIC = new Set(["i", "em", "cite", "dfn", "var"]);
const BOLD = new Set(["b", "strong"]);
const PLAINER = new Set(["u", "s", "strike", "del", "ins"]);
const CHARSET = /<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]{1,40})/i;

/** @param {Opened} opened @returns {Draft[]} */
export function read(opened) {
  const root = htmlTree(asItSays(opened));
  const prose = new Prose();
  const [title, author] = [addPage(prose, root, stylesIn(root)), authorOf(root)];
  prose.without(title, author);
  return [prose.draft({ title: title || titleOf(opened.name), author })];
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

/** The styles that a page has in itself. @param {Element} root @param {Styles} [styles]  to which they are added */
export function stylesIn(root, styles = new Styles()) {
  for (const style of elements(root, ({ name }) => name === "style")) styles.add(lineOf(style));
  return styles;
}

/** @param {Element} root */
function authorOf(root) {
  const said = elements(
    root,
    ({ name, attributes }) => name === "meta" && /^author$/i.test(attributes.get("name") ?? ""),
  );
  return (said[0]?.attributes.get("content") ?? "").replace(/\s+/g, " ").trim().slice(0, 200);
}

/**
 * Add the words of a page to prose.
 * @param {Prose} prose
 * @param {Element} root
 * @param {Styles} styles
 * @returns {string} the page's title
 */
export function addPage(prose, root, styles) {
  /** @type {Look[]} */
  const looks = [{}];
  /** @type {Element[]} */
  const around = [];
  /** @type {{level: number, isName: boolean, isLine: boolean}} of the block that is open */
  let block = { level: 0, isName: false, isLine: false };
  const end = () => prose.end(block.level, block);
  walk(root, {
    enter: (element) => {
      const { name, attributes } = element;
      if (PASSED.has(name)) return false;
      if (name === "img" || name === "image") prose.leaveOut("pictures");
      if (BESIDE.has(name) || (name === "div" && /^(header|footer)$/.test(attributes.get("title") ?? ""))) {
        prose.leaveOut("pictures", elements(element, (each) => each.name === "image").length);
        prose.leaveOut("beside", lineOf(element));
        return false;
      }
      const look = { ...looks.at(-1), ...lookIn(element, around, styles) };
      if (look.hidden) {
        prose.leaveOut("hidden", lineOf(element));
        return false;
      }
      if (look.plainer && !looks.at(-1)?.plainer) prose.leaveOut("looks");
      if (name === "br") prose.add("\n", look);
      if (BLOCKS.has(name)) {
        end();
        if (name === "hr") prose.break();
        const classes = ` ${attributes.get("class") ?? ""} `;
        const level = classes.includes(" part ") && name === "h2" ? 1 : Number(/^h([1-6])$/.exec(name)?.[1] ?? 0);
        if (level > 0) Object.assign(look, { bold: false, italic: looks.at(-1)?.italic }); // a heading's own look says no emphasis
        block = {
          level,
          isName: level > 0 && classes.includes(" chapter-name "),
          isLine: classes.includes(" next-line "),
        };
        if (name === "p" && classes.includes(" scene ")) prose.beginScene();
      }
      looks.push(look);
      around.push(element);
      return true;
    },
    leave: ({ name }) => {
      looks.pop();
      around.pop();
      if (!BLOCKS.has(name)) return;
      end();
      block = { level: 0, isName: false, isLine: false };
    },
    text: (text) => {
      const look = looks.at(-1) ?? {};
      prose.add(
        look.pre && (prose.isBegun || text.trim() !== "") ? text : spaced(prose, text),
        block.level > 0 ? { ...look, bold: false } : look,
      );
    },
  });
  end();
  return lineOf(elements(root, ({ name }) => name === "title")[0]).slice(0, 200);
}

/** Spaces as a page shows them: one for many, none at a paragraph's beginning. @param {Prose} prose @param {string} text */
function spaced(prose, text) {
  const one = text.replace(/[ \t\n\r\f]+/g, " ");
  return prose.isSpaced ? one.replace(/^ /, "") : one;
}

/** What an element says of its look, by its name, the page's styles and its own. @param {Element} element @param {Element[]} around @param {Styles} styles @returns {Look} */
function lookIn(element, around, styles) {
  const { name, attributes } = element;
  /** @type {Look} */
  const look = {};
  if (ITALIC.has(name)) look.italic = true;
  if (BOLD.has(name)) look.bold = true;
  if (name === "pre") look.pre = true;
  if (PLAINER.has(name)) look.plainer = true;
  if (attributes.has("hidden")) look.hidden = true;
  for (const each of (attributes.get("class") ?? "").toLowerCase().split(/\s+/)) {
    if (styles.has(each)) continue;
    if (/^(italics?|oblique)$/.test(each)) look.italic = true;
    if (each === "bold") look.bold = true;
  }
  const [ruled, own] = [styles.of(element, around), lookOf(attributes.get("style") ?? "")];
  return Object.assign(look, ruled, own);
}
