/**
 * The seam: where the cards' texts join the text as it is now. Cards go on from the text as it was when they were asked for; a
 * person writes on meanwhile, anywhere. What was changed before the seam stays as it is; what was typed behind it is the
 * person's to place.
 */

import { Characters } from "../story/same.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Piece} Piece */
/** @typedef {import("../round.js").Round} Round */

/**
 * @typedef {object} Seam
 * @property {number} at     where the text ends that the cards go on from, in the present text
 * @property {number} to     where the text begins that stays behind them; its end, if nothing does
 * @property {string} typed  what stands between the two, if a person has typed some of it since; else ""
 * @property {boolean} isCut  whether the end of what the cards go on from is not in the present text
 */
/** @typedef {"after" | "instead"} Choice  where a card goes: behind the words that were typed meanwhile, or in their place */
/** @typedef {{before: Characters, replaced: Characters | null, behind: Characters | null}} Around   a round's gap */

const SHOWN = 30; // characters of the text that cards go on from

/** @type {WeakMap<Round, Around>} the text around a round's gap, until another window rewrites what was copied */
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
  const { base, keep, until } = round;
  if (head.node === base.node && head.at >= keep)
    return { at: keep, to: round.isInside ? Math.min(until, head.at) : head.at, typed: "", isCut: false };
  const pieces = story.pieces(head.node, head.at);
  const { before, replaced, behind } = around(story, round);
  const text = story.text(head.node, head.at);
  const words = story.text(base.node, keep);
  let { at, end } = before.endIn(pieces);
  let isCut = words.slice(end).trim() !== "";
  if (at !== keep && text.startsWith(words)) [at, isCut] = [keep, false];
  const to = behind?.beginIn(pieces, at) ?? text.length;
  const there = clipped(pieces, at, to);
  const own = (replaced?.lackedBy(there) ?? there).filter(({ by }) => by === "person");
  const isTyped = own.some((each) => /\S/u.test(text.slice(each.from, each.to)));
  return { at, to, typed: isTyped ? text.slice(at, to).trim() : "", isCut };
}

/** Whether cards go on from something else than the present text. @param {Seam} seam */
export const isStale = ({ typed, isCut }) => isCut || typed !== "";

/**
 * The present text before the cards, where a person has mended it since they were asked for; null if it is as they have it, or
 * its end is not what they go on from any more.
 * @param {Story} story @param {Round} round @param {Place} head
 */
export function mendedBefore(story, round, head) {
  const { at, isCut } = seamOf(story, round, head);
  const text = story.text(head.node, at);
  return isCut || text === story.text(round.base.node, round.keep) ? null : text;
}

/** The words of a person, and nobody else's, that stand right before the place of the cards, with those that were typed there since.
 * @param {Story} story @param {Place} head @param {Seam} seam */
export function ownWords(story, { node, at: end }, { at, to, typed }) {
  const until = typed ? to : at;
  const pieces = clipped(story.pieces(node, end), 0, until);
  const last = pieces.findLastIndex(({ by }) => by !== "person");
  return story.text(node, end).slice(pieces[last]?.to ?? 0, until);
}

/** The end of the text that cards go on from, in whole words. @param {Story} story @param {Round} round */
export function continuedWords(story, { base, keep }, most = SHOWN) {
  const text = story.text(base.node, keep).trimEnd();
  if (text.length <= most) return text;
  return `…\u00a0${text.slice(-most).replace(/^\S*\s+/u, "")}`;
}

/** Words in a line, without the signs of headings and emphasis. @param {string} text */
export const plainWords = (text) => text.replace(/^#{1,6}[ \t]+|\*+/gmu, "").replace(/\s+/gu, " ");

/** @param {Story} story @param {Round} round @returns {Around} */
function around(story, round) {
  let known = continued.get(round);
  if (known === undefined) {
    const { base, keep, until } = round;
    const pieces = story.pieces(base.node, base.at);
    const part = (/** @type {number} */ from, /** @type {number} */ to) =>
      from < to ? new Characters(story.nodes, clipped(pieces, from, to)) : null;
    const before = new Characters(story.nodes, clipped(pieces, 0, keep));
    known = { before, replaced: part(keep, until), behind: part(until, base.at) };
    continued.set(round, known);
  }
  return known;
}

/** @param {Piece[]} pieces @param {number} from @param {number} to */
function clipped(pieces, from, to) {
  return pieces
    .filter((piece) => piece.from < to && piece.to > from)
    .map((piece) => {
      const begin = Math.max(piece.from, from);
      return { ...piece, from: begin, to: Math.min(piece.to, to), start: piece.start + begin - piece.from };
    });
}
