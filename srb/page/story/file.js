/**
 * The srb-story form: a story as one JSON object, for export; read.js reads it.
 *
 * @import {Story} from "../story.js"
 */
import { own } from "./merge.js";
import { bareNode, bareRun } from "./wire.js";

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
