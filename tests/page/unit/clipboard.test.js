// What is copied as plain text and as HTML, and what pasted HTML becomes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { formsOf, markdownOf } from "../../../srb/page/parts/clipboard.js";

const ALL = "## The *Lamp*\n\nShe said *never*,\n**always**.\n\n***\n\n<b> & \\*so\\*";

for (const [name, text, from, to, plain, html] of [
  ["words within a line", "It was *dark* and", 3, 15, "was dark a", "was <em>dark</em> a"],
  ["a part of what is emphasised", "It was *so dark* now", 11, 13, "da", "<em>da</em>"],
  ["signs of both", "***x*** **y**", 0, 13, "x y", "<strong><em>x</em></strong> <strong>y</strong>"],
  ["two lines of one paragraph", "a\n*b*", 0, 5, "a\nb", "<p>a<br><em>b</em></p>"],
  [
    "the end of one paragraph and the beginning of the next",
    "One *two*.\n\nThree",
    4,
    15,
    "two.\n\nThr",
    "<p><em>two</em>.</p><p>Thr</p>",
  ],
  [
    "all",
    ALL,
    0,
    ALL.length,
    "The Lamp\n\nShe said never,\nalways.\n\n***\n\n<b> & *so*",
    "<h2>The <em>Lamp</em></h2><p>She said <em>never</em>,<br><strong>always</strong>.</p><hr><p>&#60;b&#62; &#38; *so*</p>",
  ],
])
  test(`copied: ${name}`, () => {
    const { "text/plain": words, "text/html": page, ...rest } = formsOf(text, from, to);
    assert.deepEqual([words, page], [plain, html]);
    assert.deepEqual(Object.values(rest), [text.slice(from, to)]);
  });

for (const [name, html, text] of [
  ["italics", "<meta charset='utf-8'><p>It was <i>dark</i>.</p>", "It was *dark*."],
  ["a heading and a break", "<h1>One</h1><p>a</p><hr><p>b</p>", "# One\n\na\n\n***\n\nb"],
  ["words alone", "<pre>def f():\n  pass</pre>", null],
  ["nothing", "<img src=x>", null],
  ["signs that are words", "<p>*so* and <b>x</b></p>", "\\*so\\* and **x**"],
  ["a script", "<script>alert(1)</script><i>x</i>", "*x*"],
])
  test(`pasted: ${name}`, async () => assert.equal(await markdownOf(html), text));

test("copied HTML that is pasted is the same text", async () => {
  assert.equal(await markdownOf(formsOf(ALL, 0, ALL.length)["text/html"]), ALL);
});
