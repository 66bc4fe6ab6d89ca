// The manuscript's editor as CodeMirror's extensions: prose, its keys and its search. Only plain text gets in.

import { msg } from "../languages.js";
import { alike } from "../story/text.js";
import {
  closeSearchPanel,
  dropCursor,
  EditorState,
  EditorView,
  highlightSpecialChars,
  historyKeymap,
  keymap,
  placeholder,
  redo,
  search,
  searchKeymap,
} from "../vendor/codemirror.js";
import { proseKeymap } from "./prose_keymap.js";

const MESSAGES = 96; // px at the lower end, over which messages lie: the line that is written stays above them
const HINT = msg`Write how your story begins …`;

/** Characters that would change how others are shown, in addition to CodeMirror's: embeddings and isolates of direction. */
const DIRECTIONS = /[\u202a-\u202c\u2068]/g;

/** What the editor says, which CodeMirror has in English. They are there from the start: where they change, it forgets all that it has measured. */
const WORDS = {
  "current match": msg`current match`,
  "on line": msg`on line`,
  "replaced match on line $": msg`replaced match on line $`,
  "replaced $ matches": msg`replaced $ matches`,
  "Control character": msg`Control character`,
};

const CONTENT = {
  tabindex: "0", // a text that scrolls has to be reached by keys
  "aria-label": msg`Manuscript`,
  autocapitalize: "sentences",
  autocorrect: "on",
  dir: "auto",
  spellcheck: "true",
  writingsuggestions: "false",
};

/** Of the search's keys those for text; Escape belongs to the page, except in the panel. */
const SEARCH_KEYS = [
  ...searchKeymap.filter((binding) => ["Mod-f", "F3", "Mod-g"].includes(binding.key ?? "")),
  { key: "Escape", run: closeSearchPanel, scope: "search-panel" },
];

/** Return the extensions, without history. */
export function proseEditor() {
  return [
    EditorState.lineSeparator.of("\n"), // any other character is part of a line: offsets are those of the story
    EditorState.phrases.of(WORDS),
    EditorView.lineWrapping,
    EditorView.scrollMargins.of(({ scrollDOM }) => ({ bottom: Math.min(MESSAGES, scrollDOM.clientHeight / 5) })),
    EditorView.perLineTextDirection.of(true),
    EditorView.contentAttributes.of(CONTENT),
    EditorView.clipboardInputFilter.of(plain),
    EditorView.domEventHandlers({ keydown: redoWithCapsLock }),
    highlightSpecialChars({ addSpecialChars: DIRECTIONS }),
    dropCursor(),
    placeholder(HINT),
    search({ top: true }),
    keymap.of([...proseKeymap, ...historyKeymap, ...SEARCH_KEYS]),
  ];
}

/**
 * Shift with caps lock gives a small letter: CodeMirror would take Ctrl+Shift+Z for Ctrl+Z.
 *
 * @param {KeyboardEvent} event
 * @param {EditorView} view
 */
function redoWithCapsLock(event, view) {
  return event.key === "z" && event.shiftKey && (event.ctrlKey || event.metaKey) && !event.altKey && redo(view);
}

/**
 * Return a text with line ends as the story has them, without characters that no text has.
 *
 * @param {string} text
 */
export function plain(text) {
  return text.replace(/\r\n?|[\u2028\u2029]/g, "\n").replace(/[\0\ufeff]/g, "");
}

/**
 * Return the change that makes one text of another, between what they share at both ends; null if they are the same.
 *
 * @param {string} before
 * @param {string} after
 */
export function difference(before, after) {
  if (before === after) {
    return null;
  }
  const [start, end] = alike(before, after);
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}
