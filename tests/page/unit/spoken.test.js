import assert from "node:assert/strict";
import { test } from "node:test";
import { piecesOf } from "../../../srb/page/spoken.js";

const read = (/** @type {string} */ text) => [...piecesOf(text)];

test("sentences are read one by one, without the signs of Markdown, breaks and empty lines", () => {
  assert.deepEqual(read("# The *lamp*\n\nIt went out. “Who is there?” she asked.\n***\nNobody, **nobody**."), [
    "The lamp",
    "It went out.",
    "“Who is there?” she asked.",
    "Nobody, nobody.",
  ]);
  assert.deepEqual(read(""), []);
  assert.deepEqual(read(" \n— …\n"), []);
});

test("a picture is read as its name", () => {
  assert.deepEqual(read("Look: ![the bay](srb:0123456789abcdef0123456789abcdef) it is"), ["Look: the bay it is"]);
});

test("whatever its length, a text is read whole, in pieces that a voice takes", () => {
  for (const text of [
    "word ".repeat(500),
    "x".repeat(1000),
    `${"y".repeat(299)} ${"z".repeat(301)}`,
    "Sehr. Lang. ".repeat(90),
  ]) {
    const pieces = read(text);
    assert.equal(pieces.join("").replace(/\s/gu, ""), text.replace(/\s/gu, ""));
    assert.ok(
      pieces.every((piece) => piece.length <= 300),
      `${pieces.map((piece) => piece.length)}`,
    );
  }
});
