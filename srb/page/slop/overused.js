/**
 * Words and phrases that come more often in a text than in others. Pure; its cost grows with the text.
 *
 * A word is compared with its frequency in a language. Of phrases no frequencies are known: theirs is what their words' would be if
 * they came together by chance, so a phrase of frequent words alone counts for nothing. Names, and what only one part of the text
 * is about, are left out.
 */

import { patternOf } from "../bans.js";

/** A list of words by falling frequency: those of `words[i]` have a share of 10 ** (-(first + i) / 100) of all words. The `plain`
 * ones are no writer's habit: a story about a woman has "she" more often than other texts.
 * @typedef {{first: number, plain: string, words: string[]}} Frequencies */
/** @typedef {{words: string, count: number, expected: number}} Overused `expected` in a text as long; 0 is less than one */
/** @typedef {{line: string, words: string}} Line a line of `bans.js`, and how it is shown */
/** @typedef {{numWords: number, words: Overused[], phrases: Overused[], models: (Line & {count: number})[]}} Found */

const WORD = /[\p{L}\p{M}\p{N}]+(?:['’-][\p{L}\p{M}\p{N}]+)*|[.!?…:;"“”„»«()\n]/gu;
const LONGEST = 5; // words of a phrase
const LEAST = 3; // times that come by chance in any book
const FURTHEST = 120; // rows of each kind
const SLICES = 20; // of the text
const SPREAD = 0.3; // of them a word is in, or as many as it has times; what is in fewer is a chapter's matter
const OFTENER = 2.5; // times its share in the language
const PLAIN = 4e-4; // the share from which a word says nothing in a phrase: "out of the", or "the house"
const NOUNS = 0.15; // share of capital letters within sentences from which nouns have them, as in German
const WITHIN = 0.75; // of a phrase's times within a longer one, which stands for it

/**
 * @param {string} text
 * @param {Frequencies | null} frequencies null: of a language without a list, in which only phrases are looked for
 * @param {readonly Line[]} lines what models overuse
 * @returns {Found}
 */
export function overusedIn(text, frequencies, lines = []) {
  const read = readWords(text);
  const shares = sharesOf(frequencies);
  const timesOf = (/** @type {string} */ line) => text.match(new RegExp(patternOf(line), "gi"))?.length ?? 0;
  const models = lines.map((each) => ({ ...each, count: timesOf(each.line) }));
  return {
    numWords: read.numWords,
    words: frequencies ? wordsIn(read, shares, new Set(frequencies.plain.split(" "))) : [],
    phrases: phrasesIn(read, shares),
    models: models.filter(({ count }) => count > 0).sort((a, b) => b.count - a.count),
  };
}

/** A text's words as numbers of a list, in which 0 is the end of a phrase. */
function readWords(/** @type {string} */ text) {
  /** @type {Map<string, number>} */
  const numbers = new Map([["", 0]]);
  const words = [""];
  /** @type {number[]} */
  const places = [];
  /** @type {number[]} */
  const capitals = []; // by word: the times with a capital letter within a sentence
  /** @type {number[]} */
  const inner = []; // … and all within a sentence
  let numWords = 0;
  for (const [word] of text.matchAll(WORD)) {
    const low = /[\p{L}\p{N}]/u.test(word) ? word.toLowerCase().replaceAll("’", "'") : "";
    let number = numbers.get(low);
    if (number === undefined) {
      number = words.push(low) - 1;
      numbers.set(low, number);
    }
    if (number && places.at(-1)) {
      inner[number] = (inner[number] ?? 0) + 1;
      if (word[0] !== low[0]) capitals[number] = (capitals[number] ?? 0) + 1;
    }
    numWords += number ? 1 : 0;
    places.push(number);
  }
  return { words, places, capitals, inner, numWords, hasNouns: sum(capitals) > NOUNS * sum(inner) };
}

/** The share of each word in a language. @param {Frequencies | null} frequencies */
function sharesOf(frequencies) {
  /** @type {Map<string, number>} */
  const shares = new Map();
  for (const [step, words] of (frequencies?.words ?? []).entries()) {
    const share = 10 ** (-((frequencies?.first ?? 0) + step) / 100);
    for (const word of words ? words.split(" ") : []) shares.set(word, share);
  }
  return shares;
}

/** @typedef {ReturnType<typeof readWords>} Read */

/** @param {Read} read @param {Map<string, number>} shares @param {Set<string>} plain @returns {Overused[]} */
function wordsIn(read, shares, plain) {
  const { words, places, numWords } = read;
  const rarest = Math.min(...shares.values());
  const counts = new Uint32Array(words.length);
  const slices = words.map(() => 0);
  places.forEach((number, at) => {
    counts[number] += 1;
    slices[number] |= sliceAt(at, places.length);
  });
  /** @type {(Overused & {weight: number})[]} */
  const found = [];
  for (let number = 1; number < words.length; number += 1) {
    const count = counts[number];
    const share = shares.get(words[number]) ?? rarest;
    const expected = share * numWords;
    if (count < LEAST || count < OFTENER * expected || plain.has(words[number]) || isName(read, number, shares))
      continue;
    if (!isSpread(slices[number], count)) continue;
    found.push({ words: words[number], count, expected: Math.round(expected), weight: surprise(count, expected) });
  }
  return best(found);
}

/**
 * Whether a word is a name: with a capital letter nearly always. Where nouns have one, too, it is in no list.
 * @param {Read} read @param {number} number @param {Map<string, number>} shares
 */
function isName({ words, capitals, inner, hasNouns }, number, shares) {
  return (capitals[number] ?? 0) > 0.5 * (inner[number] ?? 0) && !(hasNouns && shares.has(words[number]));
}

/** @param {readonly number[]} counts some are missing */
const sum = (counts) => counts.reduce((total, count) => total + count, 0);

/** Twice the logarithm of how much likelier so many times are than chance (Dunning 1993). @param {number} count @param {number} expected */
const surprise = (count, expected) => 2 * (count * Math.log(count / expected) - (count - expected));

/** The slice of a text that a place is in, as a bit. @param {number} at @param {number} length */
const sliceAt = (at, length) => 1 << Math.floor((at * SLICES) / length);

/** Whether something is in the whole text more than in one part of it. @param {number} slices @param {number} count */
const isSpread = (slices, count) => slices.toString(2).replaceAll("0", "").length >= Math.min(count, SPREAD * SLICES);

/** @param {(Overused & {weight: number})[]} found @returns {Overused[]} */
function best(found) {
  found.sort((a, b) => b.weight - a.weight || (a.words < b.words ? -1 : 1));
  return found.slice(0, FURTHEST).map(({ words, count, expected }) => ({ words, count, expected }));
}

/**
 * Phrases of two words and more, each longer one only where the shorter ones come often enough.
 * @param {Read} read @param {Map<string, number>} shares @returns {Overused[]}
 */
function phrasesIn(read, shares) {
  const { words, places, numWords } = read;
  const rarest = Math.min(1e-6, ...shares.values());
  const isOut = words.map((_, number) => number === 0 || isName(read, number, shares));
  /** By place: the number of the phrase of so many words that begins there; −1: none that comes often. */
  let begun = Int32Array.from(places, (number) => (isOut[number] ? -1 : number));
  /** @type {Map<string, Overused & {weight: number}>} */
  const found = new Map();
  for (let size = 2; size <= LONGEST; size += 1) {
    /** @type {Map<number, {count: number, at: number, number: number, slices: number}>} */
    const counts = new Map();
    for (let at = 0; at + size <= places.length; at += 1) {
      if (begun[at] < 0 || begun[at + 1] < 0) continue;
      const key = begun[at] * 2 ** 26 + begun[at + 1];
      const known = counts.get(key);
      const slice = sliceAt(at, places.length);
      if (known) Object.assign(known, { count: known.count + 1, slices: known.slices | slice });
      else counts.set(key, { count: 1, at, number: counts.size, slices: slice });
    }
    const next = new Int32Array(places.length).fill(-1);
    for (let at = 0; at + size <= places.length; at += 1) {
      if (begun[at] < 0 || begun[at + 1] < 0) continue;
      const known = counts.get(begun[at] * 2 ** 26 + begun[at + 1]);
      if (known && known.count >= LEAST) next[at] = known.number;
    }
    for (const { count, at, slices } of counts.values()) {
      if (count < LEAST || !isSpread(slices, count)) continue;
      const parts = Array.from(places.slice(at, at + size), (number) => words[number]);
      const of = parts.map((word) => shares.get(word) ?? rarest);
      if ((size === 2 ? Math.max(...of) : Math.min(...of)) > PLAIN) continue;
      const chance =
        Math.max(
          rarest / 10,
          of.reduce((product, share) => product * share, 1),
        ) * numWords;
      const phrase = parts.join(" ");
      for (const part of [parts.slice(1).join(" "), parts.slice(0, -1).join(" ")])
        if (count >= WITHIN * (found.get(part)?.count ?? Number.POSITIVE_INFINITY)) found.delete(part);
      found.set(phrase, { words: phrase, count, expected: 0, weight: surprise(count, chance) });
    }
    begun = next;
  }
  return best([...found.values()].filter((each) => !goesOn(each, found)));
}

/** Whether a phrase is the middle of a longer one than are looked for: its words but the last end another that comes as often. */
function goesOn(/** @type {Overused} */ { words, count }, /** @type {Map<string, Overused>} */ found) {
  const parts = words.split(" ");
  if (parts.length < LONGEST) return false;
  const before = ` ${parts.slice(0, -1).join(" ")}`;
  return [...found.values()].some((other) => other.words.endsWith(before) && other.count >= WITHIN * count);
}
