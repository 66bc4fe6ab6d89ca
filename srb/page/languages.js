/** The language of the page's own words: English, as the code has them, or another, in which a catalog has them. */

/** @typedef {{parts: TemplateStringsArray, order: number[]}} Wording  a template's parts, and which value follows each but the last */

/** Languages that the page speaks, as they name themselves. @type {Record<string, string>} */
export const LANGUAGES = { en: "English", de: "Deutsch" };
const KEPT = "srb.language"; // where the browser keeps the one that was chosen

/** The page's language, of LANGUAGES. */
export const LANGUAGE = chosen() ?? wished();

// Waited for here, so that modules find their words when they begin. Without it the page is there, in English.
const catalog = LANGUAGE === "en" ? {} : await catalogOf(LANGUAGE).catch(() => ({}));
/** @type {WeakMap<TemplateStringsArray, Wording>} */
const wordings = new WeakMap();

/** A language's words by the English ones, in which {0} is the first value. Its file has them by the module that says them.
 * @param {string} language @returns {Promise<Record<string, string>>} */
async function catalogOf(language) {
  const answer = await fetch(new URL(`./languages/${language}.json`, import.meta.url));
  if (!answer.ok) throw new Error(`${answer.status}`);
  return Object.assign({}, ...Object.values(await answer.json()));
}

/** The language that was chosen here, or null. */
export function chosen() {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept !== null && Object.hasOwn(LANGUAGES, kept) ? kept : null;
  } catch {
    return null; // storage is switched off in this browser, or this is no browser
  }
}

/** Choose the page's language from the next load on. @param {string | null} language null: what the browser asks for */
export function choose(language) {
  if (language === null) localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, language);
}

/** The first language of the browser that the page speaks. */
function wished() {
  const browsers = typeof document === "undefined" ? [] : navigator.languages;
  return browsers.map((tag) => tag.split("-")[0]).find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

/** What a template says in the page's language. The catalog knows `${who} may read` as "{0} may read".
 * @param {TemplateStringsArray} strings @returns {Wording} */
export function wordingOf(strings) {
  let wording = wordings.get(strings);
  if (wording === undefined) {
    const words = catalog[keyOf(strings)];
    wording =
      words === undefined ? { parts: strings, order: strings.slice(1).map((_, index) => index) } : wordingFrom(words);
    wordings.set(strings, wording);
  }
  return wording;
}

/** The key of a template in catalogs. @param {readonly string[]} strings */
export function keyOf(strings) {
  return strings.reduce((key, part, index) => `${key}{${index - 1}}${part}`);
}

/** @param {string} words @returns {Wording} */
function wordingFrom(words) {
  const pieces = words.split(/\{(\d)\}/);
  const parts = pieces.filter((_, index) => index % 2 === 0);
  const order = pieces.filter((_, index) => index % 2 === 1).map(Number);
  return { parts: /** @type {any} */ (Object.assign(parts, { raw: parts })), order };
}

/** Numbers as the page's language writes them. */
export const NUMBER = new Intl.NumberFormat(LANGUAGE);
/** … with one digit behind the point. */
export const TENTHS = new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** "1 word", "1,234 words". @param {number} count @param {Intl.NumberFormat} [format] */
export function wordCount(count, format = NUMBER) {
  return count === 1 ? msg`1 word` : msg`${format.format(count)} words`;
}

/** "1 character", "1,234 characters": of a script without spaces. @param {number} count */
export const characterCount = (count) => (count === 1 ? msg`1 character` : msg`${NUMBER.format(count)} characters`);

/** A text in the page's language: msg`${who} may read`. @param {TemplateStringsArray} strings @param {...unknown} values */
export function msg(strings, ...values) {
  const { parts, order } = wordingOf(strings);
  return parts.reduce((text, part, index) => `${text}${values[order[index - 1]]}${part}`);
}
