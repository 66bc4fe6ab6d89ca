/** The deck of directions, and how it is dealt. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { deal, loadDeck } from "../../../srb/page/deck.js";
import "./file_fetch.js";
import { Random } from "./random.js";

const decks = await Promise.all(["en-GB", "de"].map(loadDeck));

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
