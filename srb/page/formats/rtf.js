/** Rich Text as prose: paragraphs, headings, emphasis. Bytes are read in the document's code page or in that of their font. */
import { msg } from "../languages.js";
import { StoryError } from "../story/read.js";
import { titleOf } from "./file.js";
import { Prose } from "./prose.js";

/** @import {Draft, Opened} from "./types.js" */

const TOKEN = /\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([\da-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|[^\\{}\r\n]+/gy;
const STEP = 8192; // bytes at once
const DEEPEST = 1000; // groups within one another
const SKIPPED = new Set(
  "fonttbl colortbl listtext pntext pict object header headerl headerr headerf footer footerl footerr footerf footnote annotation atnid atnauthor fldinst themedata colorschememapping datastore latentstyles listtable listoverridetable generator xmlnstbl bkmkstart bkmkend rsidtbl mmathPr".split(
    " ",
  ),
);
/** @type {Record<string, string>} */
const SIGNS = {
  emdash: "—",
  endash: "–",
  lquote: "‘",
  rquote: "’",
  ldblquote: "“",
  rdblquote: "”",
  bullet: "•",
  tab: "\t",
  line: "\n",
  emspace: "\u2003",
  enspace: "\u2002",
  "~": "\u00a0",
  _: "\u2011",
  "\\": "\\",
  "{": "{",
  "}": "}",
};
/** Encodings by the number of a font's characters. @type {Record<number, string>} */
const CHARSETS = {
  77: "macintosh",
  128: "shift_jis",
  129: "euc-kr",
  134: "gb18030",
  136: "big5",
  161: "windows-1253",
  162: "windows-1254",
  163: "windows-1258",
  177: "windows-1255",
  178: "windows-1256",
  186: "windows-1257",
  204: "windows-1251",
  222: "windows-874",
  238: "windows-1250",
};
/** @type {Record<number, string>} */
const CODE_PAGES = {
  874: "windows-874",
  932: "shift_jis",
  936: "gb18030",
  949: "euc-kr",
  950: "big5",
  10000: "macintosh",
  65001: "utf-8",
};

/** @typedef {{italic: boolean, bold: boolean, hidden: boolean, skipped: boolean, encoding: string, unicode: number, level: number, style: number, inFonts: boolean, inStyles: boolean, inTitle: boolean, inAuthor: boolean}} State */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const reader = new Reader();
  reader.read(asLetters(bytes));
  reader.count();
  return [reader.prose.draft({ title: reader.title.trim() || titleOf(name), author: reader.author.trim() })];
}

/** A letter for each byte, whose code it is; no encoding has that name. @param {Uint8Array} bytes */
export function asLetters(bytes) {
  let letters = "";
  for (let at = 0; at < bytes.length; at += STEP) letters += String.fromCharCode(...bytes.subarray(at, at + STEP));
  return letters;
}

export class Reader {
  title = "";
  author = "";
  pictures = 0;
  notes = 0;
  /** @type {State} */
  state = {
    italic: false,
    bold: false,
    hidden: false,
    skipped: false,
    encoding: "windows-1252",
    unicode: 1,
    level: 0, // of the paragraph as a heading
    style: -1,
    inFonts: false,
    inStyles: false,
    inTitle: false,
    inAuthor: false,
  };
  /** @type {State[]} */
  states = [];
  /** @type {Map<number, string>} encodings of the fonts */
  fonts = new Map();
  font = 0;
  /** @type {Map<number, {name: string, level: number, italic: boolean}>} */
  styles = new Map();
  naming = 0; // the style whose name comes
  said = ""; // its words
  page = "windows-1252"; // the document's code page
  /** @type {number[]} */
  bytes = [];
  left = 0; // characters that stand for one of Unicode, for programs that know none

  /** @param {Prose} [prose]  to which the words are added */
  constructor(prose = new Prose()) {
    this.prose = prose;
  }

  /** Count what was left out. */
  count() {
    this.prose.leaveOut("pictures", this.pictures);
    this.prose.leaveOut("notes", this.notes);
  }

  /** @param {string} text */
  read(text) {
    let at = 0;
    let isStar = false;
    let isClosed = false;
    while (at < text.length && !isClosed) {
      TOKEN.lastIndex = at;
      const found = TOKEN.exec(text);
      if (found === null) break;
      at = TOKEN.lastIndex;
      const [whole, word, number, byte, sign, group] = found;
      if (byte !== undefined) this.byte(Number.parseInt(byte, 16));
      else if (group === undefined && word === undefined && sign === undefined) this.words(whole);
      else {
        this.flush();
        if (group === "{") this.open();
        else if (group === "}") isClosed = this.close();
        else if (word === "bin") at += Math.max(0, Number(number ?? 0));
        else if (word !== undefined) this.word(word, number === undefined ? null : Number(number), isStar);
        else if (sign === "\r" || sign === "\n") this.end(true);
        else if (sign !== "*" && SIGNS[/** @type {string} */ (sign)])
          this.say(/** @type {string} */ (SIGNS[/** @type {string} */ (sign)]));
      }
      isStar = sign === "*";
    }
    this.flush();
    if (!isClosed) throw new StoryError(msg`The Rich Text is damaged: it was cut short.`);
  }

  open() {
    if (this.states.length === DEEPEST) throw new StoryError(msg`The Rich Text is nested too deeply to be read.`);
    this.states.push(this.state);
    this.state = { ...this.state };
  }

  /** @returns {boolean} whether the document is over */
  close() {
    this.state = this.states.pop() ?? this.state;
    return this.states.length === 0;
  }

  /** @param {string} word @param {number | null} value @param {boolean} isStar  a part that old programs pass over */
  word(word, value, isStar) {
    const { state } = this;
    const isOn = value !== 0;
    if (isStar && word !== "shppict") state.skipped = true;
    if (SKIPPED.has(word)) state.skipped = true;
    if (word === "fonttbl") state.inFonts = true;
    this.pictures += Number(word === "pict" && !this.states.at(-1)?.skipped);
    this.notes += Number(word === "footnote");
    if (word === "listtext" || word === "pntext") this.prose.leaveOut("numbers");
    switch (word) {
      case "ansicpg":
        this.page = state.encoding = CODE_PAGES[value ?? 0] ?? `windows-${value}`;
        break;
      case "mac":
        this.page = state.encoding = "macintosh";
        break;
      case "f":
        this.font = value ?? 0;
        if (!state.inFonts) state.encoding = this.fonts.get(this.font) ?? this.page;
        break;
      case "fcharset":
        if (state.inFonts && CHARSETS[value ?? 0])
          this.fonts.set(this.font, /** @type {string} */ (CHARSETS[value ?? 0]));
        break;
      case "stylesheet":
        state.inStyles = true;
        break;
      case "s":
        if (state.inStyles) this.naming = value ?? 0;
        else {
          this.state.style = value ?? 0;
          this.state.level = this.styles.get(this.state.style)?.level ?? 0;
        }
        break;
      case "info":
        state.skipped = true;
        break;
      case "title":
        state.inTitle = true;
        break;
      case "author":
        state.inAuthor = true;
        break;
      case "i":
        state.italic = isOn;
        break;
      case "b":
        state.bold = isOn;
        break;
      case "v":
      case "deleted":
        state.hidden = isOn;
        break;
      case "plain":
        Object.assign(state, { italic: false, bold: false, hidden: false });
        break;
      case "pard":
        [this.state.level, this.state.style] = [0, -1];
        break;
      case "outlinelevel":
        if (value !== null && value >= 0 && value < 9) this.state.level = value + 1;
        break;
      case "uc":
        state.unicode = Math.max(0, value ?? 1);
        break;
      case "u":
        this.say(unicode(value ?? 0));
        this.left = state.unicode;
        break;
      case "par":
      case "sect":
      case "page":
      case "cell":
      case "row":
        if (!state.skipped) this.end(word === "par");
        break;
      case "strike":
      case "ul":
        if (isOn && !state.skipped) this.prose.leaveOut("looks");
        break;
      default:
        if (SIGNS[word]) this.say(/** @type {string} */ (SIGNS[word]));
    }
  }

  /** @param {number} byte */
  byte(byte) {
    if (this.left > 0) this.left -= 1;
    else this.bytes.push(byte);
  }

  /** Plain characters; in fonts of two bytes they may be the second half of one. @param {string} text */
  words(text) {
    if (/^[\r\n]/.test(text)) return;
    const passed = Math.min(this.left, text.length);
    this.left -= passed;
    if (this.bytes.length === 0 && !/[\x80-\xff]/.test(text)) this.say(text.slice(passed));
    else for (const letter of text.slice(passed)) this.bytes.push(letter.charCodeAt(0));
  }

  /** Say the bytes that were gathered. */
  flush() {
    if (this.bytes.length === 0) return;
    const bytes = Uint8Array.from(this.bytes);
    this.bytes = [];
    this.say(decoderOf(this.state.encoding).decode(bytes));
  }

  /** End a paragraph; one in the style of titles is the story's. @param {boolean} isParagraph  also without words */
  end(isParagraph) {
    if (this.styles.get(this.state.style)?.name === "title" && this.said.trim() !== "") {
      this.title = this.said.replace(/\s+/g, " ").trim().slice(0, 200);
      this.prose.dropAll(this.title);
    } else this.prose.end(this.state.level, { isParagraph });
    this.said = "";
  }

  /** A part of the name of a style, which ends with a semicolon. @param {string} text */
  name(text) {
    const { name = "" } = this.styles.get(this.naming) ?? {};
    const whole = (name + text).replace(/;.*$/s, "").slice(0, 200).trimStart().toLowerCase();
    const level = Number(/^heading ([1-9])$/.exec(whole)?.[1] ?? 0);
    this.styles.set(this.naming, { name: whole, level, italic: this.state.italic });
  }

  /** @param {string} text */
  say(text) {
    const { state } = this;
    if (state.inStyles) this.name(text);
    else if (state.inTitle) this.title = (this.title + text).slice(0, 200);
    else if (state.inAuthor) this.author = (this.author + text).slice(0, 200);
    else if (state.hidden && !state.skipped) this.prose.leaveOut("hidden", text);
    else if (!state.skipped) this.said += text;
    if (!state.inStyles && !state.inTitle && !state.inAuthor && !state.skipped && !state.hidden)
      this.prose.add(text, state.level > 0 ? { italic: state.italic && !this.styles.get(state.style)?.italic } : state);
  }
}

/** The character of a number: of 16 bits, perhaps as a negative one, or of all, as Calibre writes it. @param {number} value */
const unicode = (value) =>
  value > 0xffff && value <= 0x10ffff ? String.fromCodePoint(value) : String.fromCharCode(value & 0xffff);

/** @param {string} encoding */
function decoderOf(encoding) {
  try {
    return new TextDecoder(encoding);
  } catch {
    return new TextDecoder("windows-1252"); // a code page that no browser knows
  }
}
