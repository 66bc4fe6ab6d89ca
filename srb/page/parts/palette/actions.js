/** All that can be done from anywhere on the page, in the words of the palette, and the keys that it has from the beginning. */

import { nextPane } from "../../keys.js";
import { msg } from "../../languages.js";
import { PANE_GESTURES } from "../branches/gestures.js";
import { switchFocus, switchTypewriter } from "../focus_mode.js";
import { CONTROL } from "../key_names.js";
import { readAloud } from "../read_aloud.js";

/** @typedef {import("../../desk.js").Desk} Desk */
/** @typedef {{id: string, label: string, keys: string[], can?: (desk: Desk) => boolean, run: (desk: Desk) => unknown}} Action */

/** @param {string} name */
const dialog = (name) => (/** @type {Desk} */ desk) => desk.openDialog(name);

/** @param {string} pane */
const pane = (pane) => () => /** @type {HTMLElement | null} */ (document.querySelector(pane))?.focus();

/** @type {Action[]} */
const OWN = [
  { id: "continue", label: msg`Continue where the caret is`, keys: [`${CONTROL}+Enter`], run: (desk) => desk.next() },
  {
    id: "continue-end",
    label: msg`Continue at the text’s end`,
    keys: [`${CONTROL}+Shift+Enter`],
    run: (desk) => desk.go({ isAtEnd: true }),
  },
  { id: "task", label: msg`Say what happens next`, keys: [], run: dialog("task") },
  {
    id: "directions",
    label: msg`Say what happens in each card`,
    keys: [`${CONTROL}+Shift+D`],
    run: dialog("directions"),
  },
  {
    id: "beat",
    label: msg`Write the next beat of the plan`,
    keys: [],
    run: (desk) => desk.guard(async () => (await import("../../desk/beats.js")).writeNextBeat(desk)),
  },
  { id: "words", label: msg`Alternatives of the word at the caret`, keys: ["Alt+T"], run: (desk) => desk.askWords() },
  {
    id: "surprise",
    label: msg`Tint the words that the model did not expect`,
    keys: ["Alt+S"],
    run: (desk) => desk.switchSurprise(),
  },
  { id: "undo", label: msg`Undo`, keys: [`${CONTROL}+Z`], run: (desk) => desk.undo() },
  { id: "redo", label: msg`Redo`, keys: [`${CONTROL}+Shift+Z`, `${CONTROL}+Y`], run: (desk) => desk.redo() },
  { id: "back", label: msg`Back to where I was`, keys: [], run: (desk) => desk.goBack() },
  {
    id: "find",
    label: msg`Find and replace in the manuscript`,
    keys: [`${CONTROL}+F`],
    run: (desk) => /** @type {any} */ (desk.manuscript)?.find(),
  },
  { id: "stories", label: msg`Stories, and search in all of them`, keys: [], run: dialog("stories") },
  {
    id: "share",
    label: msg`Share this story with others who have a key`,
    keys: [],
    can: ({ keeper }) => keeper.person !== "",
    run: dialog("share"),
  },
  { id: "new", label: msg`New story`, keys: [], run: (desk) => desk.newStory() },
  {
    id: "chapters",
    label: msg`Chapters: a line for each, and what happens next`,
    keys: ["Alt+C"],
    run: dialog("chapters"),
  },
  { id: "memory", label: msg`Memory and note`, keys: ["Alt+M"], run: (desk) => desk.tell("side", { focus: true }) },
  {
    id: "reading",
    label: msg`What the model reads, and a summary of what it no longer does`,
    keys: [],
    run: dialog("reading"),
  },
  {
    id: "comment",
    label: msg`Comment on the selected words`,
    keys: [],
    run: (desk) => desk.tell("side", { comment: desk.manuscript?.selection }),
  },
  { id: "ask", label: msg`Ask the story`, keys: ["Alt+A"], run: dialog("ask") },
  { id: "goals", label: msg`Goals: words a day, and of a chapter`, keys: [], run: dialog("goals") },
  { id: "overused", label: msg`Words that come too often`, keys: [], run: dialog("overused") },
  { id: "grow", label: msg`Let it grow`, keys: [], run: dialog("grow") },
  { id: "map", label: msg`Map of the story`, keys: [], run: dialog("map") },
  { id: "formats", label: msg`Import and export`, keys: [], run: dialog("formats") },
  { id: "settings", label: msg`Settings`, keys: [], run: dialog("settings") },
  { id: "help", label: msg`Keys and help`, keys: [], run: dialog("help") },
  {
    id: "saved",
    label: msg`Say whether everything is saved`,
    keys: [`${CONTROL}+S`],
    run: (desk) => desk.sayWhenSaved(),
  },
  { id: "focus", label: msg`Focus: show the text alone, or everything again`, keys: ["Alt+F"], run: switchFocus },
  {
    id: "typewriter",
    label: msg`Typewriter: keep the caret’s line in the middle, or not`,
    keys: [],
    run: switchTypewriter,
  },
  {
    id: "read-aloud",
    label: msg`Read aloud: the card, what is selected or the text from the caret on; or stop`,
    keys: [],
    run: readAloud,
  },
  { id: "text", label: msg`Go to the text`, keys: [], run: (desk) => desk.manuscript?.focus() },
  { id: "branches", label: msg`Go to the branches`, keys: [], run: pane("srb-branches") },
  { id: "outline", label: msg`Go to the outline`, keys: [], run: pane("srb-outline") },
  { id: "next-pane", label: msg`Go to the next pane`, keys: ["F6"], run: () => nextPane(document, 1) },
  { id: "previous-pane", label: msg`Go to the pane before`, keys: ["Shift+F6"], run: () => nextPane(document, -1) },
  { id: "palette", label: msg`All actions`, keys: [`${CONTROL}+K`], run: dialog("palette") },
];

/** @type {Action[]} */
const ROUND = Object.entries(PANE_GESTURES).map(([id, { label, can, run }]) => ({
  id: `round-${id}`,
  label,
  keys: [],
  run: () => {
    const branches = /** @type {any} */ (document.querySelector("srb-branches"));
    if (branches?.round && !branches.isCovered && (can === undefined || can(branches, branches.round.slots[0])))
      run(branches, branches.round.slots[0]);
  },
}));

/** @type {Action[]} */
const TAKES = Array.from({ length: 9 }, (_, number) => ({
  id: `take-${number + 1}`,
  label: msg`Take branch ${number + 1}, and go on from there`,
  keys: [],
  run: (desk) => {
    const slot = desk.round?.slots.find((each) => each.number === number);
    if (slot && desk.round?.canTake(slot) && !desk.rounds?.isCovered) desk.take(number, { at: slot.mark, go: true });
  },
}));

export const ACTIONS = [...OWN, ...ROUND, ...TAKES];
