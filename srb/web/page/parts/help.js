// <srb-help>: the keys, and how a story is written with them.

import { html } from "../vendor/lit.js";
import { DialogPart } from "./part.js";

const IS_APPLE = /Mac|iP(hone|ad|od)/.test(navigator.platform);
const CONTROL = IS_APPLE ? "⌘" : "Ctrl";
const ALT = IS_APPLE ? "⌥" : "Alt";

/** What fingers do, on devices without a pointer. @type {[string, string][]} */
const FINGERS = [
  ["Tap", "Open a branch; then on a word: mark it, and what is taken ends there"],
  ["Swipe", "To the right: the branch becomes part of the text, and the next round begins"],
  ["Swipe", "To the left: set it aside"],
  ["⋯", "All that can be done with a branch"],
  ["▴ ▾", "More or less room for the branches"],
];

/** Keys and their meaning; keys of one line have spaces between them. @type {readonly [title: string, keys: [string, string][]][]} */
const KEYS = [
  [
    "Anywhere",
    [
      [`${CONTROL}+Enter`, "Continue: the model goes on in n branches, where the caret is"],
      [`${CONTROL}+Shift+Enter`, "Continue at the text’s end"],
      [`${CONTROL}+Enter`, "With words selected: write them anew, in n ways"],
      ["Esc", "Stop all branches and keep their texts; once more: back to the manuscript"],
      [`${CONTROL}+Z`, "Undo typing, taking, setting aside, grouping and naming, in their order"],
      [`${CONTROL}+Shift+Z`, "Redo"],
      ["F6", "The next pane: manuscript, branches, outline, header, memory and note"],
      [`${ALT}+M`, "Memory and note, beside the text; Esc there: back to the text"],
      [`${ALT}+C`, "The chapters: Enter goes to one, Alt+↑ ↓ moves it"],
      [`${CONTROL}+S`, "Say whether everything is saved; it is saved without it"],
    ],
  ],
  [
    "In the manuscript",
    [
      [`${CONTROL}+F`, "Find and replace"],
      [
        `${CONTROL}+I ${CONTROL}+B`,
        "Italics, bold: the selection, the word at the caret, or what is typed next; once more takes it away",
      ],
      [`${ALT}+T`, "Alternatives of the word at the caret; the one that is chosen begins another version from there"],
      ["1–9", "Digits and letters are text here, always"],
    ],
  ],
  [
    "In the branches",
    [
      ["1–9 0", "Take this branch and continue"],
      ["Shift+1–9", "Take it only"],
      ["← ↑ ↓ →", "Move between the branches"],
      ["Enter", "Take the branch in focus, up to its mark"],
      ["Space", "Read it whole; ← → go to the next one at the same place"],
      [`${CONTROL}+← →`, "Move the mark by a word; a click on a word sets it"],
      [".", "Move the mark to the sentence's end"],
      ["X", "Set aside: end this branch"],
      ["R", "Try others in the empty places"],
      ["E", "Let a branch go on"],
      ["V", "Vary: other branches from the mark on"],
      ["G", "As many branches more"],
      ["T", "Alternatives of the word at the mark"],
      ["P", "Sort: the likeliest first, repeats later"],
      ["F", "Group equal branches"],
      ["B", "Star"],
      ["N", "Note"],
      ["I", "Back to the text"],
      ["PageUp PageDown", "Of more than ten branches: other ten digits"],
    ],
  ],
  [
    "In the outline",
    [
      ["↑ ↓", "Move through the rows; Home, End, PageUp and PageDown too"],
      ["→", "Open the fork, or go on to the next row"],
      ["←", "Close the fork, or go to the parent"],
      ["Enter", "Make this branch the manuscript"],
      ["Delete", "Set aside; once more: take it back"],
      ["B", "Star"],
      ["F2", "Name"],
      ["N", "Note"],
      ["C", "Compare with the text"],
    ],
  ],
];

class Help extends DialogPart {
  constructor() {
    super("help");
  }

  render() {
    return html`<dialog class="help" aria-labelledby="help-title" closedby="any">
      <header>
        <h2 id="help-title">Keys</h2>
        <button class="quiet" aria-label="Close" @click=${() => this.close()}>
          <span aria-hidden="true">×</span>
        </button>
      </header>
      <p>
        Write, let the model continue, read the branches, take the one you like or its beginning, and write on. Nothing
        is lost: every branch stays in the outline.
      </p>
      <div class="fingers">${group("With a finger", FINGERS)}</div>
      <div class="groups">${KEYS.map(([title, keys]) => group(title, keys))}</div>
    </dialog>`;
  }
}

/**
 * @param {string} title
 * @param {[keys: string, words: string][]} keys
 */
function group(title, keys) {
  return html`<section>
    <h3>${title}</h3>
    <dl>
      ${keys.map(([names, words]) => html`<div><dt>${names.split(/ (?![→←]$)/).map((name) => html`<kbd>${name}</kbd> `)}</dt><dd>${words}</dd></div>`)}
    </dl>
  </section>`;
}

customElements.define("srb-help", Help);
