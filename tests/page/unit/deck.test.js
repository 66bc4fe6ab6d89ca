/** The deck of directions, and how it is dealt. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { deal, deckOf, loadDeck, ownDeck, readDeck, waysOf } from "../../../srb/page/deck.js";
import "./file_fetch.js";
import { Random } from "./random.js";

const decks = await Promise.all(["en-GB", "de"].map((tag) => loadDeck(tag)));

test("each language has eight kinds of eight moves, all different, short and with no mark of a frame", () => {
  const [english, german] = decks;
  assert.deepEqual(Object.keys(english), Object.keys(german));
  for (const deck of decks) {
    const moves = Object.values(deck).flat();
    assert.equal(Object.keys(deck).length, 8);
    for (const hand of Object.values(deck)) assert.equal(hand.length, 8);
    assert.equal(new Set(moves).size, moves.length);
    for (const move of moves) assert.match(move, /^[^[\]<>\n.]{5,70}$/u);
  }
});

test("what may become of a passage is dealt from a deck of each language, too", async () => {
  const [english, german] = await Promise.all(["en", "de"].map((language) => waysOf(storyWith({ language }))));
  assert.deepEqual(Object.keys(english), Object.keys(german));
  for (const deck of [english, german]) {
    const ways = Object.values(deck).flat();
    assert.deepEqual([new Set(ways).size, Object.keys(deck).length], [24, 8]);
    for (const way of ways) assert.match(way, /^[^[\]<>\n.]{5,70}$/u);
  }
});

test("a story in a language without a deck gets the page's", async () => {
  assert.equal(await loadDeck("fr"), decks[0]);
  assert.equal(await loadDeck(undefined), decks[0]);
});

test("eight are one of each kind, more are different while there are any, and those that lie there already come last", () => {
  const numbers = new Random(5);
  const random = () => numbers.below(1e6) / 1e6;
  for (const deck of decks) {
    const kindOf = new Map(Object.entries(deck).flatMap(([kind, moves]) => moves.map((move) => [move, kind])));
    for (let round = 0; round < 50; round++) {
      const eight = deal(deck, 8, { random });
      assert.equal(new Set(eight.map((move) => kindOf.get(move))).size, 8);
      const others = deal(deck, 56, { dealt: eight, random });
      assert.equal(new Set([...eight, ...others]).size, 64);
      assert.ok(deal(deck, 80, { dealt: eight, random }).every((move) => kindOf.has(move)));
    }
    assert.notDeepEqual(deal(deck, 8, { random }), deal(deck, 8, { random }));
  }
});

/** A story with these values. */
const storyWith = (values) => ({ meta: (name) => values[name] });

test("a story has the deck of a file before that of its language, and what is none counts as none", async () => {
  const moves = readDeck({ rain: ["  it \n rains ", "a flood"], "": ["x"] });
  assert.deepEqual(moves, { rain: ["it rains", "a flood"], "": ["x"] });
  assert.equal(await deckOf(storyWith({ language: "de", deck: { name: "rain", moves } })), moves);
  assert.deepEqual(deal(moves, 3).sort(), ["a flood", "it rains", "x"]);
  for (const deck of [
    null,
    "a",
    { moves },
    { name: 1, moves },
    { name: "", moves: { a: "b" } },
    { name: "", moves: {} },
  ]) {
    assert.equal(ownDeck(storyWith({ deck })), null);
    assert.equal(await deckOf(storyWith({ language: "de", deck })), decks[1]);
  }
});

test("a list is a deck, the page's decks are read as they are, and the reason is said why a file is none", () => {
  assert.deepEqual(readDeck(["a stranger"]), { "": ["a stranger"] });
  for (const deck of decks) assert.deepEqual(readDeck(JSON.parse(JSON.stringify(deck))), deck);
  for (const [value, words] of [
    [null, "A deck is"],
    ["rain", "A deck is"],
    [[], "Each kind"],
    [{}, "Each kind"],
    [{ rain: [] }, "Each kind"],
    [{ rain: "it rains" }, "Each kind"],
    [{ rain: ["it rains", 5] }, "A line of the deck is not a text"],
    [[" "], "A line of the deck is not a text"],
    [["a".repeat(1001)], "A line of the deck has 1001"],
    [Array.from({ length: 1000 }, () => "ä".repeat(150)), "The deck is too large"],
  ])
    assert.throws(
      () => readDeck(value),
      (error) => error.message.startsWith(words),
      JSON.stringify(value).slice(0, 80),
    );
});
