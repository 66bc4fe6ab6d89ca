import assert from "node:assert/strict";
import { test } from "node:test";

import { NUMBERS, readNumber } from "../../../srb/page/parts/numbers.js";
import { SAMPLERS } from "../../../srb/page/sampling.js";

const temperature = SAMPLERS.find((each) => each.name === "temperature");

test("numbers are read with either decimal sign", () => {
  assert.equal(readNumber(temperature, "0.9"), 0.9);
  assert.equal(readNumber(temperature, " 0,9 "), 0.9);
  assert.equal(readNumber(temperature, "1."), 1);
});

test("anything else is answered with what is right", () => {
  for (const typed of ["hot", "4", "-1", "1e0", "0x1", "1 2", "NaN", ""]) {
    assert.equal(readNumber(temperature, typed), "Temperature: a number from 0 to 3.");
  }
  assert.equal(readNumber(NUMBERS.n, "1.5"), "Branches: a whole number from 1 to 64.");
});

test("an empty field is right where it has a meaning", () => {
  assert.equal(readNumber(NUMBERS.seed, " "), null);
  assert.equal(readNumber(NUMBERS.seed, "x"), "Seed: a whole number from 0 to 4294967294, or empty: random.");
});
