/**
 * The srb-story form: a story as one JSON object, for export and import.
 *
 * @import {Wire} from "./types.js"
 * @import {Story} from "../story.js"
 * @import {Tree} from "./tree.js"
 */
import { StoryError } from "./check.js";
import { own } from "./merge.js";
import { readStory } from "./read.js";
import { hasPairs, isHigh, isLow } from "./text.js";
import { bareNode, bareRun } from "./wire.js";

/** Steps that the check for cut characters may take, so that no file keeps the page busy for long. */
const MOST_STEPS = 50_000_000;

/**
 * Fill an empty story from a file, or throw a StoryError.
 * @param {unknown} json
 * @param {(id: string) => {story: Story, tree: Tree}} create
 * @returns {Story}
 */
export function readFile(json, create) {
  const { id, wire } = readStory(json);
  const { story, tree } = create(id);
  story.merge(wire);
  for (const key of Object.keys(wire.nodes)) {
    if (!tree.has(key))
      throw new StoryError(`Node ${firstHidden(key, wire, tree)} keeps more of its parent than there is.`);
  }
  checkCuts(tree);
  for (const run of story.runs.values()) checkPlace(story, run, `Run ${run.id}`);
  const head = story.meta("head");
  if (head !== undefined && head !== null) checkPlace(story, head, "The story");
  story.putBack(wire);
  return story;
}

/**
 * @param {Story} story
 * @returns {Record<string, unknown>}
 */
export function writeFile(story) {
  const { values, times } = story.stampsOf(null);
  const meta = own();
  const settings = own();
  for (const [key, value] of Object.entries(values)) {
    if (key.startsWith("settings.")) settings[key.slice("settings.".length)] = value;
    else meta[key] = value;
  }
  const changes = { meta: times, marks: own() };
  const nodes = own();
  const marks = own();
  for (const [key, node] of story.nodes) {
    nodes[key] = bareNode(node);
    const stamps = story.stampsOf(key);
    if (Object.keys(stamps.times).length === 0) continue;
    changes.marks[key] = stamps.times; // also of marks that were taken away
    const set = Object.keys(stamps.values);
    if (set.length > 0) marks[key] = { ...stamps.values, changed: Math.max(...set.map((each) => stamps.times[each])) };
  }
  const runs = own();
  for (const [key, run] of story.runs) runs[key] = bareRun(run);
  const { node, at } = story.head;
  return {
    format: "srb-story",
    version: 1,
    id: story.id,
    ...meta,
    ...(node === "" ? {} : { head: { node, at } }),
    changed: story.edited,
    settings,
    nodes,
    runs,
    marks,
    changes,
  };
}

/**
 * @param {string} id  of a node that is not visible
 * @param {Required<Wire>} wire
 * @param {Tree} tree
 * @returns {string} the node for which it waits
 */
function firstHidden(id, wire, tree) {
  for (let parent = wire.nodes[id]?.parent; parent !== undefined && !tree.has(parent); parent = wire.nodes[id]?.parent)
    id = parent;
  return id;
}

/**
 * @param {Story} story
 * @param {unknown} place
 * @param {string} whose
 */
function checkPlace(story, place, whose) {
  if (!story.isPlace(place)) throw new StoryError(`${whose} stands at a place that is not in the story.`);
}

/**
 * Refuse nodes that cut a character of their parent's text into halves. Only texts with such characters are looked at.
 * @param {Tree} tree
 */
function checkCuts(tree) {
  let steps = 0;
  const paired = new Set();
  const stack = [...tree.roots];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const { parent } = entry;
    const { id, keep = 0, tail = 0, text } = entry.node;
    if (paired.has(parent) || hasPairs(text)) paired.add(entry);
    for (const child of entry.children) stack.push(child);
    if (parent === null || !paired.has(parent)) continue;
    for (const at of [keep, tail]) {
      const high = tree.locate(parent, at - 1);
      const low = tree.locate(parent, at);
      steps += high.steps + low.steps;
      if (isHigh(high.unit) && isLow(low.unit))
        throw new StoryError(`Node ${id} cuts a character of its parent into halves.`);
      if (steps > MOST_STEPS) throw new StoryError("The story's edits are nested too deeply to be checked.");
    }
  }
}
