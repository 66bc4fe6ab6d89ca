/** Words that a person has begun to write in a dialog: kept with the story until they are sent; and those that were sent last. */

/** @typedef {import("../desk.js").Desk} Desk */

const SENT = 12; // that are kept

/** @param {Desk} desk @param {string} name @returns {string} "" without one */
export const draftOf = ({ story }, name) => /** @type {string | null} */ (story.meta(`draft.${name}`)) ?? "";

/** @param {Desk} desk @param {string} name @returns {string[]} the last one first */
export const sentOf = ({ story }, name) => /** @type {string[] | null} */ (story.meta(`sent.${name}`)) ?? [];

/** Keep what is written so far; "" ends it. @param {Desk} desk @param {string} name @param {string} text */
export function keepDraft(desk, name, text) {
  if (text === draftOf(desk, name)) return;
  desk.story.setMeta(`draft.${name}`, text || null);
  desk.changed();
}

/** The words of a draft were sent: they are offered from now on. @param {Desk} desk @param {string} name @param {string} text */
export function sendDraft(desk, name, text) {
  keepDraft(desk, name, "");
  if (!text || text === sentOf(desk, name)[0]) return;
  desk.story.setMeta(`sent.${name}`, [text, ...sentOf(desk, name).filter((each) => each !== text)].slice(0, SENT));
  desk.changed();
}

/**
 * The words that come before some words among those that were sent, or after them; behind the last ones is the draft.
 * @param {Desk} desk @param {string} name @param {string} words @param {1 | -1} way 1: to older ones
 */
export function recalled(desk, name, words, way) {
  const sent = sentOf(desk, name);
  const place = sent.indexOf(words) + way;
  return place < 0 ? draftOf(desk, name) : (sent[place] ?? words);
}
