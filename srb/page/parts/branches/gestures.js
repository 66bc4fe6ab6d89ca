// Gestures: what a person can do with the cards, by key, by button and by tap. Each acts on the desk; the pane shows what follows.

import { ownWord } from "../../compare.js";
import { nextWord, previousWord, sentenceAt, sentenceEnd, trimCut, wordEndAt, wordStartAt } from "../../cuts.js";
import { msg } from "../../languages.js";

/** @typedef {import("../../round.js").Slot} Slot */
/** @typedef {import("../branches.js").Branches} Pane */

/** A gesture on a card, and on the pane as a whole. `can` tells whether it would do something now.
 * @typedef {{label: string, key: string, can?: (pane: Pane, slot: Slot) => boolean, run: (pane: Pane, slot: Slot) => unknown}} Gesture */

/** @type {Record<string, Gesture>} */
export const CARD_GESTURES = {
  take: {
    label: msg`Take, and go on from there`,
    key: "Enter",
    can: (pane, slot) => !!pane.round?.canTake(slot),
    run: (pane, slot) => pane.desk.take(slot.number, { at: slot.mark, go: true }),
  },
  takeWhole: {
    label: msg`Take all of it, past the mark`,
    key: "",
    can: (_pane, slot) => isMarked(slot),
    run: (pane, slot) => {
      begin(pane, slot, 0);
      pane.desk.take(slot.number, { at: slot.text.length, go: true });
    },
  },
  takeOnly: {
    label: msg`Take without going on`,
    key: "Shift+Enter",
    can: (pane, slot) => !!pane.round?.canTake(slot),
    run: (pane, slot) => pane.desk.take(slot.number, { at: slot.mark, go: false }),
  },
  put: {
    label: msg`Put it where the caret is, and keep the cards`,
    key: "S",
    can: (pane, slot) => !!pane.round?.canTake(slot),
    run: (pane, slot) => {
      pane.desk.put(slot.number);
      pane.say(msg`Put where the caret is.`);
    },
  },
  read: { label: msg`Show it in the text, at its place`, key: "Space", run: (pane, slot) => pane.read(slot) },
  extend: {
    label: msg`Go on: let it write more`,
    key: "E",
    can: (pane, slot) => !!pane.round?.canExtend(slot),
    run: (pane, slot) => pane.desk.extend(slot.number),
  },
  vary: {
    label: msg`Vary: more like it, from the mark on`,
    key: "V",
    can: (pane, slot) => !!pane.round?.canVary(slot),
    run: (pane, slot) => pane.desk.vary(slot.number, slot.mark),
  },
  prune: {
    label: msg`Set aside, and stop writing`,
    key: "X",
    can: (pane, slot) => !!pane.round?.canPrune(slot),
    run: (pane, slot) => pane.desk.prune(slot.number),
  },
  alternatives: {
    label: msg`Other words at the mark`,
    key: "T",
    can: (_pane, slot) => slot.text.trim() !== "",
    run: openAlternatives,
  },
  star: { label: msg`Star`, key: "B", can: (_pane, slot) => slot.node !== null, run: star },
  pin: {
    label: msg`Pin it above the next rounds, or take it off`,
    key: "P",
    can: (pane, slot) => slot.text.trim() !== "" && !!pane.desk.rounds,
    run: pin,
  },
  compare: {
    label: msg`Compare: this card beside the next one`,
    key: "C",
    can: (pane) => pane.comparison.isOpen || pane.comparison.cards().length > 1,
    run: (pane, slot) => pane.comparison.toggle(slot.number),
  },
  note: {
    label: msg`Note`,
    key: "N",
    can: (_pane, slot) => slot.node !== null,
    run: (pane, slot) => pane.askNote(slot),
  },
  markNext: {
    label: msg`Mark one word more`,
    key: "Ctrl+→",
    run: (pane, slot) => mark(pane, slot, nextWord(slot.text, slot.mark ?? 0)),
  },
  markPrevious: {
    label: msg`Mark one word less`,
    key: "Ctrl+←",
    run: (pane, slot) => mark(pane, slot, previousWord(slot.text, slot.mark ?? slot.text.length)),
  },
  beginNext: {
    label: msg`Begin one word later`,
    key: "Shift+→",
    run: (pane, slot) => begin(pane, slot, wordAfter(slot.text, nextWord(slot.text, slot.start))),
  },
  beginPrevious: {
    label: msg`Begin one word earlier`,
    key: "Shift+←",
    can: (_pane, slot) => slot.start > 0,
    run: (pane, slot) => begin(pane, slot, wordStartAt(slot.text, previousWord(slot.text, slot.start + 1))),
  },
  markSentence: {
    label: msg`Mark up to the sentence's end`,
    key: ".",
    run: (pane, slot) => mark(pane, slot, sentenceEnd(slot.text, slot.mark ?? 0)),
  },
  unmark: {
    label: msg`Remove the mark`,
    key: "Backspace",
    can: (_pane, slot) => isMarked(slot),
    run: (pane, slot) => {
      begin(pane, slot, 0);
      mark(pane, slot, 0);
    },
  },
  unfold: {
    label: msg`Show what is grouped`,
    key: "",
    can: (pane, slot) => !!pane.round?.behind(slot.number).length,
    run: (pane, slot) => pane.desk.unfold(slot.number),
  },
};

/** @type {Record<string, Gesture>} */
export const PANE_GESTURES = {
  unsort: {
    label: msg`Sort: as they were written`,
    key: "",
    can: (pane) => !pane.isBlind,
    run: ({ desk }) => desk.rounds?.gestures.unsort(),
  },
  sort: {
    label: msg`Sort: the likeliest first, repeats later`,
    key: "O",
    can: (pane) => !pane.isBlind,
    run: sort,
  },
  following: {
    label: msg`Sort: first the cards after which your next words are likeliest`,
    key: "",
    can: (pane) => pane.leadsOn && !pane.isBlind,
    run: sortByFollowing,
  },
  meaning: {
    label: msg`Sort: neighbours mean much the same; and count how many really differ`,
    key: "",
    can: (pane) => pane.tellsMeaning,
    run: sortByMeaning,
  },
  likelihood: {
    label: msg`Bars: how likely each text is`,
    key: "",
    can: (pane) => pane.tellsLikelihood,
    run: ({ desk }) => desk.setSetting("likelihood", !desk.settings.likelihood),
  },
  fold: { label: msg`Group the same texts`, key: "F", run: (pane) => pane.desk.fold() },
  alike: {
    label: msg`Group what means much the same: one card is shown, the others stand behind it`,
    key: "",
    can: (pane) => pane.tellsMeaning,
    run: groupByMeaning,
  },
  refill: {
    label: msg`Try others in empty places`,
    key: "R",
    can: (pane) => !!pane.round?.slots.some((slot) => pane.round?.canRefill(slot)),
    run: (pane) => pane.desk.refill(),
  },
  more: { label: msg`More branches`, key: "G", run: (pane) => pane.desk.more(pane.desk.settings.n) },
  roll: {
    label: msg`Keep this card, and deal the others new directions`,
    key: "D",
    run: (pane, slot) => pane.desk.roll(slot.number),
  },
  directions: {
    label: msg`Show or hide what happens in each card`,
    key: "",
    can: (pane) => !!pane.round?.directions.some(Boolean),
    run: ({ desk }) => desk.setSetting("shows_directions", !desk.settings.shows_directions),
  },
  check: {
    label: msg`Check the cards against the story: which contradict what stands before them`,
    key: "",
    can: (pane) => !!pane.round?.slots.some(({ text }) => text.trim()),
    run: (pane) => pane.desk.openDialog("ask", { isCheck: true }),
  },
  reading: {
    label: msg`What the model read for these cards`,
    key: "",
    run: (pane) => pane.desk.openDialog("reading", { isNext: false }),
  },
  tree: {
    label: msg`Show shared beginnings once`,
    key: "",
    run: (pane) => {
      pane.isTree = !pane.isTree;
    },
  },
  filter: {
    label: msg`Show only some of the cards, and how you choose`,
    key: "L",
    run: (pane) => pane.filters.toggle(),
  },
  stop: {
    label: msg`Stop all, keep the texts`,
    key: "Esc",
    can: (pane) => pane.isRunning,
    run: (pane) => pane.desk.stop(),
  },
};

/** Put a card's mark at a place; at the beginning there is none. @param {Pane} pane @param {Slot} slot @param {number} at */
export function mark(pane, slot, at) {
  const cut = trimCut(slot.text, at);
  pane.desk.setMark(slot.number, cut > 0 && slot.text.slice(0, cut).trim() ? cut : null);
  pane.showMark(slot);
}

/** Whether only a part of a card would be taken. @param {Slot} slot */
export const isMarked = ({ mark, start }) => mark !== null || start > 0;

/** Take a card from a place on. @param {Pane} pane @param {Slot} slot @param {number} at */
export function begin(pane, slot, at) {
  const { number, text } = slot;
  const start = at < text.trimEnd().length ? at : 0;
  pane.desk.setStart(number, start);
  pane.showMark(slot);
}

/** Where the words behind a place begin. @param {string} text @param {number} at */
const wordAfter = (text, at) => at + (/^\s*/u.exec(text.slice(at))?.[0].length ?? 0);

/** Sort the cards. From the first time on the server tells the likelihood of the branches as they are written. @param {Pane} pane */
async function sort(pane) {
  const { desk, round } = pane;
  if (!desk.settings.likelihood) desk.setSetting("likelihood", true);
  if (round?.slots.every((slot) => slot.isLive && slot.meanLogprob === null))
    return desk.notice(msg`No branch has told its likelihood yet. Sort again when one has ended.`);
  await desk.sort();
  pane.say(msg`Sorted: the likeliest first.`);
}

/** @param {Pane} pane */
async function sortByFollowing(pane) {
  pane.say(msg`The model reads what follows after each card.`);
  await pane.desk.rounds?.gestures.sortByFollowing();
  pane.say(msg`Sorted by what follows.`);
}

/** @param {Pane} pane */
async function sortByMeaning(pane) {
  pane.say(msg`The cards are compared by what they mean.`);
  await pane.desk.rounds?.gestures.sortByMeaning();
  pane.say(msg`Sorted by meaning.`);
}

/** @param {Pane} pane */
async function groupByMeaning(pane) {
  pane.say(msg`The cards are compared by what they mean.`);
  await pane.desk.rounds?.gestures.groupByMeaning();
}

/** @param {Pane} pane @param {Slot} slot */
function star(pane, { node }) {
  if (node === null) return;
  const has = pane.desk.story.mark(node).star === true;
  pane.desk.setNodeMark(node, "star", !has);
  pane.say(has ? msg`Star removed.` : msg`Star given.`);
}

/** Pin what a take of a card would bring. @param {Pane} pane @param {Slot} slot */
async function pin(pane, { number }) {
  const isPinned = await pane.desk.rounds?.gestures.pin(number);
  pane.say(isPinned ? msg`Pinned.` : msg`Taken off the board.`);
}

/** Show the rivals of the word before the mark; without a mark, of the first word that is the branch's own. @param {Pane} pane @param {Slot} slot */
function openAlternatives(pane, slot) {
  const { text } = slot;
  const own = ownWord(text, Math.min(pane.sharedLength(slot), text.length)) ?? { to: wordEndAt(text, 0) };
  const end = slot.mark ?? Math.max(own.to, wordEndAt(text, text.search(/\S/u)));
  if (slot.mark === null) mark(pane, slot, end);
  const from = wordStartAt(text, end);
  const at = trimCut(text, from);
  const sentence = sentenceAt(text, from);
  const card = pane.board?.currentCard?.box.getBoundingClientRect() ?? null; // its text may not be drawn yet
  const lines = pane.boxOf(slot, sentence.from, sentence.to) ?? card;
  pane.openAlternatives({ number: slot.number, at, word: text.slice(from, end), lines });
}
