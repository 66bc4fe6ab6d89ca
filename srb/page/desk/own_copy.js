/** A story of one's own that has all of another's, with what was changed in this browser: its branches, marks, comments and pictures. */

import { msg } from "../languages.js";
import { brought } from "../media.js";
import { storyOf } from "../story/read.js";
import { newId } from "../story.js";

/** @typedef {import("../desk.js").Desk} Desk */

const LONGEST_TITLE = 900; // of 1000, with the word behind it

/** Go on in a copy of the open story; the other story is as its owner has it again. @param {Desk} desk */
export async function goOnInOwnCopy(desk) {
  await desk.flush();
  const { keeper, story } = desk;
  const found = await desk.withRounds(({ context }) => context.media.all());
  if (!found) return; // another story was opened, or it was said what could not be loaded
  const { files, unread } = found;
  if (unread.length) throw unread[0];
  const title = msg`${desk.title.slice(0, LONGEST_TITLE)}, copied`;
  const copy = storyOf({ ...story.toJSON(), id: newId(), title });
  copy.head = desk.head; // the story's own may be where its owner wrote last
  brought.set(copy, files); // they are shown before they are kept
  await desk.importStory(copy);
  await desk.withRounds(({ context }) => context.media.takeIn(files));
  await keeper.leftovers.kept(story.id);
  await keeper.outbox.remove(story.id);
  desk.manuscript?.focus();
}
