// The manuscript with the real desk and story.

import { move } from "../page/desk/moves.js";
import { startDesk } from "./real_desk.js";

const { desk, manuscript } = await startDesk(document.querySelector("main"));

/** Numbers below `most` that are the same in every run. */
function numbers(seed) {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

/** What a person may do next. */
const ACTS = {
  type(random) {
    manuscript.insert("abcdefgh \n🕯"[random(9)].repeat(1 + random(3)));
  },
  typeInTheMiddle(random) {
    manuscript.select(random(manuscript.text.length + 1));
    manuscript.insert("XY".slice(random(2)));
  },
  replace(random) {
    const length = manuscript.text.length;
    manuscript.select(random(length + 1), random(length + 1));
    manuscript.insert(["", "z", "two words"][random(3)]);
  },
  take(random) {
    const { head, story } = desk;
    const id = story.addModelNode({ parent: head.node, keep: head.at, text: ` taken ${random(100)}.` });
    story.end(id, { reason: "eos" });
    move(desk, { node: id, at: story.length(id) - random(3) }, "take");
  },
  open(random) {
    const ids = [...desk.story.nodes.keys()];
    if (ids.length > 0) {
      const id = ids[random(ids.length)];
      desk.openNode(id, random(desk.story.length(id) + 1));
    }
  },
  close() {
    desk.closeTyped();
  },
  undo() {
    manuscript.undo();
  },
  redo() {
    manuscript.redo();
  },
};

/** Do random acts; return the first difference between the manuscript and the story, or null. */
function walk(seed, steps) {
  const random = numbers(seed);
  const names = Object.keys(ACTS);
  const done = [];
  for (let step = 0; step < steps; step += 1) {
    const name = names[random(names.length)];
    ACTS[name](random);
    done.push(name);
    const told = desk.story.text(desk.head.node, desk.head.at);
    const { node, at } = manuscript.head;
    if (told !== manuscript.text || node !== desk.head.node || at !== desk.head.at) {
      return { done, told, shown: manuscript.text };
    }
  }
  return null;
}

/** Undo everything, then do it all again; return the texts at both ends. */
function thereAndBack() {
  while (manuscript.redo());
  const last = manuscript.text;
  while (manuscript.undo());
  const first = manuscript.text;
  while (manuscript.redo());
  return { first, last, again: manuscript.text };
}

Object.assign(window, { desk, manuscript, walk, thereAndBack, ready: true });
