// The place of a list that belongs to lines of text: it never lies over them.

/** @typedef {{left: number, top: number, right: number, bottom: number}} Lines */
/** @typedef {{width: number, height: number}} Size */

const MARGIN = 8; // px to the window's edges
const GAP = 4; // px to the lines
const LEAST = 120; // px of a list that can be used

/**
 * Return where a list stands: above the lines, right or left of them, or below, the first of these that has the room which the
 * list may come to need; else where there is most of it, and no higher than that.
 *
 * @param {Lines} lines
 * @param {Size} size - of the list
 * @param {number} most - px, the height that it may have
 * @param {Size} window
 * @param {boolean} [isBelow] - whether it rather stands below them
 */
export function besideLines(lines, { width, height }, most, window, isBelow = false) {
  const within = (/** @type {number} */ at, /** @type {number} */ size, /** @type {number} */ all) =>
    Math.max(MARGIN, Math.min(at, all - size - MARGIN));
  const left = within(lines.left, width, window.width);
  const above = { left, top: lines.top - GAP - Math.min(height, most), most };
  const below = { left, top: lines.bottom + GAP, most };
  const roomBelow = window.height - MARGIN - lines.bottom - GAP;
  if (isBelow && Math.min(height, most) <= roomBelow) return { ...below, most: Math.min(most, roomBelow) };
  if (lines.top - GAP - MARGIN >= most) return above;
  const all = Math.min(most, window.height - 2 * MARGIN);
  const top = within(lines.top, Math.min(height, all), window.height);
  if (lines.right + GAP + width + MARGIN <= window.width) return { left: lines.right + GAP, top, most: all };
  if (lines.left - GAP - width >= MARGIN) return { left: lines.left - GAP - width, top, most: all };
  if (most <= roomBelow) return below;
  const rooms = [lines.top - GAP - MARGIN, roomBelow];
  const room = Math.max(LEAST, ...rooms);
  const shown = Math.min(height, room);
  return rooms[0] >= rooms[1] ? { ...above, top: lines.top - GAP - shown, most: room } : { ...below, most: room };
}
