import assert from "node:assert/strict";
import { test } from "node:test";
import { markFor } from "../../../srb/page/quotes.js";

/** Type a text, each straight mark as it would become. */
function typed(text, language) {
  let shown = "";
  for (const sign of text) shown += (sign === '"' || sign === "'" ? markFor(shown, sign, language) : "") || sign;
  return shown;
}

const SAID = `"Go," she said. "It isn't 'late', is it?"`;

test("straight marks become those of the story's language", () => {
  assert.equal(typed(SAID, "en-US"), "“Go,” she said. “It isn’t ‘late’, is it?”");
  assert.equal(typed(`"Geh", sagte sie. "Wie geht's 'heute'?"`, "de"), "„Geh“, sagte sie. „Wie geht’s ‚heute‘?“");
  assert.equal(typed(`"Va", dit-elle. L'an.`, "fr"), "«\u202fVa\u202f», dit-elle. L’an.");
  assert.equal(typed(`"Geh", sagte sie.`, "de-CH"), "«Geh», sagte sie.");
  assert.equal(typed(`"Idź"`, "pl"), "„Idź”");
  assert.equal(typed(SAID, "tlh"), typed(SAID, "en"), "a language without marks here has English ones");
});

test("a mark opens behind a blank, a bracket and signs of emphasis, and closes behind words, points and a broken-off dash", () => {
  assert.equal(typed(`("so") *"so"* she—"But I—"`, "en"), "(“so”) *“so”* she—“But I—”");
  assert.equal(typed(`One.\n\n"Two."`, "en"), "One.\n\n“Two.”");
  assert.equal(typed(`the boys' lamp`, "en"), "the boys’ lamp");
});

test("marks in code stay as they are typed", () => {
  assert.equal(typed('`say "so"` and "so"', "en"), '`say "so"` and “so”');
  assert.equal(typed('```\nsay("so")\n```\n"so"', "en"), '```\nsay("so")\n```\n“so”');
});
