/**
 * The reading of the srb-story form into a wire.
 *
 * @import {BareNode, BareRun, Stamped, Wire} from "./types.js"
 */
import {
  checkValue,
  faultOfNode,
  faultOfRun,
  isCount,
  isId,
  isRecord,
  LONGEST_TITLE,
  MOST_NODES,
  must,
  parseFile,
} from "./check.js";
import { own } from "./merge.js";

const NOT_META = new Set(["format", "version", "id", "nodes", "runs", "marks", "changed", "changes", "settings"]);

/**
 * Return the story of a file as a wire, or throw a StoryError that says what is wrong with it. Offsets inside a parent's text
 * are the tree's to check.
 * @param {unknown} json  the text of a file, or the object that it stands for
 * @returns {{id: string, wire: Required<Wire>}}
 */
export function readStory(json) {
  const story = parseFile(json);
  checkValue(story);
  const { id, nodes, runs = {}, marks = {}, settings = {}, changed = 0 } = story;
  must(isId(id), "The story has no proper id.");
  must(isRecord(nodes), "The story has no nodes.");
  must(
    isRecord(runs) && isRecord(marks) && isRecord(settings),
    "“runs”, “marks” and “settings” are objects in a story.",
  );
  must(isCount(changed), "The story was changed at no time: “changed” is in milliseconds.");
  must(Object.keys(nodes).length <= MOST_NODES, `The story has more than ${MOST_NODES} nodes.`);
  for (const [key, node] of Object.entries(nodes)) must(faultOfNode(key, node) === "", faultOfNode(key, node));
  for (const [key, run] of Object.entries(runs)) must(faultOfRun(key, run) === "", faultOfRun(key, run));
  checkParents(/** @type {Record<string, BareNode>} */ (nodes));
  const times = timesOf(story.changes);
  return {
    id,
    wire: {
      meta: readMeta(story, settings, times.meta, changed),
      nodes: /** @type {Record<string, BareNode>} */ (nodes),
      runs: /** @type {Record<string, BareRun>} */ (runs),
      marks: readMarks(marks, nodes, times.marks),
    },
  };
}

/**
 * @param {unknown} changes  the times of values and marks, also of those that were taken away
 * @returns {{meta: Record<string, unknown>, marks: Record<string, unknown>}}
 */
function timesOf(changes = {}) {
  must(isRecord(changes), "“changes” is an object in a story.");
  const { meta = {}, marks = {} } = changes;
  must(isRecord(meta) && isRecord(marks), "“changes” holds the times of “meta” and of “marks”.");
  return { meta, marks };
}

/**
 * Refuse parents that are missing, and circles of parents. Each node is walked once.
 * @param {Record<string, BareNode>} nodes
 */
function checkParents(nodes) {
  const good = new Set();
  for (const id of Object.keys(nodes)) {
    const walk = new Set();
    for (let at = /** @type {string | undefined} */ (id); at !== undefined && !good.has(at); ) {
      must(!walk.has(at), `The parents of node ${at} go round in a circle.`);
      walk.add(at);
      const parent = /** @type {BareNode} */ (nodes[at]).parent;
      must(
        parent === undefined || Object.hasOwn(nodes, parent),
        `Node ${at} stands on node ${parent}, which is not in the file.`,
      );
      at = parent;
    }
    for (const done of walk) good.add(done);
  }
}

/**
 * @param {Record<string, unknown>} story
 * @param {Record<string, unknown>} settings
 * @param {Record<string, unknown>} times
 * @param {number} changed  the time of values without one
 * @returns {Record<string, Stamped>}
 */
function readMeta(story, settings, times, changed) {
  const { title, memory, note } = story;
  must(title === undefined || typeof title === "string", "The title of the story is not a text.");
  must(
    title === undefined || title.length <= LONGEST_TITLE,
    `The title of the story is longer than ${LONGEST_TITLE} characters.`,
  );
  must(memory === undefined || typeof memory === "string", "The memory of the story is not a text.");
  must(note === undefined || (isRecord(note) && typeof note.text === "string"), "The note of the story is not a text.");
  /** @type {Record<string, Stamped>} */
  const meta = own();
  for (const [key, value] of Object.entries(story))
    if (!NOT_META.has(key)) meta[key] = { value, changed: timeOf(times[key], changed) };
  for (const [name, value] of Object.entries(settings)) {
    const key = `settings.${name}`;
    meta[key] = { value, changed: timeOf(times[key] ?? times.settings, changed) };
  }
  for (const key of Object.keys(times)) {
    if (!NOT_META.has(key)) meta[key] ??= { value: null, changed: timeOf(times[key], changed) };
  }
  return meta;
}

/**
 * @param {Record<string, unknown>} marks
 * @param {Record<string, unknown>} nodes
 * @param {Record<string, unknown>} times
 * @returns {Record<string, Record<string, Stamped>>}
 */
function readMarks(marks, nodes, times) {
  /** @type {Record<string, Record<string, Stamped>>} */
  const read = own();
  for (const [id, values] of Object.entries(marks)) {
    must(Object.hasOwn(nodes, id), `A mark stands on node ${id.slice(0, 80)}, which is not in the file.`);
    must(isRecord(values), `The marks of node ${id} are not an object.`);
    const { changed = 0, ...rest } = values;
    const ofNode = isRecord(times[id]) ? times[id] : {};
    read[id] = own();
    for (const [key, value] of Object.entries(rest)) {
      const text = key === "name" || key === "note";
      must(!text || typeof value === "string", `The ${key} of node ${id} is not a text.`);
      read[id][key] = { value, changed: timeOf(ofNode[key], changed) };
    }
  }
  for (const [id, ofNode] of Object.entries(times)) {
    if (!Object.hasOwn(nodes, id) || !isRecord(ofNode)) continue;
    read[id] ??= own();
    for (const key of Object.keys(ofNode)) read[id][key] ??= { value: null, changed: timeOf(ofNode[key], 0) };
  }
  return read;
}

/**
 * @param {unknown} time
 * @param {unknown} otherwise
 * @returns {number}
 */
function timeOf(time, otherwise) {
  const changed = time ?? otherwise;
  must(isCount(changed), "A value of the story was changed at no time: times are in milliseconds.");
  return changed;
}
