/** Typographic quotation marks, by a text's language, for the straight ones that a person types. */

/** Marks by language: outer ones, inner ones; after Unicode's CLDR. @type {Record<string, string>} */
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
const SPACE = "\u202f"; // inside of French marks
const APOSTROPHE = "’";
const OPENING = /^$|[\s([{«‹„‚“‘¿¡/]$/u; // what stands before a mark that opens; signs of emphasis are looked past
const DASH = /[-–—]$/u;

/** The marks of a language; English ones for a language without any here. @param {string} language */
function marksOf(language) {
  const [tag = "", region = ""] = language.split("-");
  const [open, close, innerOpen, innerClose] =
    MARKS[`${tag}-${region.toUpperCase()}`] ?? MARKS[tag.toLowerCase()] ?? MARKS.en;
  return { open, close, innerOpen, innerClose, space: tag === "fr" ? SPACE : "" };
}

/**
 * Return what stands in the place of a straight mark that is typed behind a text; "" where it stays, as in code.
 * @param {string} before  the text before it @param {string} typed " or ' @param {string} language its tag
 */
export function markFor(before, typed, language) {
  const paragraph = before.slice(before.lastIndexOf("\n") + 1);
  if (paragraph.split("`").length % 2 === 0 || before.split(/^ {0,3}```/mu).length % 2 === 0) return "";
  const words = paragraph.replace(/[*_]+$/u, "");
  const { open, close, innerOpen, innerClose, space } = marksOf(language);
  const isInner = typed === "'";
  const [begin, end] = isInner ? [innerOpen, innerClose] : [open, close];
  const isOpen = begin !== end && words.lastIndexOf(begin) > words.lastIndexOf(end);
  if (OPENING.test(words) || (DASH.test(words) && !isOpen && !isInner)) return begin + (isInner ? "" : space);
  if (isInner && !isOpen) return APOSTROPHE;
  return (isInner ? "" : space) + end;
}
