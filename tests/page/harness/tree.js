// The outline and the map, with the real desk and the sample story, or with a large one.

import "../page/parts/map.js";
import "../page/parts/note.js";
import "../page/parts/outline.js";
import { storyOf } from "../page/story/read.js";
import { Story } from "../page/story.js";
import { startDesk } from "./real_desk.js";

const main = document.querySelector("main");
const { desk } = await startDesk(main);
for (const name of ["srb-outline", "srb-map", "srb-note"]) {
  const part = document.createElement(name);
  part.desk = desk;
  main.append(part);
}
desk.setStory(storyOf(await (await fetch("../page/sample.json")).text()));

/** Open a story of so many rounds, each with eight branches of which one was taken. */
function openLarge(rounds) {
  const story = Story.create("Large");
  let { node, at } = story.edit(story.head, 0, 0, "Once upon a time,");
  for (let round = 0; round < rounds; round += 1) {
    const ids = Array.from({ length: 8 }, (_, slot) => {
      const text = ` round ${round} card ${slot} and then it went on for a sentence or two.`;
      return story.addModelNode({ parent: node, keep: at, text, run: `r${round}`, index: slot, slot, seed: slot });
    });
    for (const id of ids) story.end(id, { reason: "limit" });
    node = ids[round % 8];
    at = story.length(node);
  }
  story.head = { node, at };
  desk.setStory(story);
}

Object.assign(window, { desk, openLarge, ready: true });
