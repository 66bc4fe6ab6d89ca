/** Typographic signs for the plain ones that a person types: quotation marks by the text's language, apostrophes, dashes, the ellipsis. */

/** Quotation marks by language: outer ones, inner ones; after Unicode's CLDR. @type {Record<string, string>} */
const MARKS = {
  en: "“”‘’",
  de: "„“‚‘",
  cs: "„“‚‘",
  da: "“”‘’",
  es: "«»“”",
  fi: "””’’",
  fr: "«»‹›",
  hu: "„”»«",
  it: "«»“”",
  nb: "«»‘’",
  nl: "“”‘’",
  pl: "„”«»",
  pt: "“”‘’",
  ru: "«»„“",
  sv: "””’’",
  "de-CH": "«»‹›",
};
/** Words that begin with an apostrophe. @type {Record<string, string[]>} */
const ELIDED = {
  en: ["bout", "cause", "em", "n", "n’", "nuff", "til", "tis", "twas", "twere", "twill", "twould"],
  de: ["n", "ne", "nem", "nen", "ner", "nes", "ran", "raus", "rein", "runter", "s"],
  nl: ["k", "m", "n", "r", "s", "t"],
};
const LONGEST_ELIDED = 6; // letters
const LONG = ["en", "es", "fr", "it", "pl", "pt", "ru"]; // languages of the long dash, where a line begins with it or no blank stands before it
const LONG_APART = ["es", "fr", "pt", "ru"]; // … and where one does
const SPACE = "\u202f"; // inside of French marks
const APOSTROPHE = "’";
const OPENING = /^$|[\s([{«‹„‚“‘¿¡/]$/u; // what stands before a mark that opens; signs of emphasis are looked past
const DASH = /[-–—]$/u;
const LETTER = /^\p{L}$/u;

/** @typedef {{back: number, length: number, insert: string}} Replacement   `length` characters that begin `back` before the caret get another form */
/** @typedef {ReturnType<typeof signsOf>} Signs */

/** The signs of a language; English ones for a language without any here. @param {string} language its tag */
function signsOf(language) {
  const [first = "", region = ""] = language.split("-");
  const tag = first.toLowerCase() in MARKS ? first.toLowerCase() : "en";
  const [open, close, innerOpen, innerClose] = MARKS[`${tag}-${region.toUpperCase()}`] ?? MARKS[tag];
  return { tag, open, close, innerOpen, innerClose, space: tag === "fr" ? SPACE : "" };
}

/**
 * Return what becomes of a sign that was typed behind a line's beginning, or of those before it; null where all stay as they are.
 * @param {string} before  the line up to the caret @param {string} typed one character @param {string} language @param {string} [after] what follows
 * @returns {Replacement | null}
 */
export function typographic(before, typed, language, after = "") {
  const signs = signsOf(language);
  if (typed === '"' || typed === "'") return { back: 1, length: 1, insert: markFor(before, typed, signs, after) };
  return signFor(before, typed, signs) ?? apostropheFor(before, typed, signs);
}

/** Whether a text ends in code, where signs stay as they are typed. @param {string} text */
export const endsInCode = (text) =>
  text.slice(text.lastIndexOf("\n") + 1).split("`").length % 2 === 0 || text.split(/^ {0,3}```/mu).length % 2 === 0;

/** Languages with words like l’, behind which a quotation opens; elsewhere a word has lost its end, as goin’. */
const ELIDING = new Set(["fr", "it", "pt"]);

/** @param {string} before @param {string} typed @param {Signs} signs @param {string} after */
function markFor(before, typed, { tag, open, close, innerOpen, innerClose, space }, after) {
  const words = before.replace(/[*_]+$/u, "");
  const isInner = typed === "'";
  if (isInner && LETTER.test(words.slice(-1)) && LETTER.test(after.slice(0, 1))) return APOSTROPHE;
  const [begin, end] = isInner ? [innerOpen, innerClose] : [open, close];
  const isOpen = begin !== end && words.lastIndexOf(begin) > words.lastIndexOf(end);
  const isBeginning =
    OPENING.test(words) || (!isOpen && !isInner && (DASH.test(words) || (ELIDING.has(tag) && /\p{L}’$/u.test(words))));
  if (isBeginning) return begin + (isInner ? "" : space);
  if (isInner && !isOpen) return APOSTROPHE;
  return (isInner ? "" : space) + end;
}

/**
 * Two hyphens make a dash, a third one a long dash, three dots an ellipsis; a line of hyphens alone may become a break between scenes, until a blank follows.
 * @param {string} before @param {string} typed @param {Signs} signs @returns {Replacement | null}
 */
function signFor(before, typed, { tag }) {
  if (typed === "." && /(?<!\.)\.\.$/.test(before)) return { back: 3, length: 3, insert: "…" };
  if (typed === " " && before === "--") return { back: 3, length: 2, insert: LONG.includes(tag) ? "—" : "–" };
  if (typed !== "-") return null;
  if (/[–—]$/u.test(before)) return { back: 2, length: 2, insert: "—" };
  const [, last] = /([^-])-$/u.exec(before) ?? [];
  if (last === undefined || /^[-\s]*$/u.test(before) || "|!<:".includes(last)) return null; // of a table, a comment
  const isApart = /\s/u.test(last);
  const isLong = /\d/u.test(last) ? false : (isApart ? LONG_APART : LONG).includes(tag);
  return { back: 2, length: 2, insert: isLong ? "—" : "–" };
}

/** A mark that what was typed behind it shows to be an apostrophe: within a word, of a decade, or where a word begins with one. @param {string} before @param {string} typed @param {Signs} signs */
function apostropheFor(before, typed, { tag, innerOpen, innerClose }) {
  const isLetter = LETTER.test(typed);
  if (isLetter && before.endsWith(innerClose) && LETTER.test(before.slice(-2, -1)))
    return innerClose === APOSTROPHE ? null : { back: 2, length: 1, insert: APOSTROPHE };
  const tail = before.slice(-1 - LONGEST_ELIDED);
  const at = tail.lastIndexOf(innerOpen);
  if (at < 0 || innerOpen === APOSTROPHE) return null;
  const word = tail.slice(at + 1);
  const isDecade = /^\d\d$/.test(word) && (isLetter ? "se".includes(typed) : !/\d/.test(typed));
  const isElided = !isLetter && ELIDED[tag]?.includes(word.toLowerCase());
  return isDecade || isElided ? { back: word.length + 2, length: 1, insert: APOSTROPHE } : null;
}
