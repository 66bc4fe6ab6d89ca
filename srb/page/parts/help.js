// <srb-help>: the keys, and how a story is written with them.

import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { CONTROL, keyName } from "./key_names.js";
import { DialogPart } from "./part.js";

/** What fingers do, on devices without a pointer. @type {[string, string][]} */
const FINGERS = [
  [msg`Tap`, msg`Open a branch; then on a word: mark it, and what is taken ends there`],
  [msg`Swipe`, msg`To the right: the branch becomes part of the text, and the next round begins`],
  [msg`Swipe`, msg`To the left: set it aside`],
  ["⋯", msg`All that can be done with a branch`],
  ["⇅", msg`More or less room for the branches`],
];

/** Keys and their meaning; keys of one line have spaces between them. @type {readonly [title: string, keys: [string, string][]][]} */
const KEYS = [
  [
    msg`Anywhere`,
    [
      [`${CONTROL}+Enter`, msg`Continue: the model goes on in n branches, where the caret is`],
      [`${CONTROL}+Shift+Enter`, msg`Continue at the text’s end`],
      [`${CONTROL}+Enter`, msg`With words selected: write them anew, in n ways`],
      [`${CONTROL}+Shift+D`, msg`Say what happens in each card, or have it dealt; Enter there: deal, then write`],
      [`${CONTROL}+Shift+D`, msg`With words selected: say what becomes of them in each card`],
      ["Esc", msg`Stop all branches and keep their texts; once more: back to the manuscript`],
      [`${CONTROL}+Z`, msg`Undo typing, taking, setting aside, grouping and naming, in their order`],
      [`${CONTROL}+Shift+Z`, msg`Redo`],
      [`${CONTROL}+K`, msg`All actions in one list; there each can get a key of one’s own`],
      ["Alt+F", msg`Focus: the text alone; once more, everything again`],
      ["F6", msg`The next pane: manuscript, branches, outline, header, memory and note`],
      ["Alt+M", msg`Memory and note, beside the text; Esc there: back to the text`],
      ["Alt+C", msg`The chapters: Enter goes to one, Alt+↑ ↓ moves it`],
      ["Alt+A", msg`Ask the story: readers answer beside it`],
      [`${CONTROL}+S`, msg`Say whether everything is saved; it is saved without it`],
    ],
  ],
  [
    msg`In the manuscript`,
    [
      [`${CONTROL}+F`, msg`Find and replace`],
      [
        `${CONTROL}+I ${CONTROL}+B`,
        msg`Italics, bold: the selection, the word at the caret, or what is typed next; once more takes it away`,
      ],
      ["Alt+S", msg`Tint the words that the model did not expect, or no more`],
      [
        "Alt+→",
        msg`Show the next card in the text, or in a branch that was taken the next one of its round; Alt+← the one before, Enter takes it`,
      ],
      ["Alt+T", msg`Alternatives of the word at the caret; the one that is chosen begins another version from there`],
      ["1–9", msg`Digits and letters are text here, always`],
    ],
  ],
  [
    msg`In the branches`,
    [
      ["1–9 0", msg`Take this branch and continue`],
      ["Shift+1–9", msg`Take it only`],
      ["← ↑ ↓ →", msg`Move between the branches`],
      ["Enter", msg`Take the branch in focus, up to its mark`],
      ["Space", msg`Show it in the text while held, or until pressed again; ← → go to the next one, Enter takes it`],
      [`${CONTROL}+← →`, msg`Move the mark by a word; a click on a word sets it`],
      [".", msg`Move the mark to the sentence's end`],
      ["Shift+→", msg`Begin one word later`],
      ["Shift+←", msg`Begin one word earlier`],
      ["S", msg`Put it where the caret is, and keep the cards`],
      ["X", msg`Set aside: end this branch`],
      ["R", msg`Try others in the empty places`],
      ["E", msg`Let a branch go on`],
      ["V", msg`Vary: other branches from the mark on`],
      ["G", msg`As many branches more`],
      ["D", msg`Keep this card, and deal the others new directions`],
      ["T", msg`Alternatives of the word at the mark`],
      ["O", msg`Sort: the likeliest first, repeats later`],
      ["L", msg`Show only some of the cards, and how you choose`],
      ["P", msg`Pin it above the next rounds, or take it off`],
      ["F", msg`Group equal branches`],
      ["C", msg`Compare this card with others, side by side`],
      ["B", msg`Star`],
      ["N", msg`Note`],
      ["I", msg`Back to the text`],
      ["PageUp PageDown", msg`Of more than ten branches: other ten digits`],
    ],
  ],
  [
    msg`In the outline`,
    [
      ["↑ ↓", msg`Move through the rows; Home, End, PageUp and PageDown too`],
      ["→", msg`Open the fork, or go on to the next row`],
      ["←", msg`Close the fork, or go to the parent`],
      ["Enter", msg`Make this branch the manuscript`],
      ["Delete", msg`Set aside; once more: take it back`],
      ["B", msg`Star`],
      ["F2", msg`Name`],
      ["N", msg`Note`],
      ["C", msg`Compare with the text`],
    ],
  ],
  [
    msg`In the map`,
    [
      ["← → ↑ ↓", msg`Go along a line, or to the passage above or below; the text shows it`],
      ["Enter", msg`Make this branch the manuscript`],
      ["C", msg`Close what goes on from a passage, or open it again`],
      ["H", msg`Show only what goes on from a passage`],
      ["G", msg`Let its words go on behind another passage: choose that, and press G or Enter`],
      ["B", msg`Star`],
      ["Delete", msg`Set aside; once more: take it back`],
      ["+ - 0", msg`Enlarge, make smaller, show all of it`],
      ["Home", msg`Where the text is`],
    ],
  ],
];

class Help extends DialogPart {
  constructor() {
    super("help");
  }

  render() {
    return html`<dialog class="help" aria-labelledby="help-title" closedby="any">
      ${dialogHead(this, msg`Keys`)}
      <p>
        ${msg`Write, let the model continue, read the branches, take the one you like or its beginning, and write on.`}
        ${msg`Nothing is lost: every branch stays in the outline.`}
      </p>
      <div class="fingers">${group(msg`With a finger`, FINGERS)}</div>
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
      ${keys.map(([names, words]) => html`<div><dt>${names.split(/ (?![→←]$)/).map((name) => html`<kbd>${keyName(name)}</kbd> `)}</dt><dd>${words}</dd></div>`)}
    </dl>
  </section>`;
}

customElements.define("srb-help", Help);
