// The deck of directions: short events, in kinds. A deal takes one of each kind before it takes a second one of any. A story may have
// a deck of its own, from a file: its value `deck`.

import { LANGUAGE, msg } from "./languages.js";
import { isRecord } from "./story/check.js";
import { StoryError } from "./story/read.js";

/** Moves by their kind. @typedef {Record<string, string[]>} Deck */
/** @typedef {{name: string, moves: Deck}} OwnDeck */

export const LONGEST = 1000; // characters of a direction: the server's limit
const LARGEST = 200_000; // bytes of a deck: a value of a story takes little more

const DECKS = ["en", "de"];
/** @type {Map<string, Deck>} by kind and language */
const known = new Map();

/** The deck that a story has of its own; null without one. @param {import("./story.js").Story} story @returns {OwnDeck | null} */
export function ownDeck(story) {
  const value = story.meta("deck");
  const isDeck = isRecord(value) && typeof value.name === "string" && faultOf(value.moves) === "";
  return isDeck ? /** @type {any} */ (value) : null;
}

/** The deck of a story: its own or that of its language. @param {import("./story.js").Story} story */
export function deckOf(story) {
  return ownDeck(story)?.moves ?? loadDeck(story.meta("language"));
}

/** Return the deck that a file has, its moves in one line each; a list of moves is a deck of one kind. @param {unknown} value @returns {Deck} */
export function readDeck(value) {
  const moves = Array.isArray(value) ? { "": value } : value;
  const fault = faultOf(moves);
  if (fault) throw new StoryError(fault);
  const kinds = Object.entries(/** @type {Deck} */ (moves));
  return Object.fromEntries(kinds.map(([kind, hand]) => [kind, hand.map((move) => move.replace(/\s+/gu, " ").trim())]));
}

/** Say what is wrong with a deck; "" if nothing is. @param {unknown} moves */
function faultOf(moves) {
  if (!isRecord(moves)) return msg`A deck is an object of lists, or a list.`;
  const hands = Object.values(moves);
  if (!hands.length || hands.some((hand) => !Array.isArray(hand) || !hand.length))
    return msg`Each kind of a deck is a list of lines.`;
  for (const move of hands.flat()) {
    if (typeof move !== "string" || !move.trim()) return msg`A line of the deck is not a text.`;
    if (move.length > LONGEST) return msg`A line of the deck has ${move.length} characters; it may have ${LONGEST}.`;
  }
  const { length } = new TextEncoder().encode(JSON.stringify(moves));
  return length > LARGEST ? msg`The deck is too large: ${length} bytes; it may have ${LARGEST}.` : "";
}

/** The deck of what may become of a passage, in a story's language. @param {import("./story.js").Story} story */
export const waysOf = (story) => loadDeck(story.meta("language"), "passage.");

/** Load a deck in a story's language; where there is none, in the page's. @param {unknown} tag such as "de-CH" @param {string} [kind]
 * @returns {Promise<Deck>} */
export async function loadDeck(tag, kind = "") {
  const [wanted] = String(tag ?? "").split("-");
  const name = kind + (DECKS.includes(wanted) ? wanted : LANGUAGE);
  const deck = known.get(name) ?? (await (await fetch(new URL(`./decks/${name}.json`, import.meta.url))).json());
  known.set(name, deck);
  return deck;
}

/**
 * Return so many moves, of which none is dealt already while others are left.
 * @param {Deck} deck @param {number} count @param {{dealt?: readonly string[], random?: () => number}} [options]
 */
export function deal(deck, count, { dealt = [], random = Math.random } = {}) {
  const isDealt = new Set(dealt);
  const hands = Object.values(deck).map((moves) => shuffled(moves, random));
  const fresh = inTurn(
    shuffled(
      hands.map((hand) => hand.filter((move) => !isDealt.has(move))),
      random,
    ),
  );
  const rest = inTurn(hands.map((hand) => hand.filter((move) => isDealt.has(move))));
  const all = [...fresh, ...rest];
  return Array.from({ length: count }, (_, place) => all[place % all.length]);
}

/** The first of each hand, then the second of each, and so on. @param {string[][]} hands */
function inTurn(hands) {
  const most = Math.max(...hands.map(({ length }) => length));
  return Array.from({ length: most }, (_, turn) => hands.flatMap((hand) => hand.slice(turn, turn + 1))).flat();
}

/** @template T @param {readonly T[]} all @param {() => number} random @returns {T[]} */
function shuffled(all, random) {
  return all
    .map((value) => ({ value, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ value }) => value);
}
