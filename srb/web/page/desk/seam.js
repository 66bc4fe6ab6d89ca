/**
 * The seam: where the cards' texts join the text as it is now. Cards go on from the text as it was when they were asked for; a
 * person writes on meanwhile, anywhere. What was changed before the seam stays as it is; what was typed behind it is the
 * person's to place.
 */

import { Characters } from "../story/same.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Stretch} Stretch */
/** @typedef {import("../round.js").Round} Round */

/**
 * @typedef {object} Seam
 * @property {number} at     where the text ends that the cards go on from, in the present text
 * @property {string} typed  what a person has typed behind it; "" if nothing but blanks
 * @property {boolean} isCut  whether the end of what the cards go on from is not in the present text
 */
/** @typedef {"after" | "instead"} Choice  where a card goes: behind the words that were typed meanwhile, or in their place */

const SHOWN = 30; // characters of the text that cards go on from

/** @type {WeakMap<Round, Characters>} of the text that a round's cards go on from, until another window rewrites what was copied */
let continued = new WeakMap();

/** Another window has changed the story. */
export function forgetContinued() {
  continued = new WeakMap();
}

/**
 * @param {Story} story
 * @param {Round} round
 * @param {Place} head
 * @returns {Seam}
 */
export function seamOf(story, round, head) {
  const { base, keep } = round;
  if (head.node === base.node && head.at >= keep) return { at: keep, typed: "", isCut: false };
  const pieces = story.pieces(head.node, head.at);
  const { at, end } = charactersOf(story, round).endIn(pieces);
  const text = story.text(head.node, head.at);
  const before = story.text(base.node, keep);
  if (at !== keep && text.startsWith(before)) return { at: keep, ...behind(pieces, text, keep), isCut: false };
  return { at, ...behind(pieces, text, at), isCut: before.slice(end).trim() !== "" };
}

/** Whether cards go on from something else than the present text. @param {Seam} seam */
export const isStale = ({ typed, isCut }) => isCut || typed !== "";

/** The end of the text that cards go on from, in whole words. @param {Story} story @param {Round} round */
export function continuedWords(story, { base, keep }) {
  const text = story.text(base.node, keep).trimEnd();
  if (text.length <= SHOWN) return text;
  return `…\u00a0${text.slice(-SHOWN).replace(/^\S*\s+/u, "")}`;
}

/**
 * Return the stretches of a card that join the words before them: they bring their own space, or need one.
 * @param {string} before
 * @param {Stretch[]} stretches
 * @returns {Stretch[]}
 */
export function joined(before, stretches) {
  const [first, ...others] = stretches;
  if (first === undefined || before === "") return stretches;
  const blank = /^[^\S\n]*/u.exec(first.text)?.[0].length ?? 0;
  if (/\s$/u.test(before)) {
    const of = first.of && { ...first.of, at: first.of.at + blank };
    const rest = { ...first, text: first.text.slice(blank), ...(of ? { of } : {}) };
    return rest.text ? [rest, ...others] : others;
  }
  const needsSpace = blank === 0 && /^[\p{L}\p{N}]/u.test(first.text) && /[\p{L}\p{N}.,;:!?…]$/u.test(before);
  return needsSpace ? [{ text: " ", by: first.by }, ...stretches] : stretches;
}

/** @param {Story} story @param {Round} round */
function charactersOf(story, round) {
  let characters = continued.get(round);
  if (characters === undefined) {
    characters = new Characters(story.nodes, story.pieces(round.base.node, round.keep));
    continued.set(round, characters);
  }
  return characters;
}

/**
 * What a person has typed behind an offset. A blank there gives way to the card's own.
 * @param {import("../story/types.js").Piece[]} pieces @param {string} text @param {number} at
 */
function behind(pieces, text, at) {
  const own = pieces.filter(({ to, by }) => by === "person" && to > at);
  const isTyped = own.some(({ from, to }) => /\S/u.test(text.slice(Math.max(from, at), to)));
  return { typed: isTyped ? text.slice(at).trim() : "" };
}
