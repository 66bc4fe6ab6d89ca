// Characters that cannot be seen are shown by signs, and every offset stays where it was.

import assert from "node:assert/strict";
import { test } from "node:test";

import { halfWord, hangsOn, leadingSpace, spaced, visible } from "../../../srb/page/visible.js";

test("every unit is shown by one unit, and only those that cannot be seen are replaced", () => {
  for (let code = 0; code < 0x10000; code++) {
    const unit = String.fromCharCode(code);
    const shown = visible(unit);
    assert.equal(shown.length, 1);
    if (shown !== unit) assert.match(unit, /[\p{C}\u2028\u2029]/u, code.toString(16));
  }
});

test("escapes, turns of direction and characters without width have signs", () => {
  assert.equal(visible("a\u001b[1m\u0000\u007f\u0085"), "a␛[1m␀␡␦");
  assert.equal(visible("\u202eabc\u2069\u200b\ufeff\r"), "⇄abc⇄␣␣␍");
});

test("lines, tabs, joined characters and all scripts stay as they are", () => {
  for (const text of ["a\n\tb", "👩\u200d👩\u200d👧 n\u0303", "می\u200cخواهم", "שלום", "漢字 🇩🇪"])
    assert.equal(visible(text), text);
});

test("white space at a beginning is measured, and of nothing else there is no end", () => {
  assert.equal(leadingSpace(" \n a "), 3);
  assert.equal(leadingSpace("a"), 0);
  assert.equal(leadingSpace(" \n"), Number.POSITIVE_INFINITY);
  assert.equal(leadingSpace(""), Number.POSITIVE_INFINITY);
});

test("white space around a token's words has signs, but for the one space before that most have", () => {
  const shown = (text, isAlike) => Object.values(spaced(text, isAlike)).join("|");
  assert.deepEqual(
    [shown(" lamp"), shown("lamp"), shown(" lamp", true), shown(". ")],
    ["|lamp|", "|lamp|", "␣|lamp|", "|.|␣"],
  );
  assert.deepEqual([shown("  a b"), shown("\n\n"), shown(" "), shown("\t")], ["␣␣|a b|", "↵↵||", "␣||", "⇥||"]);
  assert.deepEqual(shown("\u00a0x\n"), "␣|x|↵");
});

test("a word's first half is what a text ends in, and no whole line of a script without spaces", () => {
  const halves = ["thoro", "a thoro", "it's", "naï", "“kn", "room 10", "кото", "a ", "a.", "", "夜の海", "ไทย"].map(
    halfWord,
  );
  assert.deepEqual(halves, ["thoro", "thoro", "it's", "naï", "kn", "10", "кото", "", "", "", "", ""]);
  assert.equal(halfWord("x".repeat(1e6)).length, 40);
  assert.deepEqual(["ugh", " and", ".", "’s", "", "“He"].map(hangsOn), [true, false, false, true, false, false]);
});
