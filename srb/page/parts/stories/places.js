/** Places in all stories and branches that have the words searched for: found by the server, and opened in the manuscript. */

import { msg } from "../../languages.js";
import { html } from "../../vendor/lit.js";

/** @typedef {import("../../desk.js").Desk} Desk */
/** @typedef {{story: string, title: string, node: string, begin: number, end: number, before: string, words: string, after: string}} Place */
/** @typedef {{results: Place[], more: boolean}} Places */

export const FEWEST = 2; // characters: one alone is everywhere
export const MOST = 200; // that the server takes

/**
 * @param {Desk} desk @param {string} words @param {AbortSignal} signal
 * @returns {Promise<Places>}
 */
export function findPlaces(desk, words, signal) {
  return desk.api.get(`v1/srb/stories/~search?q=${encodeURIComponent(words)}`, { signal });
}

/** Open the story, show the branch unless the manuscript has it, and select the words. @param {Desk} desk @param {Place} place */
export async function openPlace(desk, { story, node, begin, end, words }) {
  if (story !== desk.story.id) await desk.openStory(story);
  const isShown = desk.story.pieces(desk.head.node, desk.head.at).some((piece) => piece.node === node);
  if (!isShown || !desk.text.startsWith(words, begin)) await desk.openNode(node);
  desk.manuscript?.select(begin, end, "start");
}

/** The words before what was found, without the half of one that may stand where they are cut. @param {Place} place */
const beginOf = ({ before, begin }) => (begin > before.length ? before.replace(/^\S+\s+/u, "… ") : before);

/** @param {Places} found @param {(place: Place) => void} open */
export function placesFound({ results, more }, open) {
  if (results.length === 0) return html`<p class="empty">${msg`No text has these words.`}</p>`;
  return html`<ul class="places" aria-label=${msg`In the texts`}>${results.map(
    (place) => html`<li><button class="open quiet" @click=${() => open(place)}>
      <span class="facts" dir="auto">${place.title || msg`Untitled`}</span>
      <span class="words" dir="auto">${beginOf(place)}<mark>${place.words}</mark>${place.after}</span>
    </button></li>`,
  )}</ul>
  ${more ? html`<p class="facts">${msg`There may be more places: write more of the words.`}</p>` : null}`;
}
