// The manuscript's keys: each changes exactly the characters that a writer sees change.

import assert from "node:assert/strict";
import { test } from "node:test";

import { proseKeymap } from "../../../srb/page/parts/prose_keymap.js";
import { EditorState } from "../../../srb/page/vendor/codemirror.js";

/** Press a key in a text whose caret or selection is marked by `|`; return the text with the marks after it. */
function press(key, marked) {
  const parts = marked.split("|");
  const doc = parts.join("");
  const selection = {
    anchor: parts[0].length,
    head: parts.length > 2 ? parts[0].length + parts[1].length : parts[0].length,
  };
  let state = EditorState.create({ doc, selection });
  const dispatch = (transaction) => {
    state = transaction.state;
  };
  const binding = proseKeymap.find((each) => each.key === key);
  binding.run({
    get state() {
      return state;
    },
    dispatch,
  });
  const { from, to } = state.selection.main;
  const text = state.doc.toString();
  return from === to
    ? `${text.slice(0, from)}|${text.slice(from)}`
    : `${text.slice(0, from)}|${text.slice(from, to)}|${text.slice(to)}`;
}

test("Enter inserts a line end and drops no space", () => {
  assert.equal(press("Enter", "one| two"), "one\n| two");
  assert.equal(press("Enter", "  one|"), "  one\n|");
  assert.equal(press("Enter", "(|)"), "(\n|)");
  assert.equal(press("Enter", "one| two|"), "one\n|");
});

test("select all selects the whole text", () => {
  assert.equal(press("Mod-a", "one\ntw|o"), "|one\ntwo|");
});

test("no two bindings are for one key", () => {
  for (const system of ["key", "mac"]) {
    const keys = proseKeymap.map((each) => each[system] ?? (system === "mac" ? each.key : undefined)).filter(Boolean);
    assert.deepEqual(keys, [...new Set(keys)]);
  }
});

test("every binding has a command", () => {
  for (const binding of proseKeymap) {
    assert.equal(typeof binding.run, "function", binding.key ?? binding.mac);
  }
});
