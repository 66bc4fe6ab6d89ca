/** Grafts: the words of one node go on behind another one, as a new branch there. */

import { msg } from "../languages.js";
import { stretchesOf } from "../story/same.js";
import { newId } from "../story.js";
import { joined } from "./gap.js";

/** @typedef {import("../desk.js").Desk} Desk */

/**
 * Join a node's own words behind the text of another one; undo sets the branch aside. The manuscript stays as it is.
 * @param {Desk} desk @param {string} from @param {string} onto
 * @returns {string} the new branch
 */
export function graft(desk, from, onto) {
  desk.closeTyped();
  const { story } = desk;
  const [node, end] = [story.nodes.get(from), story.nodes.get(onto)];
  if (!node?.text.trim()) throw new Error(msg`This place has no words of its own.`);
  if (from === onto) throw new Error(msg`Words cannot go on behind themselves: choose another place.`);
  if (node.open || end?.open) throw new Error(msg`This is still being written: wait until it has ended.`);
  const { keep = 0, text } = node;
  const at = story.length(onto);
  const words = stretchesOf(story, { node: from, at: keep + text.length }, keep, keep + text.length);
  const act = newId();
  const stretches = joined(story.text(onto), words).map((each) => ({ ...each, act }));
  const branch = story.graft({ node: onto, at }, at, at, stretches).node;
  const setAside = (/** @type {true | null} */ value) => {
    story.setMark(branch, "pruned", value);
    tell(desk, branch);
  };
  tell(desk, branch);
  desk.record(
    () => setAside(true),
    () => setAside(null),
  );
  return branch;
}

/** @param {Desk} desk @param {string} branch */
function tell(desk, branch) {
  desk.changed();
  desk.tell("nodes", { ids: new Set([branch]) });
}
