/**
 * Moves of the manuscript to another place of the story: by a take, or by opening a place. It is the one way by which the desk
 * changes the manuscript, so here it is held that no word that a person typed leaves it unsaid.
 */

import { countWords } from "../keep/describe.js";
import { msg } from "../languages.js";
import { typedOnlyIn } from "../story/same.js";
import { lossFrom } from "./typing.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../desk.js").Action} Action */
/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */

const QUOTED = 60; // characters

/**
 * Show another place of the story; one step for undo. A notice names the person's words that its text lacks, and leads back: its sentence is returned.
 * @param {Desk} desk @param {Place} place @param {"take" | "open" | "undo"} why "undo": a step back itself, which undo does not take back
 * @param {number} [caret] where it stands then
 */
export function move(desk, place, why, caret) {
  const { story, typing } = desk;
  desk.closeTyped();
  place = story.settle(place); // another window may be typing there
  const before = desk.head;
  const caretBefore = desk.manuscript?.caret();
  const loss = why === "undo" ? "" : lossOf(story, before, place); // a person who undoes sees the words go
  typing.isPaused = true;
  try {
    const text = story.text(place.node, place.at);
    desk.manuscript?.apply({ text, head: place, pieces: story.pieces(place.node, place.at), why, caret });
  } finally {
    typing.isPaused = false;
  }
  desk.head = place;
  story.head = place;
  desk.changed();
  desk.tell("head", { why });
  const isVisit = why === "open" && desk.before && isSame(desk.before.head, before);
  if (loss) desk.notice(loss, "info", isVisit ? wayBack(desk) : wayTo(desk, before, caretBefore), lossFrom(before));
  return loss;
}

/** @param {Place} one @param {Place} other */
const isSame = (one, other) => one.node === other.node && one.at === other.at;

/** What leads from a place that was opened back to the text. @param {Desk} desk @returns {Action} */
function wayBack(desk) {
  return { label: msg`Back to where I was`, run: () => desk.goBack() };
}

/** What leads back to the text before the last move, and its cards. @param {Desk} desk @param {Place} place @param {number} [caret] @returns {Action} */
export function wayTo(desk, place, caret) {
  return { label: msg`Undo`, run: () => desk.withRounds((rounds) => rounds.moveBack(place, caret)) };
}

/**
 * Return a sentence about the words that a person has typed and that another place's text lacks; "" if it has all.
 * @param {Story} story @param {Place} before @param {Place} after
 */
function lossOf(story, before, after) {
  const [first, ...others] = typedOnlyIn(story, before, after);
  if (first === undefined) return "";
  const more = others.reduce((sum, text) => sum + countWords(text), 0);
  if (more === 0) return msg`${quoted(first)} is not in this text. The outline has it.`;
  return more === 1
    ? msg`${quoted(first)} and 1 more word are not in this text. The outline has it.`
    : msg`${quoted(first)} and ${more} more words are not in this text. The outline has it.`;
}

/** @param {string} text */
export function quoted(text) {
  const line = text.replace(/\s+/gu, " ").trim();
  const beginning = line.slice(0, QUOTED);
  return msg`“${line === beginning ? line : `${beginning.replace(/\S*$/u, "").trim() || beginning} …`}”`;
}
