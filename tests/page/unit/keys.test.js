import assert from "node:assert/strict";
import { test } from "node:test";
import { bindKeys } from "../../../srb/page/keys.js";

for (const name of ["HTMLInputElement", "HTMLTextAreaElement"]) globalThis[name] ??= class {};

/** A page whose keys are pressed by `press`, and how often a round began. */
function bound() {
  const asked = { rounds: 0 };
  let listener = /** @type {any} */ (null);
  const page = {
    addEventListener: (_, each) => {
      listener = each;
    },
    removeEventListener() {},
    querySelector: () => null,
  };
  bindKeys(/** @type {any} */ ({ next: () => (asked.rounds += 1) }), /** @type {any} */ (page));
  const press = (more) =>
    listener({
      code: "Enter",
      key: "Enter",
      ctrlKey: true,
      keyCode: 13,
      preventDefault() {},
      stopPropagation() {},
      ...more,
    });
  return { asked, press };
}

test("a key that ends what is composed begins no round, as Safari sends it and as others do", () => {
  const { asked, press } = bound();
  press({ keyCode: 229 });
  press({ keyCode: 229, isComposing: true });
  press({ isComposing: true });
  assert.equal(asked.rounds, 0);
  press({});
  assert.equal(asked.rounds, 1);
});

test("a letter with Ctrl is the letter's, wherever its key is, also beside what the key does with Alt", () => {
  const said = [];
  const desk = /** @type {any} */ (
    new Proxy(
      {},
      {
        get:
          (_, name) =>
          (...given) =>
            said.push([name, ...given]),
      },
    )
  );
  let listener = /** @type {any} */ (null);
  const page = {
    addEventListener: (_, each) => (listener = each),
    removeEventListener() {},
    querySelector: () => null,
  };
  bindKeys(desk, /** @type {any} */ (page));
  const press = (/** @type {object} */ more) =>
    listener({ keyCode: 1, preventDefault() {}, stopPropagation() {}, composedPath: () => [null], ...more });
  press({ code: "KeyS", key: "s", ctrlKey: true });
  press({ code: "KeyS", key: "s", metaKey: true });
  press({ code: "KeyS", key: "s", altKey: true });
  press({ code: "KeyT", key: "y", ctrlKey: true }); // as on a Dvorak keyboard
  press({ code: "KeyC", key: "z", ctrlKey: true });
  press({ code: "KeyC", key: "c", altKey: true });
  press({ code: "KeyA", key: "å", altKey: true }); // as on a Mac
  for (const more of [{ shiftKey: true }, { ctrlKey: true }, { altKey: false }])
    press({ code: "KeyA", key: "a", altKey: true, ...more });
  assert.deepEqual(
    said.map(([name]) => name),
    ["sayWhenSaved", "sayWhenSaved", "switchSurprise", "redo", "undo", "openDialog", "openDialog"],
  );
  assert.deepEqual(said.slice(-2), [
    ["openDialog", "chapters"],
    ["openDialog", "ask"],
  ]);
});
