/**
 * Marked-up text as a row of texts and tags: XML, and HTML as people and programs write it. The browser's own parser is not for this
 * page: to it, text of others is script until the page's policy says otherwise, and the policy says nothing of the kind.
 *
 * @typedef {{kind: "text", text: string} | {kind: "open", name: string, source: string, isEmpty: boolean} | {kind: "close", name: string}} Token
 */

const MOST_TAG = 64 * 1024; // characters of one tag
const NAME = /[A-Za-z_][^\s/>"'=<]*/y;
const RAW = new Set(["script", "style", "textarea", "title", "xmp"]); // of HTML: no tags within
const ATTRIBUTE = /([^\s=/>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))/g;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([A-Za-z][A-Za-z\d]{1,31}));/g;
/** Those that prose has; numbers say all others. @type {Record<string, string>} */
const ENTITIES = Object.assign(Object.create(null), {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  shy: "\u00ad",
  ensp: "\u2002",
  emsp: "\u2003",
  thinsp: "\u2009",
  zwnj: "\u200c",
  zwj: "\u200d",
  lrm: "\u200e",
  rlm: "\u200f",
  ndash: "–",
  mdash: "—",
  horbar: "―",
  lsquo: "‘",
  rsquo: "’",
  sbquo: "‚",
  ldquo: "“",
  rdquo: "”",
  bdquo: "„",
  laquo: "«",
  raquo: "»",
  lsaquo: "‹",
  rsaquo: "›",
  hellip: "…",
  bull: "•",
  middot: "·",
  dagger: "†",
  Dagger: "‡",
  prime: "′",
  Prime: "″",
  copy: "©",
  reg: "®",
  trade: "™",
  deg: "°",
  sect: "§",
  para: "¶",
  times: "×",
  divide: "÷",
  plusmn: "±",
  frac12: "½",
  frac14: "¼",
  frac34: "¾",
  sup1: "¹",
  sup2: "²",
  sup3: "³",
  iexcl: "¡",
  iquest: "¿",
  cent: "¢",
  pound: "£",
  yen: "¥",
  euro: "€",
  ordf: "ª",
  ordm: "º",
  micro: "µ",
  acute: "´",
  cedil: "¸",
  uml: "¨",
  macr: "¯",
  Agrave: "À",
  Aacute: "Á",
  Acirc: "Â",
  Atilde: "Ã",
  Auml: "Ä",
  Aring: "Å",
  AElig: "Æ",
  Ccedil: "Ç",
  Egrave: "È",
  Eacute: "É",
  Ecirc: "Ê",
  Euml: "Ë",
  Igrave: "Ì",
  Iacute: "Í",
  Icirc: "Î",
  Iuml: "Ï",
  ETH: "Ð",
  Ntilde: "Ñ",
  Ograve: "Ò",
  Oacute: "Ó",
  Ocirc: "Ô",
  Otilde: "Õ",
  Ouml: "Ö",
  Oslash: "Ø",
  Ugrave: "Ù",
  Uacute: "Ú",
  Ucirc: "Û",
  Uuml: "Ü",
  Yacute: "Ý",
  THORN: "Þ",
  szlig: "ß",
  agrave: "à",
  aacute: "á",
  acirc: "â",
  atilde: "ã",
  auml: "ä",
  aring: "å",
  aelig: "æ",
  ccedil: "ç",
  egrave: "è",
  eacute: "é",
  ecirc: "ê",
  euml: "ë",
  igrave: "ì",
  iacute: "í",
  icirc: "î",
  iuml: "ï",
  eth: "ð",
  ntilde: "ñ",
  ograve: "ò",
  oacute: "ó",
  ocirc: "ô",
  otilde: "õ",
  ouml: "ö",
  oslash: "ø",
  ugrave: "ù",
  uacute: "ú",
  ucirc: "û",
  uuml: "ü",
  yacute: "ý",
  thorn: "þ",
  yuml: "ÿ",
  OElig: "Œ",
  oelig: "œ",
  Scaron: "Š",
  scaron: "š",
  Yuml: "Ÿ",
  fnof: "ƒ",
});

/**
 * @param {string} text
 * @param {boolean} [isHtml]  names in small letters; scripts, styles and titles are text as they stand
 * @returns {Generator<Token>}
 */
export function* tokens(text, isHtml = false) {
  let at = 0;
  let begun = 0; // of the text before a tag
  let isOver = false; // no tag ends any more
  while (at < text.length && !isOver) {
    const start = text.indexOf("<", at);
    if (start === -1) break;
    const found = tagAt(text, start);
    if (found === null) {
      at = start + 1;
      isOver = text.indexOf(">", at) === -1;
      continue;
    }
    if (start > begun) yield { kind: "text", text: decoded(text.slice(begun, start)) };
    at = begun = found.end;
    if (found.kind === "cdata") yield { kind: "text", text: found.text };
    if (found.kind !== "open" && found.kind !== "close") continue;
    const name = isHtml ? found.name.toLowerCase() : found.name;
    if (found.kind === "close") yield { kind: "close", name };
    else yield { kind: "open", name, source: found.source, isEmpty: found.isEmpty };
    if (!isHtml || found.kind !== "open" || !RAW.has(name)) continue;
    const close = new RegExp(`</${name}\\s*>`, "gi");
    close.lastIndex = at;
    const end = close.exec(text);
    const raw = text.slice(at, end?.index);
    if (raw !== "") yield { kind: "text", text: name === "title" || name === "textarea" ? decoded(raw) : raw };
    at = begun = end?.index ?? text.length;
  }
  if (begun < text.length) yield { kind: "text", text: decoded(text.slice(begun)) };
}

/**
 * @param {string} text
 * @param {number} start  of a "<"
 * @returns {{kind: "other", end: number} | {kind: "cdata", end: number, text: string} | {kind: "open", end: number, name: string, source: string,
 *   isEmpty: boolean} | {kind: "close", end: number, name: string} | null} null: it is a sign in the text
 */
function tagAt(text, start) {
  const next = text.charAt(start + 1);
  if (text.startsWith("<!--", start)) return { kind: "other", end: behind(text, "-->", start + 4) };
  if (text.startsWith("<![CDATA[", start)) {
    const end = behind(text, "]]>", start + 9);
    return { kind: "cdata", end, text: text.slice(start + 9, end - (text.startsWith("]]>", end - 3) ? 3 : 0)) };
  }
  if (next === "!" || next === "?") return { kind: "other", end: behind(text, next === "?" ? "?>" : ">", start + 2) };
  const isClose = next === "/";
  NAME.lastIndex = start + (isClose ? 2 : 1);
  const name = NAME.exec(text)?.[0];
  if (name === undefined) return null;
  const end = tagEnd(text, NAME.lastIndex);
  if (end === -1) return null;
  if (isClose) return { kind: "close", end: end + 1, name };
  const source = text.slice(NAME.lastIndex, end);
  return { kind: "open", end: end + 1, name, source, isEmpty: source.endsWith("/") };
}

/** @param {string} text @param {number} from */
function tagEnd(text, from) {
  let quote = "";
  const most = Math.min(text.length, from + MOST_TAG);
  for (let at = from; at < most; at += 1) {
    const sign = text.charAt(at);
    if (quote !== "") quote = sign === quote ? "" : quote;
    else if (sign === ">") return at;
    else if (sign === '"' || sign === "'") quote = sign;
  }
  return -1;
}

/** @param {string} text @param {string} sign @param {number} from */
function behind(text, sign, from) {
  const at = text.indexOf(sign, from);
  return at === -1 ? text.length : at + sign.length;
}

/** @param {string} source  of a tag @returns {Map<string, string>} */
export function attributesOf(source) {
  return new Map(
    [...source.matchAll(ATTRIBUTE)].map(([, name = "", double, single, bare]) => [
      name,
      decoded(double ?? single ?? bare ?? ""),
    ]),
  );
}

/** @param {string} text */
function decoded(text) {
  if (!text.includes("&")) return text;
  return text.replace(ENTITY, (whole, decimal, hexadecimal, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
    const isCharacter = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return isCharacter ? String.fromCodePoint(code) : "\ufffd";
  });
}
