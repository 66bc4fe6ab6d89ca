/** Which words of the manuscript are tinted. */

import assert from "node:assert/strict";
import { test } from "node:test";
import "./file_fetch.js";

const { tintsOf } = await import("../../../srb/page/desk/surprise.js");

const LIKELY = Math.log(0.9);
const RARE = Math.log(0.001);

test("a rare word is tinted without the space before it, and likely ones are not", () => {
  const known = [
    { start: 0, logprob: null },
    { start: 3, logprob: LIKELY },
    { start: 7, logprob: RARE },
  ];
  assert.deepEqual(tintsOf("The cat flew", 100, known), [{ from: 108, to: 112, step: 5 }]);
});

test("tokens of one word, and neighbours of one step, are tinted together", () => {
  const known = [
    { start: -2, logprob: RARE },
    { start: 2, logprob: RARE },
    { start: 4, logprob: RARE },
    { start: 7, logprob: LIKELY },
  ];
  assert.deepEqual(tintsOf("abc def.", 0, known), [{ from: 0, to: 7, step: 5 }]);
});

test("places are counted in characters, of which some are two units of a text", () => {
  const known = [
    { start: 0, logprob: LIKELY },
    { start: 2, logprob: RARE },
    { start: 2, logprob: RARE },
    { start: 3, logprob: LIKELY },
  ];
  assert.deepEqual(tintsOf("𝄞a𝄞b", 10, known), [{ from: 13, to: 15, step: 5 }]);
});

test("nothing is tinted in a text without tokens, nor in white space", () => {
  assert.deepEqual(tintsOf("", 0, []), []);
  assert.deepEqual(
    tintsOf("a \n\n b", 0, [
      { start: 0, logprob: LIKELY },
      { start: 1, logprob: RARE },
      { start: 4, logprob: LIKELY },
    ]),
    [],
  );
});
