import assert from "node:assert/strict";
import { test } from "node:test";
import { bindKeys } from "../../../srb/page/keys.js";

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
