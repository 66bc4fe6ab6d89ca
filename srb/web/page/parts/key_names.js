// Names of keys, as keyboards of the page's language have them.

import { msg } from "../languages.js";

const NAMES = ["Ctrl", "Shift", "Enter", "Space", "Delete", "PageUp", "PageDown", "Backspace"];
const HERE = msg`Ctrl Shift Enter Space Delete PageUp PageDown Backspace`.split(" ");

/** @param {string} keys as "Ctrl+Enter" */
export function keyName(keys) {
  return keys.replace(/[A-Za-z]+/g, (name) => HERE[NAMES.indexOf(name)] ?? name);
}
