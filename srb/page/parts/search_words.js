/** What the editor says of places that are found and replaced, which CodeMirror has in English. */

import { msg } from "../languages.js";
import { EditorState } from "../vendor/codemirror.js";

/** An extension of the editor. */
export const searchWords = EditorState.phrases.of({
  "current match": msg`current match`,
  "on line": msg`on line`,
  "replaced match on line $": msg`replaced match on line $`,
  "replaced $ matches": msg`replaced $ matches`,
  "Control character": msg`Control character`,
});
