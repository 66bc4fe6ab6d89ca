/** The sample story: a copy of it becomes a story of the person's own. */

import { msg } from "../languages.js";
import { storyOf } from "../story/read.js";
import { newId } from "../story.js";
import { withLooks } from "./defaults.js";

/** @typedef {import("../desk.js").Desk} Desk */

const SAMPLE = new URL("../sample.json", import.meta.url);

/** @param {Desk} desk */
export async function openSample(desk) {
  const answer = await fetch(SAMPLE);
  if (!answer.ok) throw new Error(msg`The sample could not be read: the server answered ${answer.status}.`);
  await desk.importStory(withLooks(storyOf({ ...(await answer.json()), id: newId() }), desk.settings));
}
