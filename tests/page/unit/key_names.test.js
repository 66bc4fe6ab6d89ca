import assert from "node:assert/strict";
import { test } from "node:test";

const PATH = "../../../srb/page/parts/key_names.js";

/** The module as a machine of this kind has it. @param {string} platform */
async function on(platform) {
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { platform, languages: ["en"] } });
  return await import(`${PATH}?${platform}`);
}

test("keys have the names that are on the keyboard", async () => {
  const mac = await on("MacIntel");
  assert.equal(mac.CONTROL, "Meta");
  assert.equal(mac.keyName("Meta+Shift+Enter"), "⌘+Shift+Enter");
  assert.equal(mac.keyName("Alt+C"), "⌥+C");
  assert.equal(mac.keyName("Ctrl+Alt+K"), "⌃+⌥+K");
  const other = await on("Linux x86_64");
  assert.equal(other.CONTROL, "Ctrl");
  assert.equal(other.keyName("Ctrl+Shift+Enter"), "Ctrl+Shift+Enter");
  assert.equal(other.keyName("Alt+C"), "Alt+C");
});
