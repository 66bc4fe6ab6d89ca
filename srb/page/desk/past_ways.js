/** The branches of a past round of which one is in the text: what could stand there instead. */

import { inOrder } from "../outline_rows.js";
import { origin } from "../story/pen.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("./graft.js").Part} Part */
/** `from`, `to`: where the branch is in the text; `now`: which of them it is. @typedef {{from: number, to: number, now: number, ways: Part[]}} Ways */

/** The round that a branch was written for. @param {Story} story @param {Node} node */
const roundOf = ({ runs }, { run = "" }) => runs.get(run)?.round ?? run;

/**
 * Return the ways at a place of a text; null where no branch of several is.
 * @param {Story} story @param {import("../story/types.js").Place} head @param {number} at
 * @returns {Ways | null}
 */
export function waysAt(story, head, at) {
  const pieces = story.pieces(head.node, head.at);
  const here = pieces.find(({ from, to, by }) => by === "model" && from <= at && at <= to);
  if (!here) return null;
  const ownOf = (/** @type {string} */ id) => origin(story.nodes.get(id) ?? { id }).node;
  const own = story.nodes.get(ownOf(here.node));
  if (own?.parent === undefined || own.run === undefined) return null;
  const nodes = inOrder(story, story.children(own.parent)).flatMap((id) => story.nodes.get(id) ?? []);
  const ofRound = nodes.filter(
    (node) => node.by === "model" && !node.of && roundOf(story, node) === roundOf(story, own), // and no copy of one
  );
  const shown = ofRound.filter((node) => node === own || (node.text.trim() && story.mark(node.id).pruned !== true));
  if (shown.length < 2) return null;
  const there = pieces.filter(({ node }) => ownOf(node) === own.id);
  return {
    from: there[0].from,
    to: there[there.length - 1].to,
    now: shown.indexOf(own),
    ways: shown.map(({ id, keep = 0, text }) => ({ node: id, from: keep, to: keep + text.length })),
  };
}
