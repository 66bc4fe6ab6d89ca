// Names of keys, as this machine's keyboard and the page's language have them.

import { msg } from "../languages.js";

const IS_APPLE = /Mac|iP(hone|ad|od)/.test(globalThis.navigator?.platform ?? "");
/** The key that is held for commands, as events name it. */
export const CONTROL = IS_APPLE ? "Meta" : "Ctrl";

const NAMES = ["Ctrl", "Shift", "Enter", "Space", "Delete", "PageUp", "PageDown", "Backspace"];
const HERE = msg`Ctrl Shift Enter Space Delete PageUp PageDown Backspace`.split(" ");
/** @type {Record<string, string>} */
const SIGNS = IS_APPLE ? { Ctrl: "⌃", Alt: "⌥", Meta: "⌘" } : {};

/** @param {string} keys as "Ctrl+Enter" */
export function keyName(keys) {
  return keys.replace(/[A-Za-z]+/g, (name) => SIGNS[name] ?? HERE[NAMES.indexOf(name)] ?? name);
}
