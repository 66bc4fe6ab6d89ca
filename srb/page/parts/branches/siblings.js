// Words on a card about its branch beside the others: that they have the same text, and how likely it is among them. Pure.

import { msg } from "../../languages.js";

/** @typedef {import("../../round.js").Round} Round */
/** @typedef {import("../../round.js").Slot} Slot */

const STEP_WORDS = ["", msg`expected`, msg`rather expected`, msg`in between`, msg`rather unlikely`, msg`unlikely`];

const ALIKE = 0.02; // mean log-probabilities that differ by less are the same

/** @param {Round} round @param {Slot} slot @param {number[][]} groups  slot numbers that have the same text */
export function sameText(round, slot, groups) {
  if (slot.state !== "ended") return { same: "", sameWords: "" };
  const { shown } = round;
  const group = groups.find((each) => each.includes(slot.number));
  const first = group?.find((number) => shown.includes(number));
  if (!group || first === undefined) return { same: "", sameWords: "" };
  const same = round.behind(first).length ? "" : `×${group.length}`; // the button says how many
  if (first === slot.number) return { same, sameWords: msg`${group.length} branches have this text.` };
  const label = shown.indexOf(first) + 1;
  return { same: `= ${label}`, sameWords: msg`Same text as branch ${label}.` };
}

/** The button that shows the cards behind one; null if there are none. @param {Round} round @param {Slot} slot */
export function behindOffer(round, slot) {
  const behind = round.behind(slot.number);
  if (!behind.length) return null;
  const isAlike = behind.some((each) => round.isBehindAnother(each));
  const label = isAlike ? msg`Show ${behind.length} more` : msg`Show ${behind.length} equal`;
  return { name: "unfold", label };
}

/** How unlikely a text is beside its siblings, as far as that is known; nothing if nobody wants to see it.
 * @param {Round} round @param {Slot} slot @param {boolean} isWanted */
export function likelihoodOf(round, slot, isWanted) {
  const step = isWanted ? stepOf(round, slot) : null;
  return { step, likelihood: step === null ? "" : msg`Beside the others: ${STEP_WORDS[step]}.` };
}

/** @param {Round} round @param {Slot} slot @returns {number | null} 1 to 5, the likeliest first */
function stepOf(round, slot) {
  const own = slot.meanLogprob;
  const all = round.slots.map((each) => each.meanLogprob).filter((value) => value !== null);
  if (own === null || all.length < 2) return null;
  const [best, worst] = [Math.max(...all), Math.min(...all)];
  return best - worst < ALIKE ? 3 : 1 + Math.min(4, Math.floor((5 * (best - own)) / (best - worst)));
}
