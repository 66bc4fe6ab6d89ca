// Words on a card about its branch beside the others: that they have the same text, and how likely it is among them. Pure.

import { msg } from "../../languages.js";

/** @typedef {import("../../round.js").Round} Round */
/** @typedef {import("../../round.js").Slot} Slot */

const STEP_WORDS = ["", msg`expected`, msg`rather expected`, msg`in between`, msg`rather unlikely`, msg`unlikely`];

const ALIKE = 0.02; // mean log-probabilities that differ by less are the same

/** @param {Round} round @param {Slot} slot @param {number[][]} groups  slot numbers that have the same text */
export function sameText(round, slot, groups) {
  if (slot.state !== "ended") return { same: "", sameWords: "" };
  const group = groups.find((each) => each.includes(slot.number));
  const first = slot.foldedUnder ?? group?.[0];
  if (!group || first === undefined) return { same: "", sameWords: "" };
  if (first === slot.number)
    return { same: `×${group.length}`, sameWords: msg`${group.length} branches have this text.` };
  const label = round.order.indexOf(first) + 1;
  const words =
    slot.foldedUnder === null ? msg`Same text as branch ${label}.` : msg`Folded: same text as branch ${label}.`;
  return { same: `= ${label}`, sameWords: words };
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
