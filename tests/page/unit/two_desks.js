/** Two desks with one story, as two windows have it: what one has changed comes to the other when a test says so. */

import { Story } from "../../../srb/page/story.js";
import { makeDesk } from "./fake_desk.js";

/** Open the story of a desk in another one. */
export async function secondWindow({ desk }) {
  const other = await makeDesk();
  const copy = new Story(desk.story.id);
  desk.story.closeAll();
  copy.merge(desk.story.wire());
  desk.story.takeChanges();
  other.desk.setStory(copy);
  return other;
}

/** Bring each window the changes of the other. */
export function exchange(one, two) {
  for (const it of [one, two]) it.desk.rounds.save();
  const [mine, theirs] = [one.desk.story.takeChanges(), two.desk.story.takeChanges()];
  for (const [it, wire] of [
    [one, theirs],
    [two, mine],
  ])
    if (wire) it.desk.merged(it.desk.story.merge(wire));
}
