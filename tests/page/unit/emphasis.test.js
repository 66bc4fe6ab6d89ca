// Emphasis put on and taken off: only signs come and go, and what is written is read again as it was meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { changed, emphasised, isEmphasised, wordAround } from "../../../srb/page/emphasis.js";
import { BITS, readLine, stylesOf, wordsOf } from "../../../srb/page/markdown.js";
import { Random } from "./random.js";

/**
 * Toggle the part between « and ».
 * @param {string} marked @param {"em" | "strong"} kind
 */
function toggled(marked, kind) {
  const from = marked.indexOf("«");
  const part = { from, to: marked.indexOf("»") - 1 };
  const text = marked.replace(/[«»]/g, "");
  const changes = emphasised(text, part, kind, !isEmphasised(text, part, kind));
  return changes && changed(text, changes);
}

/** @type {["em" | "strong", string, string | null][]} */
const TOGGLED = [
  ["em", "She said «never».", "She said *never*."],
  ["strong", "She said «never».", "She said **never**."],
  ["em", "She said *«never»*.", "She said never."],
  ["em", "She said «*never*».", "She said never."],
  ["em", "She said *«ne»ver*.", "She said ne*ver*."],
  ["em", "She said *ne«ver»*.", "She said *ne*ver."],
  ["em", "*one «two» three*", "*one* two *three*"],
  ["em", "*one* «two» three", "*one* *two* three"],
  ["em", "*one*«two» three", "*onetwo* three"],
  ["em", "«*one* two» three", "*one two* three"],
  ["em", "*o«ne* two» three", "*one two* three"],
  ["em", "« one »", " *one* "],
  ["em", "_«one»_", "one"],
  ["em", "_one «two»_", "*one* two"],
  ["em", "__«one»__", "***one***"],
  ["strong", "*«one»*", "***one***"],
  ["em", "***«one»***", "**one**"],
  ["strong", "***«one»***", "*one*"],
  ["em", "**one «two» three**", "**one *two* three**"],
  ["strong", "**one** «*two*»", "**one** ***two***"],
  ["em", "**one «two** three»", "**one *two*** *three*"],
  ["em", "## «Chapter» One", "## *Chapter* One"],
  ["em", "«## Chapter One»", "## *Chapter One*"],
  ["em", "2 * 3 «is» 6", "2 * 3 *is* 6"],
  ["em", "«a \\* b»", "*a \\* b*"],
  ["em", "_other_ and «this»", "_other_ and *this*"], // what is not touched keeps its signs
  ["em", 'a«"b"»c', null], // Markdown has no signs for it
];

for (const [kind, marked, expected] of TOGGLED)
  test(`${kind} of ${marked}`, () => assert.equal(toggled(marked, kind), expected));

test("a part without words has no emphasis to take or give", () => {
  assert.equal(isEmphasised("a  b", { from: 1, to: 3 }, "em"), null);
  assert.equal(isEmphasised("", { from: 0, to: 0 }, "em"), null);
  assert.equal(isEmphasised("***", { from: 0, to: 3 }, "em"), null);
});

test("a word is found around a place inside of it", () => {
  assert.deepEqual(wordAround("a never, b", 4), { from: 2, to: 7 });
  assert.deepEqual(wordAround("don't", 3), { from: 0, to: 5 });
  for (const at of [2, 7, 8, 0, 10]) assert.equal(wordAround("a never, b", at), null);
});

/** The words of a line, unit by unit. @param {string} text */
function units(text) {
  const line = readLine(text);
  const styles = stylesOf(text, line);
  return Array.from(text, (_, at) => at)
    .filter((at) => /\S/.test(text[at]) && !line.signs.some(({ from, to }) => from <= at && at < to))
    .map((at) => ({ at, letter: text[at], style: styles[at] }));
}

test("whatever a line has: its words stay, the part has the emphasis, and nothing else changes", () => {
  const dice = new Random(7);
  const pieces = ["*", "**", "_", " ", "a", "bc", "é", "“", ".", "never", "# ", "\\*", "\t", "-"];
  let done = 0;
  for (let round = 0; round < 4000; round += 1) {
    const text = Array.from({ length: 1 + dice.below(14) }, () => dice.choice(pieces)).join("");
    const [from = 0, to = 0] = [dice.below(text.length + 1), dice.below(text.length + 1)].sort((a, b) => a - b);
    const kind = dice.choice(/** @type {const} */ (["em", "strong"]));
    const is = isEmphasised(text, { from, to }, kind);
    const changes = is === null ? null : emphasised(text, { from, to }, kind, !is);
    if (changes === null) continue;
    done += 1;
    const after = changed(text, changes);
    const wanted = units(text).map(({ at, letter, style }) => ({
      letter,
      style: at < from || at >= to ? style : is ? style & ~BITS[kind] : style | BITS[kind],
    }));
    const got = units(after).map(({ letter, style }) => ({ letter, style }));
    assert.deepEqual(got, wanted, `${JSON.stringify(text)} from ${from} to ${to} became ${JSON.stringify(after)}`);
    assert.equal(wordsOf(after), wordsOf(text));
    assert.equal(readLine(after).kind, readLine(text).kind);
    for (const change of changes) assert.match(text.slice(change.from, change.to) + change.insert, /^[*_]*$/);
  }
  assert.ok(done > 1000, `${done} of 4000 were possible`);
});
