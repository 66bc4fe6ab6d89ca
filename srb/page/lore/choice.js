/**
 * The entries of a lorebook that go into the next prompt, and their place. Entries that are always read stand with the memory, and cost nothing while
 * nobody changes them. The others come and go with the text: they stand together in the text, some paragraphs before its end, and
 * rest there. Entries that the text asks for no more stay until the place has to change anyway: when another entry comes, or the text
 * behind it has become long. So what a round computes anew is that much and no more, however long the story is.
 */
import { isBracketed, NEXT, placeOf } from "../prompt.js";
import { lastWords } from "./keywords.js";

/** @typedef {import("./entries.js").Entry} Entry */
/** @typedef {import("./keywords.js").Keywords} Keywords */
/** @typedef {{ids: string[], text: string, at: number, next: string}} Resting  where entries stand in the text; `next`: its first characters there */
/**
 * @typedef {object} Choice
 * @property {import("../prompt.js").Lore} lore
 * @property {Entry[]} used  the entries in the prompt: what is always read, then the rest as it stands
 * @property {Entry[]} left  those for which there was no room
 * @property {Map<string, string>} asked  by which keyword the text asks for an entry, by its id
 */

const NEAR = 1000; // characters of the text behind the entries when they are put there
const FAR = 4000; // … and the most, before they are put nearer again

/**
 * @param {object} given
 * @param {Keywords} given.keywords
 * @param {string} given.text  the manuscript
 * @param {number} given.words  at the text's end in which keywords are looked for
 * @param {number} given.room  characters that all entries may take
 * @param {Resting | null} [given.resting]  those of the last prompt
 * @returns {Choice}
 */
export function choose({ keywords, text, words, room, resting = null }) {
  const asked = keywords.in(text.slice(lastWords(text, text.length, words)));
  const always = new Room(room);
  for (const entry of keywords.entries) if (entry.always) always.add(entry);
  const fitting = new Room(always.left);
  for (const entry of keywords.entries) if (!entry.always && asked.has(entry.id)) fitting.add(entry);
  const rested =
    resting === null ? [] : keywords.entries.filter(({ id, always: is }) => !is && resting.ids.includes(id));
  const stays =
    resting !== null &&
    rested.length === resting.ids.length &&
    within(rested) === resting.text &&
    resting.text.length <= always.left &&
    fitting.taken.every((entry) => rested.includes(entry));
  const there = stays ? rested : fitting.taken;
  return {
    lore: {
      before: always.taken.map(({ text: own }) => own.trim()).join("\n\n"),
      within: within(there),
      placeIn: (story, start, end) => placeIn(story, start, end, stays ? resting : null),
    },
    used: [...always.taken, ...there],
    left: [...always.refused, ...fitting.refused],
    asked,
  };
}

/**
 * Return what is to be known of a prompt for the next one.
 * @param {Choice} choice
 * @param {string} text  the manuscript
 * @param {number} at  where the entries stand in it
 * @returns {Resting | null}
 */
export function restingOf({ lore, used }, text, at) {
  if (lore.within === "") return null;
  const ids = used.filter(({ always }) => !always).map(({ id }) => id);
  return { ids, text: lore.within, at, next: text.slice(at, at + NEXT) };
}

/** Entries that are put into a room for as long as they fit. */
class Room {
  /** @type {Entry[]} */
  taken = [];
  /** @type {Entry[]} */
  refused = [];

  /** @param {number} left  characters */
  constructor(left) {
    this.left = left;
  }

  /** @param {Entry} entry */
  add(entry) {
    const length = framed(entry).length + 2; // with the line's end, or the empty line, behind it
    const fits = length <= this.left;
    (fits ? this.taken : this.refused).push(entry);
    if (fits) this.left -= length;
  }
}

/** The entries as they stand in the text, those of the highest order nearest to its end. @param {Entry[]} entries */
function within(entries) {
  return [...entries].reverse().map(framed).join("\n");
}

/** An entry as it is read in the text: in brackets, so that no model takes it for the story's words. @param {Entry} entry */
function framed({ text }) {
  const own = text.trim();
  return isBracketed(own) ? own : `[${own}]`;
}

/**
 * @param {string} text
 * @param {number} start  of the part that is sent
 * @param {number} end
 * @param {Resting | null} resting
 */
function placeIn(text, start, end, resting) {
  const last = resting === null ? -1 : placeOf(text, resting);
  const isBeginning = last === start || text.charAt(last - 1) === "\n";
  if (last >= start && last <= end && end - last <= FAR && isBeginning) return last;
  return Math.max(start, text.lastIndexOf("\n", Math.max(0, end - NEAR)) + 1);
}
