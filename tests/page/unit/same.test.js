/** Characters that two texts of a story share: where the last and the next of them are in another text. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { origin } from "../../../srb/page/story/pen.js";
import { Characters } from "../../../srb/page/story/same.js";
import { Story } from "../../../srb/page/story.js";
import { Random } from "./random.js";
import { Walk } from "./story_walk.js";

/** The names of a text's characters, each by itself. */
function namesOf(story, { node, at }) {
  return story.pieces(node, at).flatMap(({ from, to, node: id, start }) => {
    const of = origin(story.nodes.get(id));
    return Array.from({ length: to - from }, (_, index) => `${of.node} ${of.at + start + index}`);
  });
}

test("the last and the next shared character are where a look at each of them finds them", () => {
  let shared = 0;
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = new Random(seed);
    const walk = new Walk(random);
    const places = [];
    for (let step = 0; step < 60; step += 1) {
      walk.step();
      places.push(walk.story.settle(walk.head)); // so that nobody rewrites it
    }
    for (let pair = 0; pair < 40; pair += 1) {
      const [here, there] = [random.choice(places), random.choice(places)];
      const names = namesOf(walk.story, there);
      const known = new Set(namesOf(walk.story, here));
      const characters = new Characters(walk.story.nodes, walk.story.pieces(here.node, here.at));
      const pieces = walk.story.pieces(there.node, there.at);
      const label = `seed ${seed}, pair ${pair}`;
      assert.equal(characters.endIn(pieces).at, names.findLastIndex((name) => known.has(name)) + 1, label);
      const least = random.below(names.length + 1);
      const next = names.findIndex((name, at) => at >= least && known.has(name));
      assert.equal(characters.beginIn(pieces, least), next < 0 ? null : next, label);
      shared += next < 0 ? 0 : 1;
    }
  }
  assert.ok(shared > 200, `${shared} texts shared a character`);
});

test("a key in a book looks at the pieces behind the seam, not at the thousands before it", () => {
  const story = Story.create();
  let head = { node: "", at: 0 };
  for (let paragraph = 0; paragraph < 500; paragraph += 1) {
    head = story.settle(story.edit(head, head.at, head.at, "She walked on. "));
  }
  const before = new Characters(story.nodes, story.pieces(head.node, head.at));
  const typed = story.edit(head, head.at, head.at, "b");
  const pieces = story.pieces(typed.node, typed.at);
  let asked = 0;
  before.nodes = {
    get: (id) => {
      asked += 1;
      return story.nodes.get(id);
    },
  };
  assert.equal(before.endIn(pieces).at, head.at);
  assert.ok(asked < 10, `${asked} of ${pieces.length} pieces`);
});
