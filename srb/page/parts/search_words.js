/** The words of the editor's panel for find and replace, which CodeMirror has in English. */

import { msg } from "../languages.js";
import { EditorState } from "../vendor/codemirror.js";

/** An extension of the editor. */
export const searchWords = EditorState.phrases.of({
  Find: msg`Find`,
  Replace: msg`Replace`,
  next: msg`next`,
  previous: msg`previous`,
  all: msg`all`,
  "match case": msg`match case`,
  regexp: msg`regexp`,
  "by word": msg`by word`,
  replace: msg`replace`,
  "replace all": msg`replace all`,
  close: msg`close`,
  "current match": msg`current match`,
  "on line": msg`on line`,
  "replaced match on line $": msg`replaced match on line $`,
  "replaced $ matches": msg`replaced $ matches`,
  "Control character": msg`Control character`,
});
