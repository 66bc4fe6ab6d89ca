/** Undo beyond the editor's history, as after a reload: the story itself has each text from which the present one was made. */

import { msg } from "../languages.js";
import { move } from "./moves.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Place} Place */

export class StoryTrail {
  /** @param {import("./rounds.js").Rounds} rounds */
  constructor(rounds) {
    this.rounds = rounds;
    this.desk = rounds.desk;
    /** @type {Place[]} places that were left backwards, the last one last */
    this.ahead = [];
    this.desk.addEventListener("head", (event) => {
      if (/** @type {CustomEvent} */ (event).detail.why !== "undo") this.forget(); // a new way: nothing lies ahead on it
    });
  }

  forget() {
    this.ahead = [];
  }

  /** Go back to the text before the last change that the story knows. */
  back() {
    const { desk } = this;
    desk.closeTyped();
    const { head } = desk;
    const place = placeBefore(desk.story, head);
    if (!place) return this.ahead.length ? desk.notice(msg`This is where the text began.`) : undefined;
    const isFirst = this.ahead.length === 0;
    this.step(place);
    this.ahead.push(head);
    if (isFirst)
      desk.notice(msg`Undone as the story has it: this was written before the page was opened.`, "info", {
        label: msg`Redo`,
        run: () => this.forward(),
      });
  }

  /** Take the last step back again. */
  forward() {
    const place = this.ahead.pop();
    if (place) this.step(place);
  }

  /** Whether a step of the trail is what was taken back last. */
  get isAhead() {
    return this.ahead.length > 0;
  }

  /** @param {Place} place */
  step(place) {
    move(this.desk, place, "undo");
    this.rounds.follow("undo");
  }
}

/**
 * Return the place whose text was the manuscript before it became that of another place; null at the story's beginning.
 * @param {Story} story @param {Place} place
 * @returns {Place | null}
 */
export function placeBefore(story, { node: id, at }) {
  const text = story.text(id, at);
  for (let node = story.nodes.get(id); node; node = story.nodes.get(node.parent ?? "")) {
    const { parent, keep = 0, tail } = node;
    if (parent === undefined) break;
    if (node.act !== undefined && story.nodes.get(parent)?.act === node.act) continue; // its texts lie within one step
    const isSplice = tail !== undefined || node.text === ""; // else what was left out behind `keep` was never in the manuscript
    const before = { node: parent, at: isSplice ? story.length(parent) : keep };
    if (story.text(before.node, before.at) !== text) return before;
  }
  return text === "" ? null : { node: "", at: 0 };
}
