/**
 * Beats: what is to happen next, in a few lines, one after the other. Each is a value of the story by itself, `beat.ID`. It is ticked as
 * written where words of the text tell it (`beat_done.ID`), so it is open again in a branch that forked before them.
 */

import { msg } from "../languages.js";
import { lastParagraph, trimmedLength } from "../prompt.js";
import { isRecord } from "../story/check.js";
import { origin } from "../story/pen.js";
import { newId } from "../story.js";
import { gapAt } from "./gap.js";
import { heldBefore, isHeld, paragraphAt, placesIn } from "./held.js";
import { changeAll, valuesOf } from "./values.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{text: string, order: number}} Beat */
/** @typedef {import("./held.js").Held & {beat: string}} Tick */
/** @typedef {Beat & {key: string, ticks: string[], from: number | null}} Known   `ticks`: by which it is written in a text; `from`: where a card begins
 *   that was asked for it, null without one */

const PREFIX = "beat.";
const DONE = "beat_done.";
export const LONGEST = 500; // characters
export const MOST = 200; // beats of a story

/** @param {unknown} value @returns {value is Beat} */
const isBeat = (value) =>
  isRecord(value) && typeof value.text === "string" && value.text.length <= LONGEST && Number.isFinite(value.order);

/** @param {unknown} value @returns {value is Tick} */
const isTick = (value) => isHeld(value) && typeof (/** @type {any} */ (value).beat) === "string";

/** A story's beats in their order. @param {Story} story @returns {Known[]} */
function storedIn(story) {
  return [...valuesOf(story, PREFIX, isBeat, MOST)]
    .map(([key, { text, order }]) => ({ text, order, key, ticks: [], from: null }))
    .sort((a, b) => a.order - b.order || (a.key < b.key ? -1 : 1));
}

/**
 * Return a story's beats in their order, and whether they are written in a text.
 * @param {Story} story @param {Place} place @returns {Known[]}
 */
export function beatsIn(story, place) {
  const beats = storedIn(story);
  if (beats.length === 0) return [];
  const ticks = valuesOf(story, DONE, isTick);
  const written = [...placesIn(story, place, ticks).keys()];
  const asked = askedFor(story, place);
  for (const beat of beats) {
    beat.ticks = written.filter((key) => ticks.get(key)?.beat === beat.key);
    beat.from = asked.get(beat.text.trim()) ?? null;
  }
  return beats;
}

/** Where the cards of a text begin that had a direction, by it. @param {Story} story @param {Place} place */
function askedFor(story, { node, at }) {
  /** @type {Map<string, number>} */
  const asked = new Map();
  for (const piece of story.pieces(node, at)) {
    const card = story.nodes.get(piece.node);
    const { direction } = (card && story.nodes.get(origin(card).node)) ?? {};
    if (direction && card?.text.trim() && !asked.has(direction)) asked.set(direction, piece.from);
  }
  return asked;
}

/**
 * Return the beats of which cards are in a text, as the model read them: before the paragraph behind which the first card of each was asked for.
 * @param {Story} story @param {Place} place @returns {import("../plan.js").Line[]}
 */
export function beatLines(story, place) {
  const text = story.text(place.node, place.at);
  const asked = askedFor(story, place);
  return storedIn(story)
    .flatMap(({ text: own }) => (asked.has(own.trim()) ? [own.trim()] : []))
    .map((own) => {
      const at = lastParagraph(text.slice(0, trimmedLength(text.slice(0, asked.get(own)))));
      const gap = at === 0 || text[at - 1] === "\n" ? "" : "\n\n";
      return { kind: /** @type {const} */ ("beat"), name: "", at, end: at + 1, text: own, gap };
    })
    .sort((a, b) => a.at - b.at || (asked.get(a.text) ?? 0) - (asked.get(b.text) ?? 0));
}

/** The words before the caret, behind which the next beat is written. @param {Desk} desk @returns {Place} */
export function beforeCaret({ head, manuscript, text }) {
  return { node: head.node, at: gapAt(text, manuscript?.caret() ?? text.length).at };
}

/** The first beat that is not written before the caret. @param {Desk} desk */
export const nextBeat = (desk) =>
  beatsIn(desk.story, beforeCaret(desk)).find(({ text, ticks }) => text.trim() !== "" && ticks.length === 0);

/** Begin a round in whose cards the next beat happens. @param {Desk} desk */
export function writeNextBeat(desk) {
  const beat = nextBeat(desk);
  if (!beat) return desk.notice(msg`Every beat of the plan is written: add one, or take back a tick.`);
  desk.manuscript?.focus();
  return desk.go({ directions: Array(desk.settings.n).fill(beat.text.trim()) });
}

/** Say that a beat is written before the caret, or that it is not. @param {Desk} desk @param {Known} beat */
export function tick(desk, { key, ticks, from }) {
  if (ticks.length)
    return changeAll(
      desk,
      ticks.map((each) => [each, null]),
    );
  const at = from ?? paragraphAt(desk.text, beforeCaret(desk).at);
  if (at === null) return desk.notice(msg`The story has no words yet in which a beat could be written.`);
  changeAll(desk, [[DONE + newId(), { beat: key, ...heldBefore(desk.story, desk.settle(), at) }]]);
}

/** Add beats behind the others. @param {Desk} desk @param {string[]} texts */
export function addBeats(desk, texts) {
  const known = beatsIn(desk.story, desk.head);
  const order = known.at(-1)?.order ?? 0;
  const room = texts.slice(0, Math.max(0, MOST - known.length));
  changeAll(
    desk,
    room.map((text, place) => [PREFIX + newId(), { text: text.slice(0, LONGEST), order: order + place + 1 }]),
  );
}

/** Put a beat before its neighbour, or behind it. @param {Desk} desk @param {Known[]} beats @param {number} place @param {1 | -1} step */
export function moveBeat(desk, beats, place, step) {
  const [beat, other, beyond] = [beats[place], beats[place + step], beats[place + 2 * step]];
  if (!beat || !other) return;
  const order = beyond ? (other.order + beyond.order) / 2 : other.order + step;
  changeAll(desk, [[beat.key, { text: beat.text, order }]]);
}
