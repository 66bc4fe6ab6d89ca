import assert from "node:assert/strict";
import { test } from "node:test";
import { whereabouts } from "../../../srb/page/formats/chapters.js";
import { openingOf } from "../../../srb/page/keep/describe.js";
import { WRITERS } from "../../../srb/page/parts/writers.js";
import { Story } from "../../../srb/page/story.js";

/** A story of one round by each of some models. */
function written(...models) {
  const story = Story.create();
  let place = story.edit(story.head, 0, 0, "Once");
  for (const [index, model] of models.entries()) {
    const run = `r${index}`;
    story.addRun({ id: run, ...place, made: index, model, request_id: `q${index}`, seeds: [1], request: { n: 1 } });
    const node = story.addModelNode({
      parent: place.node,
      keep: place.at,
      text: ` by ${model}`,
      run,
      index: 0,
      slot: 0,
    });
    story.end(node, { reason: "limit" });
    place = { node, at: story.length(node) };
  }
  return story;
}

test("a voice keeps its number as long as others come, and has a name where there are several", () => {
  const alone = written("gemma");
  const [node] = [...alone.nodes.values()].filter(({ by }) => by === "model");
  assert.equal(WRITERS.of(alone, node), "");
  const both = written("gemma", "smol", "gemma");
  const names = [...both.nodes.values()].filter(({ by }) => by === "model").map((each) => WRITERS.of(both, each));
  assert.deepEqual(names, ["gemma", "smol", "gemma"]);
  assert.deepEqual([WRITERS.hueOf(both, "gemma"), WRITERS.hueOf(both, "smol"), WRITERS.hueOf(both, "new")], [1, 2, 3]);
});

test("persons have numbers of their own where two write", () => {
  const story = Story.create();
  story.person = "Alice";
  let place = story.edit(story.head, 0, 0, "One.");
  story.close(place.node);
  const [one] = story.nodes.values();
  assert.equal(WRITERS.of(story, one), "");
  story.person = "Bob";
  place = story.edit(place, 4, 4, " Two.");
  assert.deepEqual(
    [...story.nodes.values()].map((each) => WRITERS.of(story, each)),
    ["Alice", "Bob"],
  );
  assert.notEqual(WRITERS.hueOf(story, "Alice"), WRITERS.hueOf(story, "Bob"));
});

test("a place is told by the heading above it and its paragraph", () => {
  const text = "Before.\n\n# Book\n\n## The *Salt* Road\n\nOne.\n\nTwo.\n### Scene\nThree.";
  const at = (words) => whereabouts(text, text.indexOf(words));
  assert.deepEqual(at("Before"), { chapter: "", paragraph: 1 });
  assert.deepEqual(at("Salt"), { chapter: "The Salt Road", paragraph: 0 });
  assert.deepEqual(at("Two"), { chapter: "The Salt Road", paragraph: 2 });
  assert.deepEqual(whereabouts(text, text.length), { chapter: "The Salt Road", paragraph: 4 });
  assert.deepEqual(whereabouts("", 0), { chapter: "", paragraph: 0 });
});

test("a branch with a name is a chapter as a heading is, unless it stands at a heading", () => {
  const text = "Fog.\n\nIda rowed. The boat sank.\n\nNobody came.\n\n## Two\n\nRain.";
  const names = [
    { name: "The Boat", at: text.indexOf("The boat") },
    { name: "Draft", at: text.indexOf("Rain") },
  ];
  const at = (words) => whereabouts(text, text.indexOf(words), names);
  assert.deepEqual(at("Ida"), { chapter: "", paragraph: 2 });
  assert.deepEqual(at("sank"), { chapter: "The Boat", paragraph: 1 });
  assert.deepEqual(at("Nobody"), { chapter: "The Boat", paragraph: 2 });
  assert.deepEqual(at("Rain"), { chapter: "Two", paragraph: 1 });
  assert.deepEqual(whereabouts("# Book\n\nFog. ", 13, [{ name: "One", at: 13 }]), { chapter: "One", paragraph: 0 });
});

test("a story's opening is its first line below the headings, without signs", () => {
  assert.equal(openingOf("# Book\n\n## One\n\nThe *lamp* was out.\nNobody came."), "The lamp was out.");
  assert.equal(openingOf("![map](srb:a1)\n\nGo."), "Go.");
  assert.equal(openingOf("# Book"), "");
});
