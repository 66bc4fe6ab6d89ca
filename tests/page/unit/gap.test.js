/** The place in a text where cards go, and what joins them to the words on both sides. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { beginningOf, leadingTo, withGap } from "../../../srb/page/behind.js";
import { between, gapAt } from "../../../srb/page/desk/gap.js";

/** A text with a caret, and where cards go there: their place is the first |, what stays behind them begins at the second. */
const PLACES = [
  ["behind a sentence", "The lake.^ She turned.", "The lake.|| She turned."],
  ["behind the space after it", "The lake. ^She turned.", "The lake.|| She turned."],
  ["in a word", "The la^ke froze.", "The lake|| froze."],
  ["before a word", "The ^lake froze.", "The|| lake froze."],
  ["at a paragraph's beginning", "The lake.\n\n^She turned.", "The lake.\n\n||She turned."],
  ["at a paragraph's end", "The lake.^\n\nShe turned.", "The lake.||\n\nShe turned."],
  ["in an empty paragraph", "The lake.\n\n^\n\nShe turned.", "The lake.\n\n||\n\nShe turned."],
  ["at the beginning", "^The lake.", "||The lake."],
  ["at the end", "The lake.^", "The lake.||"],
  ["before blanks at the end", "The lake.^ \n", "The lake. \n||"],
  ["at the end, behind blanks", "The lake.  ^", "The lake.|  |"],
  ["in the last word", "The la^ke", "The lake||"],
  ["in a word with an apostrophe", "She did^n't turn.", "She didn't|| turn."],
];

for (const [what, marked, wanted] of PLACES)
  test(`a round at a caret ${what}`, () => {
    const text = marked.replace("^", "");
    const { at, until } = gapAt(text, marked.indexOf("^"));
    assert.equal(`${text.slice(0, at)}|${text.slice(at, until)}|${text.slice(until)}`, wanted);
  });

const JOINS = [
  ["a word", "The lake.", " It froze.", "She turned.", " "],
  ["a quotation", "The lake.", " It froze.", "“Go,” she said.", " "],
  ["a space", "The lake.", " It froze.", " She turned.", ""],
  ["a paragraph", "The lake.", " It froze.", "\n\nShe turned.", ""],
  ["the beginning of a paragraph", "The lake.\n\n", "It froze.", "She turned.", "\n\n"],
  ["a mark", "The lake", " froze", ", and she turned.", ""],
  ["nothing", "The lake.", " It froze.", "", ""],
  ["a word, by a card that ends its line", "The lake.", " It froze.\n", "She turned.", ""],
];

for (const [what, before, card, behind, gap] of JOINS)
  test(`a card joins ${what} behind it`, () => assert.equal(between(before, card, behind), gap));

test("as much of what stands behind is sent as has room, in whole sentences or words", () => {
  assert.equal(beginningOf(" She turned. The lake froze.", 4000), " She turned. The lake froze.");
  assert.equal(beginningOf(" She turned. The lake froze.", 80), " She turned.");
  assert.equal(beginningOf(" She turned and the lake froze.", 80), " She turned and the");
  assert.equal(beginningOf(" She turned.", 0), "");
  assert.ok(beginningOf("word ".repeat(9999), 1e6).length <= 2000);
});

test("a model that fills gaps gets the text on both sides in its own order", () => {
  const fill = { prefix: "<p>", suffix: "<s>", middle: "<m>", suffix_first: false };
  assert.equal(withGap(fill, "a", " b"), "<p>a<s> b<m>");
  assert.equal(withGap({ ...fill, suffix_first: true }, "a", " b"), "<s> b<p>a<m>");
  assert.equal(withGap(null, "a", " b"), "a");
  assert.equal(withGap(fill, "a", " \n"), "a");
});

test("an instruction says what stands behind, word for word", () => {
  assert.match(leadingTo("Go on.", " She $& turned. "), /^Go on\.\n\n.*:\n\nShe \$& turned\.$/s);
  assert.equal(leadingTo("Go on.", " "), "Go on.");
});
