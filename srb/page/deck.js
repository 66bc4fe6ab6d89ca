// The deck of directions: short events, in kinds. A deal takes one of each kind before it takes a second one of any.

import { LANGUAGE } from "./languages.js";

/** Moves by their kind. @typedef {Record<string, string[]>} Deck */

const DECKS = ["en", "de"];
/** @type {Map<string, Deck>} by language */
const known = new Map();

/** Load the deck of a story's language; where there is none, of the page's. @param {unknown} tag such as "de-CH" @returns {Promise<Deck>} */
export async function loadDeck(tag) {
  const [wanted] = String(tag ?? "").split("-");
  const language = DECKS.includes(wanted) ? wanted : LANGUAGE;
  const deck = known.get(language) ?? (await (await fetch(addressOf(language))).json());
  known.set(language, deck);
  return deck;
}

/** @param {string} language */
const addressOf = (language) => new URL(`./decks/${language}.json`, import.meta.url);

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
