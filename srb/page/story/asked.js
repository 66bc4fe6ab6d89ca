/**
 * Requests as they were asked, kept with the runs of a story: from both, each round can be asked again, word for word.
 *
 * A run's `asked` has the request's fields, one in a line; its prompt; and what a branch reads behind its direction, where there is one.
 * Each is a text in pieces: words as they stand; `[from, to]`, a stretch of the text that the round goes on from; or `[run, first, last]`,
 * pieces of an earlier run, all of them words. So a round that reads what the one before has read takes some hundred bytes, however long
 * its prompt is.
 *
 * @typedef {import("../story.js").Story} Story
 * @typedef {import("./types.js").Place} Place
 * @typedef {import("./types.js").AskedPiece} AskedPiece
 * @typedef {import("./types.js").Run} Run
 * @typedef {{version?: string, lacks?: string | null, hasFiles?: boolean}} Noted   beside the fields: the server's version, the characters
 *   that were replaced in the prompt, and whether files stand in the places of its markers
 */
import { commonLength } from "../compare.js";
import { SAMPLER_NAMES } from "../desk/defaults.js";
import { promptField } from "../media.js";
import { straightened } from "../prompt.js";
import { isRecord } from "./check.js";
import { isLow } from "./text.js";

const MOST = 64 * 1024; // characters of one run's pieces: a request that takes more is not kept
const LONG = 24; // characters by which a line is found in the story's text

/** @typedef {[run: string, first: number, last: number]} Reference */

/**
 * Return a request in pieces; undefined for one that takes too much room.
 * @param {Story} story @param {Place} place  that the round goes on from @param {Record<string, any>} body
 * @param {string} words  its prompt before files were put in the places of their markers
 * @param {{version?: string, lacks?: string | null, max_tokens?: number, sampling?: Record<string, unknown>}} server  with the defaults that the body leaves out
 * @returns {AskedPiece[][] | undefined}
 */
export function inPieces(story, place, body, words, { version, lacks, max_tokens, sampling }) {
  const { prompt, seed: _seed, direction_place: directed, ...own } = body;
  const { rest, ...at } = directed ?? {};
  const hasFiles = typeof prompt !== "string";
  /** @type {Noted} */
  const noted = { version, lacks: lacks || undefined, hasFiles: hasFiles || undefined };
  const defaults = SAMPLER_NAMES.map((name) => [name, sampling?.[name]]);
  const fields = {
    ...noted,
    max_tokens,
    ...Object.fromEntries(defaults),
    ...own,
    ...(directed ? { direction_place: at } : {}),
  };
  const lines = Object.entries(fields).filter(([, value]) => value !== undefined);
  const known = knownOf(story);
  const base = baseOf(story, place, lacks);
  const asked = [
    split(lines.map((each) => `${JSON.stringify(each)}\n`).join(""), "", known),
    split(hasFiles ? straightened(words, lacks) : prompt, base, known),
  ];
  if (typeof rest === "string") asked.push(split(rest, base, known));
  return JSON.stringify(asked).length > MOST ? undefined : asked;
}

/**
 * Return the body of a run's request as it was sent, and what was noted beside it; null if the story does not have it.
 * @param {Story} story @param {Run} run @param {(id: string) => Uint8Array | undefined} [bytesOf]  of a file
 * @returns {{body: Record<string, unknown>, noted: Noted} | null}
 */
export function requestOf(story, run, bytesOf = () => undefined) {
  const { asked, seeds } = run;
  if (!Array.isArray(asked)) return null;
  try {
    const lines = joined(story, asked[0], "").trimEnd().split("\n");
    const { version, lacks, hasFiles, ...fields } = Object.fromEntries(lines.map((line) => JSON.parse(line)));
    const base = baseOf(story, run, lacks);
    const prompt = joined(story, asked[1], base);
    if (typeof seeds[0] === "number") fields.seed = seeds[0];
    if (isRecord(fields.direction_place) && asked[2]) fields.direction_place.rest = joined(story, asked[2], base);
    return {
      body: { ...fields, prompt: hasFiles ? promptField(prompt, bytesOf) : prompt },
      noted: { version, lacks, hasFiles },
    };
  } catch {
    return null; // of a file that somebody has changed
  }
}

/** The text that a round goes on from, as its prompt has it. @param {Story} story @param {Place} place @param {string | null} [lacks] */
const baseOf = (story, { node, at }, lacks) => straightened(story.text(node, at), lacks);

/** @param {Story} story @param {AskedPiece[]} pieces @param {string} base */
const joined = (story, pieces, base) =>
  pieces
    .flatMap((piece) => {
      if (typeof piece === "string") return piece;
      if (!isReference(piece)) return base.slice(...piece);
      const [run, first, last] = piece;
      const words = wordsOf(story.runs.get(run)).slice(first, last);
      if (words.length < last - first || words.some((each) => typeof each !== "string")) throw new RangeError(run);
      return /** @type {string[]} */ (words);
    })
    .join("");

/** @param {AskedPiece | undefined} piece @returns {piece is Reference} */
const isReference = (piece) => Array.isArray(piece) && piece.length === 3;

/** The pieces of a run, to which later ones refer by their places. @param {Run | undefined} run */
const wordsOf = (run) => (Array.isArray(run?.asked) ? run.asked.flat() : []);

// ---- Words that earlier runs have

class Known {
  /** @param {Story} story */
  constructor(story) {
    this.story = story;
    this.count = 0; // of the runs that were looked at
    this.coming = story.runs.values(); // never asked beyond the last run, so that it goes on with those that come later
    /** Lines that runs have as words, and where they stand first. @type {Map<string, Reference>} */
    this.places = new Map();
  }

  look() {
    for (; this.count < this.story.runs.size; this.count += 1) {
      const run = /** @type {Run} */ (this.coming.next().value);
      for (const [place, words] of wordsOf(run).entries())
        if (typeof words === "string" && !this.places.has(words)) this.places.set(words, [run.id, place, place + 1]);
    }
    return this;
  }

  /** Whether a line is the piece behind those that a reference has. @param {Reference} reference @param {string} line */
  isNext([run, , last], line) {
    return wordsOf(this.story.runs.get(run))[last] === line;
  }
}

/** @type {WeakMap<Story, Known>} */
const KNOWN = new WeakMap();

/** @param {Story} story */
function knownOf(story) {
  const known = KNOWN.get(story) ?? new Known(story);
  KNOWN.set(story, known);
  return known.look();
}

// ---- Pieces

/** @param {string} text @param {string} base @param {Known} known @returns {AskedPiece[]} */
function split(text, base, known) {
  /** @type {AskedPiece[]} */
  const pieces = [];
  for (const line of text.match(/[^\n]*\n+|[^\n]+$/g) ?? []) {
    const last = pieces.at(-1);
    const place = known.places.get(line);
    const at = line.length > LONG ? base.indexOf(line) : -1;
    if (isReference(last) && known.isNext(last, line)) last[2] += 1;
    else if (isStretch(last) && base.startsWith(line, last[1])) last[1] += line.length;
    else if (place) pieces.push([...place]);
    else if (at >= 0) pieces.push([at, at + line.length]);
    else pieces.push(...partsOf(line, base));
  }
  return pieces;
}

/** @param {AskedPiece | undefined} piece @returns {piece is [number, number]} */
const isStretch = (piece) => Array.isArray(piece) && piece.length === 2;

/** Return a line of which another text may have the beginning and the end. @param {string} line @param {string} base @returns {AskedPiece[]} */
function partsOf(line, base) {
  if (line.length <= LONG) return [line];
  const begin = base.indexOf(line.slice(0, LONG));
  const from = begin < 0 ? 0 : commonLength(line, base.slice(begin, begin + line.length));
  const rest = line.slice(from);
  const end = rest.length > LONG ? base.lastIndexOf(rest.slice(-LONG)) : -1;
  const to = rest.length - (end < 0 ? 0 : commonEnd(rest, base.slice(0, end + LONG)));
  /** @type {AskedPiece[]} */
  const parts = [];
  if (from > 0) parts.push([begin, begin + from]);
  if (to > 0) parts.push(rest.slice(0, to));
  if (to < rest.length) parts.push([end + LONG - rest.length + to, end + LONG]);
  return parts;
}

/** The length of the end that two texts share, in whole characters. @param {string} one @param {string} other */
function commonEnd(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one.at(-1 - length) === other.at(-1 - length)) length += 1;
  return length > 0 && isLow(one.charCodeAt(one.length - length)) ? length - 1 : length;
}
