import assert from "node:assert/strict";
import { test } from "node:test";

import { bansOf, patternOf } from "../../../srb/page/bans.js";

for (const [line, matches, others] of [
  ["king", ["the King said", "king"], ["looking", "kings"]],
  ["shiver*", ["shiver", "a Shivering girl"], ["ashiver"]],
  [" for a  moment ", ["for a moment", "For a\nmoment."], ["for a moments", "for amoment"]],
  ["couldn't help", ["couldn't help", "couldn’t help"], ["couldnt help"]],
  ["* * *", ["* * *", "a * * * b"], ["a * b"]],
  ["what?", ["what?!"], ["wha"]],
  ["...", ["so ... on"], ["so, on"]],
  ["/eyes? gl\\w+/", ["Eyes glinted", "eye gleams"], ["eyes shone"]],
]) {
  test(`a line of “${line}” is found as words, whatever their case`, () => {
    const pattern = new RegExp(patternOf(line), "iu");
    for (const text of matches) assert.match(text, pattern);
    for (const text of others) assert.doesNotMatch(text, pattern);
  });
}

test("lines go as patterns: those that come never without a weight, those that come seldom with one", () => {
  assert.deepEqual(bansOf([], []), {});
  assert.deepEqual(bansOf(["king"], ["suddenly"]), {
    banned_patterns: [{ pattern: "\\bking\\b" }, { pattern: "\\bsuddenly\\b", weight: 0.2 }],
  });
});
