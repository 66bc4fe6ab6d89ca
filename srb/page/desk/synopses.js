/**
 * Synopses: a line on what happens in a chapter or a scene. Each is a value of the story by itself, `synopsis.ID`, and stands before
 * the first word of its part, a place that words hold: so it goes where they go. The model reads each before its part, where it stays while the
 * text grows; those of parts that it no longer reads tell it the story so far.
 */

import { chaptersOf, paragraphsOf } from "../formats/chapters.js";
import { wordsOf } from "../markdown.js";
import { withoutMarkers } from "../markers.js";
import { NO_PLAN } from "../plan.js";
import { heldBefore, isHeld, placesIn } from "./held.js";
import { valuesOf } from "./values.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../plan.js").Plan} Plan */
/** @typedef {import("./held.js").Held & {text: string}} Synopsis */
/** @typedef {import("../formats/chapters.js").Chapter} Chapter */
/** @typedef {{kind: "chapter" | "scene", chapter: Chapter, name: string, at: number, end: number, isWhole: boolean, hasLine: boolean}} Part   of a text, from
 *   `at` up to `end`; `chapter`: that it is or is in; `isWhole`: it has no scenes of their own; `hasLine`: no scene has the same first words */
/** @typedef {Part & {key: string, synopsis: string}} Told */

const PREFIX = "synopsis.";
export const LONGEST = 500; // characters

/** @param {unknown} value @returns {value is Synopsis} */
function isSynopsis(value) {
  if (!isHeld(value)) return false;
  const { text } = /** @type {any} */ (value);
  return typeof text === "string" && text.length <= LONGEST;
}

/** @param {Story} story @returns {Map<string, Synopsis>} */
const synopsesOf = (story) => valuesOf(story, PREFIX, isSynopsis);

/**
 * Return the chapters of a text, and behind each the scenes that it is made of, if there are more than one.
 * @param {Story} story @param {Place} place @returns {Part[]}
 */
function partsOf(story, place) {
  const { chapters } = chaptersOf(story, place);
  return chapters.flatMap((chapter, index) => {
    const { at, body, text } = chapter;
    if (text.trim() === "") return [];
    const end = chapters[index + 1]?.at ?? place.at;
    const first = at + text.length - text.trimStart().length;
    const scenes = scenesOf(chapter);
    const name = withoutMarkers(chapter.name);
    const isWhole = scenes.length < 2;
    /** @type {Part} */
    const whole = { kind: "chapter", chapter, name, at: first, end, isWhole, hasLine: isWhole || body > 0 };
    if (isWhole) return [whole];
    const all = scenes.map(({ at: begins, title }, number) => {
      const ends = scenes[number + 1]?.at ?? end;
      const kind = /** @type {const} */ ("scene");
      return { kind, chapter, name: title, at: begins, end: ends, isWhole: true, hasLine: true };
    });
    return [whole, ...all];
  });
}

/** Where the scenes of a chapter begin: behind a break, or at a heading within it. @param {Chapter} chapter */
function scenesOf({ at, body, text }) {
  /** @type {{at: number, title: string}[]} */
  const scenes = [];
  let begins = true;
  let last = "text";
  for (const { kind, at: from, text: words, scene } of paragraphsOf(text.slice(body))) {
    const isTitle = kind === "heading";
    if (kind !== "break" && (begins || scene > 0 || (isTitle && last !== "heading")))
      scenes.push({ at: at + body + from, title: isTitle ? wordsOf(words) : "" });
    begins = kind === "break";
    last = kind;
  }
  return scenes;
}

/**
 * Return the parts of a text, each with its synopsis, "" if it has none. Where the words of two are in one part, the first has it.
 * @param {Story} story @param {Place} place @returns {Told[]}
 */
export function toldParts(story, place) {
  const synopses = synopsesOf(story);
  const parts = partsOf(story, place).map((part) => ({ ...part, key: "", synopsis: "" }));
  for (const [key, from] of placesIn(story, place, synopses)) {
    const part = parts.findLast(({ at }) => at <= from);
    if (part && !part.key) Object.assign(part, { key, synopsis: synopses.get(key)?.text ?? "" });
  }
  return parts;
}

/** The parts without a synopsis before the one with the caret, of those that have no scenes of their own. @param {Told[]} parts @param {number} caret */
export function emptyBefore(parts, caret) {
  const current = parts.findLast(({ at }) => at <= caret);
  return parts.filter((part) => part.isWhole && !part.synopsis && part.end <= caret && part !== current);
}

/**
 * Write the synopsis of a part of the manuscript; an empty one is taken away. Returns its key.
 * @param {import("../desk.js").Desk} desk @param {Told} part @param {string} text
 */
export function setSynopsis(desk, { key, at }, text) {
  const { story } = desk;
  const known = /** @type {Synopsis | undefined} */ (story.meta(key));
  if (!known && text.trim() === "") return key;
  const value = known ?? heldBefore(story, desk.settle(), at);
  const { node, from } = value.on[0] ?? {};
  const own = key || `${PREFIX}${node}.${from}`; // two windows that begin it write one
  desk.setMeta(own, text.trim() === "" ? null : { ...value, text });
  return own;
}

/** What the model is told of the parts of a text. @param {Story} story @param {Place} place @returns {Plan} */
export function planOf(story, place) {
  if (synopsesOf(story).size === 0) return NO_PLAN;
  const parts = toldParts(story, place);
  const text = story.text(place.node, place.at);
  /** @param {Told} part */
  const isTold = ({ chapter, synopsis }) =>
    synopsis.trim() !== "" ||
    parts.some((each) => each.kind === "chapter" && each.synopsis && each.chapter === chapter);
  return {
    untold: parts.find((part) => part.isWhole && !isTold(part))?.at ?? text.length,
    lines: parts
      .filter(({ synopsis }) => synopsis.trim() !== "")
      .map(({ kind, name, at, end, synopsis }) => ({
        kind,
        name,
        at: text.lastIndexOf("\n", at - 1) + 1,
        end,
        text: synopsis.trim(),
      })),
  };
}
