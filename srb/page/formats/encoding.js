/**
 * The encoding of a text's bytes. A mark at the beginning says it; UTF-8 says it by itself. Else the bytes are read in each encoding
 * that old programs wrote, and the one stays whose text is most like a text: letters of one script, no capitals within words.
 */

const SAMPLE = 64 * 1024; // bytes by which an encoding is told
const LEAST = 8; // characters beyond ASCII that tell a script
const HALF_ZERO = 0.3; // of every second byte: UTF-16 without its mark
const FEW = 1 / 50; // of the characters beyond ASCII: bytes of UTF-8 that a disk or a program has damaged

/** Encodings of two bytes, each with what its texts are full of. */
const EAST_ASIAN = [
  { name: "shift_jis", of: /[\u3041-\u30fa]/gu, share: 0.25 },
  { name: "euc-jp", of: /[\u3041-\u30fa]/gu, share: 0.25 },
  { name: "euc-kr", of: /[\uac00-\ud7a3]/gu, share: 0.7 },
  {
    name: "gb18030",
    of: /[的一是不了在人有我他这个们来到时大地为子中你说生国年着就那和要她出也得里后自以会]/gu,
    share: 0.12,
  },
  {
    name: "big5",
    of: /[的一是不了在人有我他這個們來到時大地為子中你說生國年著就那和要她出也得里後自以會]/gu,
    share: 0.12,
  },
];
const SINGLE = ["windows-1252", "macintosh", "windows-1251", "koi8-r", "windows-1250", "windows-1253"]; // the first of equals

/**
 * Return the text of bytes, and the encoding in which they were read; null if no text has such bytes.
 * @param {Uint8Array} bytes
 * @returns {{text: string, encoding: string, damaged: number} | null}  damaged: how many bytes were no character's
 */
export function textIn(bytes) {
  const known = marked(bytes) ?? withoutMark(bytes);
  if (known !== null) return decodedAs(known, bytes);
  const exact = decodedAs("utf-8", bytes);
  if (exact !== null) return exact;
  const mended = nearlyUtf8(bytes);
  if (mended !== null) return mended;
  const sample = bytes.subarray(0, SAMPLE);
  return decodedAs(eastAsian(sample) ?? singleByte(sample), bytes);
}

/** @param {Uint8Array} bytes */
function marked([first, second]) {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : null;
}

/** UTF-16 without its mark: in most scripts each second byte of spaces, signs and letters is zero. @param {Uint8Array} bytes */
function withoutMark(bytes) {
  const zeros = [0, 0];
  const size = Math.min(bytes.length, SAMPLE);
  for (let at = 0; at < size; at += 1) if (bytes[at] === 0) zeros[at % 2] += 1;
  const [even = 0, odd = 0] = zeros;
  if (odd > (HALF_ZERO * size) / 2 && even === 0) return "utf-16le";
  if (even > (HALF_ZERO * size) / 2 && odd === 0) return "utf-16be";
  return bytes.length % 2 === 0 ? (["utf-16le", "utf-16be"].find((name) => isEastAsian(name, bytes)) ?? null) : null;
}

/** Whether bytes of two to a character are a text of East Asia, in which zeros are rare: by its punctuation, and what it is full of. @param {string} name @param {Uint8Array} bytes */
function isEastAsian(name, bytes) {
  const text = new TextDecoder(name).decode(bytes.subarray(0, SAMPLE));
  if (text.includes("\ufffd") || !/[\u3001\u3002\uff0c]/.test(text)) return false;
  return EAST_ASIAN.some(({ of, share }) => countOf(text, of) > share * text.length);
}

/** @param {string} encoding @param {Uint8Array} bytes */
function decodedAs(encoding, bytes) {
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : { text, encoding, damaged: 0 };
  } catch (error) {
    if (error instanceof TypeError) return null; // the bytes are no such text
    throw error;
  }
}

/** UTF-8 in which a few bytes are damaged: nobody wants the whole text in another encoding for them. @param {Uint8Array} bytes */
function nearlyUtf8(bytes) {
  const text = new TextDecoder("utf-8").decode(bytes);
  const damaged = countOf(text, /\ufffd/g);
  const others = countOf(text, /[^\0-\x7f\ufffd]/gu);
  return others >= LEAST && damaged <= Math.max(1, others * FEW) && !text.includes("\0")
    ? { text, encoding: "utf-8", damaged }
    : null;
}

/** @param {Uint8Array} sample */
function eastAsian(sample) {
  let best = { name: /** @type {string | null} */ (null), score: 1 };
  for (const { name, of, share } of EAST_ASIAN) {
    const text = new TextDecoder(name).decode(sample); // its last character may be cut
    const beyond = countOf(text, /[^\0-\x7f]/gu);
    const wrong = countOf(text, /[\ufffd\ue000-\uf8ff\uff61-\uff9f]/g);
    if (beyond < LEAST / 2 || wrong > beyond / 50 + 1) continue;
    const score = countOf(text, of) / beyond / share;
    if (score > best.score) best = { name, score };
  }
  return best.name;
}

/** @param {Uint8Array} sample */
function singleByte(sample) {
  const faults = SINGLE.map((name) => {
    const found = decodedAs(name, sample);
    return found === null ? Number.POSITIVE_INFINITY : faultsOf(found.text);
  });
  return SINGLE[faults.indexOf(Math.min(...faults))] ?? "windows-1252";
}

/** How much of a text is unlike one: controls, signs within words, capitals behind small letters, words of two scripts. @param {string} text */
function faultsOf(text) {
  const letters = countOf(text, /\p{L}/gu);
  const accented = countOf(text, /(?=\p{Script=Latin})[^\0-\x7f]/gu);
  return (
    10 * countOf(text, /[\x80-\x9f\ufffd]/g) +
    countOf(text, /\p{L}[^\p{L}\p{N}\p{M}\s\p{P}]+(?=\p{L})/gu) +
    countOf(text, /\p{Ll}\p{Lu}/gu) +
    countOf(text, /[^\0-\x7f\p{L}\p{P}\s]/gu) +
    countOf(
      text,
      /\p{Script=Latin}(?=[\p{Script=Cyrillic}\p{Script=Greek}])|[\p{Script=Cyrillic}\p{Script=Greek}](?=\p{Script=Latin})/gu,
    ) +
    (accented > letters / 2 ? accented : 0)
  );
}

/** @param {string} text @param {RegExp} of */
const countOf = (text, of) => text.match(of)?.length ?? 0;
