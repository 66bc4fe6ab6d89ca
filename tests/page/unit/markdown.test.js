// The signs of Markdown in prose: which are read as emphasis, headings and breaks, and which are words. Rows with a number are
// examples of CommonMark 0.31.2.

import assert from "node:assert/strict";
import { test } from "node:test";
import { titleOf } from "../../../srb/page/keep/describe.js";
import { LONGEST, readLine, runsOf, wordsOf } from "../../../srb/page/markdown.js";

/** @param {string} text */
const shown = (text) =>
  runsOf(text)
    .map(({ text: words, em, strong }) => {
      const inner = em ? `<i>${words}</i>` : words;
      return strong ? `<b>${inner}</b>` : inner;
    })
    .join("");

const ID = "0".repeat(32);

/** @type {[string, string][]} */
const EMPHASIS = [
  ["She said *never*.", "She said <i>never</i>."],
  ["She said **always**.", "She said <b>always</b>."],
  ["She said ***both***.", "She said <b><i>both</i></b>."],
  ["_So_ she said, and __so__.", "<i>So</i> she said, and <b>so</b>."],
  ["*Two* in *one* line", "<i>Two</i> in <i>one</i> line"],
  ["**bold with *both* inside**", "<b>bold with </b><b><i>both</i></b><b> inside</b>"],
  ["*italics with **both** inside*", "<i>italics with </i><b><i>both</i></b><i> inside</i>"],
  ["“*Never*,” she said.", "“<i>Never</i>,” she said."],
  ["*“Never,”* she said.", "<i>“Never,”</i> she said."],
  ["*Wait*—what?", "<i>Wait</i>—what?"],
  ["un*believ*able", "un<i>believ</i>able"], // a star inside a word is one
  ["*never *said", "*never *said"], // nothing closes behind a space
  ["* never*", "* never*"], // nothing opens before a space
  ["2 * 3 * 4", "2 * 3 * 4"],
  ["a * alone", "a * alone"],
  ["* a line that begins with a star", "* a line that begins with a star"],
  ["* a line that begins with a star, and has *one*", "* a line that begins with a star, and has <i>one</i>"],
  ["*an opening without an end", "*an opening without an end"],
  ["an end without an opening*", "an end without an opening*"],
  ["snake_case_name and an_other", "snake_case_name and an_other"], // an underscore inside a word is a letter
  ["_snake_case_", "<i>snake_case</i>"],
  ["a _word_, b", "a <i>word</i>, b"],
  ["_one*", "_one*"], // another sign does not close
  ["*_one_*", "<i>one</i>"],
  ["\\*not\\* so", "*not* so"],
  ["\\*not* so", "*not* so"],
  ["*not\\* so*", "<i>not* so</i>"],
  ["\\_not_ so", "_not_ so"],
  ["C:\\new \\ folder", "C:\\new \\ folder"], // other backslashes are words
  ["****", "****"],
  ["a **** b", "a **** b"],
  ["*-*", "<i>-</i>"],
  ["*🌕*", "<i>🌕</i>"],
  ["🌕*a*", "🌕<i>a</i>"],
  ["*Grüße*, *Ελλάδα*, *你好*", "<i>Grüße</i>, <i>Ελλάδα</i>, <i>你好</i>"],
  [`*a* ![my_*pic*_1](srb:${ID}) b*`, `<i>a</i> ![my_*pic*_1](srb:${ID}) b*`], // a marker is one thing
  [`*a ![my*pic](srb:${ID}) b*`, `<i>a ![my*pic](srb:${ID}) b</i>`],
  ['a*"foo"*', 'a*"foo"*'], // 352
  ["foo*bar*", "foo<i>bar</i>"], // 354
  ["_(_foo_)_", "<i>(foo)</i>"], // 374
  ["foo-_(bar)_", "foo-<i>(bar)</i>"], // 363
  ["*foo*bar", "<i>foo</i>bar"], // 371
  ["_foo_bar", "_foo_bar"], // 375
  ["*foo **bar** baz*", "<i>foo </i><b><i>bar</i></b><i> baz</i>"], // 411
  ["*foo**bar**baz*", "<i>foo</i><b><i>bar</i></b><i>baz</i>"], // 412
  ["*foo**bar*", "<i>foo**bar</i>"], // 413
  ["***foo** bar*", "<b><i>foo</i></b><i> bar</i>"], // 414
  ["*foo **bar***", "<i>foo </i><b><i>bar</i></b>"], // 415
  ["foo***bar***baz", "foo<b><i>bar</i></b>baz"], // 417
  ["foo******bar*********baz", "foo<b>bar</b>***baz"], // 418
  ["**foo*", "*<i>foo</i>"], // 442
  ["*foo**", "<i>foo</i>*"], // 443
  ["*foo _bar* baz_", "<i>foo _bar</i> baz_"], // 469
];

for (const [text, expected] of EMPHASIS)
  test(`emphasis: ${text}`, () => {
    assert.equal(shown(text), expected);
    assert.equal(readLine(text).kind, "text");
  });

/** @type {[string, number, string][]} */
const HEADINGS = [
  ["# The Salt Road", 1, "The Salt Road"],
  ["## Chapter One", 2, "Chapter One"],
  ["###### six", 6, "six"],
  ["   # indented", 1, "indented"],
  ["#\ttab", 1, "tab"],
  ["## closed ##", 2, "closed"],
  ["## closed ##  ", 2, "closed"],
  ["## C#", 2, "C#"],
  ["## a # b", 2, "a # b"],
  ["## The *Salt* Road", 2, "The <i>Salt</i> Road"],
  ["####### seven", 0, "####### seven"],
  ["#hashtag", 0, "#hashtag"],
  ["    # too far in", 0, "    # too far in"],
  ["a # b", 0, "a # b"],
  ["\\# no", 0, "# no"],
  ["  \\## no", 0, "  ## no"],
  ["\\#no", 0, "\\#no"],
  ["#", 0, "#"],
  ["# ", 0, "# "],
  ["## ##", 0, "## ##"],
];

for (const [text, level, words] of HEADINGS)
  test(`headings: ${JSON.stringify(text)}`, () => {
    const line = readLine(text);
    assert.deepEqual([line.level, line.kind], [level, level ? "heading" : "text"]);
    assert.equal(shown(text), words);
  });

const BREAKS = ["***", "* * *", "---", "- - -", "___", "*****", "  ***", "* *\t*  ", "-----", "** **", "* ** *"];
const NO_BREAKS = [
  "**",
  "* *",
  "--",
  "—",
  "****",
  "**-",
  "*** a",
  "a ***",
  "    ***",
  "",
  " ",
  "...",
  "---No, he said.",
];

for (const text of BREAKS)
  test(`breaks: ${JSON.stringify(text)}`, () => {
    assert.deepEqual([readLine(text).kind, wordsOf(text)], ["break", ""]);
    assert.deepEqual(readLine(text).signs, [{ from: 0, to: text.length }]);
  });

for (const text of NO_BREAKS)
  test(`no breaks: ${JSON.stringify(text)}`, () => {
    assert.deepEqual([readLine(text).kind, wordsOf(text)], ["text", text]);
  });

test("signs and words make up the line", () => {
  for (const [text] of EMPHASIS) {
    const { signs } = readLine(text);
    let words = "";
    let at = 0;
    for (const { from, to } of signs) {
      assert.ok(from >= at && to > from, `${text}: signs in order`);
      words += text.slice(at, from);
      at = to;
    }
    assert.equal(words + text.slice(at), wordsOf(text));
  }
});

test("a line costs what it is long, whatever signs it has", () => {
  for (const part of ["*", "* ", "*a ", "a* ", "*a*", "**a _", "# ", "\\*", "_a", "*a_ "]) {
    const text = part.repeat(Math.floor(LONGEST / part.length));
    assert.ok(wordsOf(text).length <= text.length); // a cost by the square would take minutes
  }
  assert.deepEqual(readLine(`*a*${"a".repeat(LONGEST)}`).spans, []);
});

test("a story that has no title is called by its first heading, or its first words, without signs", () => {
  assert.equal(titleOf("\n## The *Salt* Road\n\nFog came first, and then the boat."), "The Salt Road");
  assert.equal(titleOf("*Fog* came **first**, 2 * 3 and then"), "Fog came first, 2 * 3");
  assert.equal(titleOf("#hashtag\nFog"), "#hashtag Fog");
  assert.equal(titleOf("A quote.\n\n## The Salt Road\n\nFog"), "A quote.");
  assert.equal(titleOf("# \nFog"), "# Fog");
  assert.equal(titleOf(""), "");
});
