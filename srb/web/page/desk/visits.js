/** Visits: other places of the story made the manuscript, and the way back to where the person was. */

/** @typedef {import("../desk.js").Desk} Desk */

/** @param {Desk} desk @param {import("../story/types.js").Place} place */
export function visit(desk, place) {
  desk.before ??= { head: desk.head };
  desk.rounds.save();
  desk.move(place, "open");
  desk.rounds.follow("open");
}

/** @param {Desk} desk */
export function endVisit(desk) {
  const { before } = desk;
  desk.before = null;
  if (!before) return;
  desk.move(before.head, "open");
  desk.rounds.follow("open");
}
