import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, expectedLength, mostLines, placesOf, reserveOf } from "../../../srb/page/parts/branches/places.js";
import { Random } from "./random.js";

test("there are as many columns as fit, and fewer where that leaves fewer holes", () => {
  const wide = 3 * 285 + 2 * 32;
  const at = (width) => [1, 2, 3, 4, 5, 6, 7, 8, 9].map((count) => columnsOf(count, width));
  assert.deepEqual(at(wide), [1, 2, 3, 2, 3, 3, 2, 2, 3]);
  assert.deepEqual(at(wide - 1), [1, 2, 2, 2, 2, 2, 2, 2, 2]);
  assert.deepEqual(at(100), Array(9).fill(1));
});

test("a card never lies over another one, and each column is full from the top", () => {
  const random = new Random(7);
  for (let turn = 0; turn < 200; turn += 1) {
    const columns = 1 + random.below(4);
    const lines = Array.from({ length: random.below(30) }, () => random.below(10));
    const places = placesOf(lines, columns);
    for (let column = 0; column < columns; column += 1) {
      const own = places.map((place, index) => ({ ...place, index })).filter((place) => place.column === column);
      let above = 0;
      own.forEach((place, row) => {
        assert.deepEqual([place.above, place.row], [above, row]);
        above += lines[place.index];
      });
    }
    assert.equal(places.length, lines.length);
  }
});

test("a round reserves what three quarters of the last one's cards needed, within bounds", () => {
  assert.equal(reserveOf([]), 2);
  assert.equal(reserveOf([1, 1, 2]), 2);
  assert.equal(reserveOf([2, 6, 5, 40]), 5);
  assert.equal(reserveOf([30, 40, 50]), 9);
});

test("a first round reserves what the settings let expect, as far as all its cards are in view", () => {
  assert.equal(reserveOf([], { expected: 6, inView: 7 }), 6);
  assert.equal(reserveOf([], { expected: 30, inView: 7 }), 7);
  assert.equal(reserveOf([], { expected: 30, inView: 40 }), 9);
  assert.equal(reserveOf([], { expected: 1, inView: 7 }), 2);
  assert.equal(reserveOf([1, 1, 2], { expected: 6, inView: 7 }), 2, "a round before it tells more");
});

test("the length that the settings let expect is that of the shorter of both bounds", () => {
  const lengths = [
    [{ max_tokens: 128, stop_at: "paragraph" }, 240],
    [{ max_tokens: 20, stop_at: "paragraph" }, 80],
    [{ max_tokens: 128, stop_at: "sentence", stop_after: 3 }, 240],
    [{ max_tokens: 128, stop_at: "" }, 512],
    [{ max_tokens: -1, stop_at: "word" }, 8],
    [{ max_tokens: -1 }, Number.POSITIVE_INFINITY],
  ];
  for (const [settings, length] of lengths) assert.equal(expectedLength(settings), length, JSON.stringify(settings));
});

test("cards get the room that the pane has, and nine lines where it has less", () => {
  assert.equal(mostLines(1, { height: 838, line: 25, chrome: 38 }), 32);
  assert.equal(mostLines(4, { height: 838, line: 25, chrome: 38 }), 9);
});
