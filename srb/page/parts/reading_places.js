// Where a writer was in each story: caret and scroll, kept in this browser.

const KEY = "srb.places";
const MOST = 50; // stories whose places are kept, the latest ones

/** @typedef {{caret: number, top: number, into?: number}} ReadingPlace   `top`: the text's offset at the top edge of the view;
 *   `into`: px of its line that lie above that edge */

/** @returns {Record<string, ReadingPlace>} */
function places() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof kept === "object" && kept !== null ? kept : {};
  } catch {
    return {}; // unreadable, or storage is switched off: the caret then starts at the end
  }
}

/**
 * Return the place in a story, or null if none is known.
 *
 * @param {string} story - its id
 * @returns {ReadingPlace | null}
 */
export function readingPlace(story) {
  const place = Object.entries(places()).find(([id]) => id === story)?.[1];
  return Number.isInteger(place?.caret) && Number.isInteger(place?.top) ? /** @type {ReadingPlace} */ (place) : null;
}

/**
 * Keep the place in a story.
 *
 * @param {string} story - its id
 * @param {ReadingPlace} place
 */
export function keepReadingPlace(story, place) {
  const others = Object.entries(places()).filter(([id]) => id !== story);
  const kept = [...others, /** @type {const} */ ([story, place])].slice(-MOST);
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(kept)));
  } catch {
    // storage is full or switched off: nothing is lost but the place
  }
}
