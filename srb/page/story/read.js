/**
 * The reading of the srb-story form: a file as a story, or a sentence that says what is wrong with it.
 *
 * @import {BareNode, BareRun, Stamped, Wire} from "./types.js"
 * @import {Tree} from "./tree.js"
 */
import { msg } from "../languages.js";
import { faultOfEntry, PREFIX } from "../lore/entries.js";
import { brought } from "../media.js";
import { Story } from "../story.js";
import { faultOfNode, faultOfRun, isCount, isId, isRecord } from "./check.js";
import { own } from "./merge.js";
import { hasPairs, isHigh, isLow, isWhole } from "./text.js";

/** Larger than a story on the server may be: a page keeps what the server has no room for, and exports all of it. */
const MOST_UNITS = 256 * 1024 * 1024;
const MOST_DEPTH = 32;
const MOST_NODES = 1_000_000;
const LONGEST_TITLE = 1000;
/** Steps that the check for cut characters may take, so that no file keeps the page busy for long. */
const MOST_STEPS = 50_000_000;
const NOT_META = new Set([
  "format",
  "version",
  "id",
  "nodes",
  "runs",
  "marks",
  "media",
  "changed",
  "changes",
  "settings",
]);

/** A story that cannot be taken. The message is a sentence for the person who tried. */
export class StoryError extends Error {
  name = "StoryError";
}

/**
 * Read a story from the srb-story form, all of it or nothing.
 * @param {unknown} json  the text of a file or its object
 * @returns {Story}
 * @throws {StoryError} whose message is a sentence for the person who tried
 */
export function storyOf(json) {
  const { id, wire, media } = readStory(json);
  const story = new Story(id);
  const { tree } = story;
  story.merge(wire);
  for (const key of Object.keys(wire.nodes)) {
    if (!tree.has(key))
      throw new StoryError(msg`Node ${firstHidden(key, wire, tree)} keeps more of its parent than there is.`);
  }
  checkCuts(tree);
  for (const run of story.runs.values()) checkPlace(story, run, msg`Run ${run.id}`);
  const head = story.meta("head");
  if (head !== undefined && head !== null) checkPlace(story, head, msg`The story`);
  story.putBack(wire);
  brought.set(story, media);
  return story;
}

/**
 * Return the story of a file as a wire, or throw a StoryError that says what is wrong with it. Offsets inside a parent's text
 * are the tree's to check.
 * @param {unknown} json  the text of a file, or the object that it stands for
 * @returns {{id: string, wire: Required<Wire>, media: Record<string, {data: string}>}}
 */
function readStory(json) {
  const story = parseFile(json);
  checkValue(story);
  const { id, nodes, runs = {}, marks = {}, media = {}, settings = {}, changed = 0 } = story;
  must(isId(id), () => msg`The story has no proper id.`);
  must(isRecord(nodes), () => msg`The story has no nodes.`);
  must(
    isRecord(runs) && isRecord(marks) && isRecord(settings),
    () => msg`“runs”, “marks” and “settings” are objects in a story.`,
  );
  must(isCount(changed), () => msg`The story was changed at no time: “changed” is in milliseconds.`);
  must(Object.keys(nodes).length <= MOST_NODES, () => msg`The story has more than ${MOST_NODES} nodes.`);
  for (const [key, node] of Object.entries(nodes)) must(faultOfNode(key, node) === "", () => faultOfNode(key, node));
  for (const [key, run] of Object.entries(runs)) must(faultOfRun(key, run) === "", () => faultOfRun(key, run));
  must(isRecord(media), () => msg`“media” is an object in a story.`);
  for (const [key, medium] of Object.entries(/** @type {Record<string, any>} */ (media)))
    must(
      typeof medium?.data === "string",
      () => msg`The picture or sound ${key.slice(0, 80)} of the story has no bytes.`,
    );
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
    media: /** @type {Record<string, {data: string}>} */ (media),
  };
}

/**
 * @param {unknown} changes  the times of values and marks, also of those that were taken away
 * @returns {{meta: Record<string, unknown>, marks: Record<string, unknown>}}
 */
function timesOf(changes = {}) {
  must(isRecord(changes), () => msg`“changes” is an object in a story.`);
  const { meta = {}, marks = {} } = changes;
  must(isRecord(meta) && isRecord(marks), () => msg`“changes” holds the times of “meta” and of “marks”.`);
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
      must(!walk.has(at), () => msg`The parents of node ${at} go round in a circle.`);
      walk.add(at);
      const parent = /** @type {BareNode} */ (nodes[at]).parent;
      must(
        parent === undefined || Object.hasOwn(nodes, parent),
        () => msg`Node ${at} stands on node ${parent}, which is not in the file.`,
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
  must(title === undefined || typeof title === "string", () => msg`The title of the story is not a text.`);
  must(
    title === undefined || title.length <= LONGEST_TITLE,
    () => msg`The title of the story is longer than ${LONGEST_TITLE} characters.`,
  );
  must(memory === undefined || typeof memory === "string", () => msg`The memory of the story is not a text.`);
  must(
    note === undefined || (isRecord(note) && typeof note.text === "string"),
    () => msg`The note of the story is not a text.`,
  );
  must(
    !isRecord(note) || note.frame === undefined || typeof note.frame === "string",
    () => msg`The frame of the story's note is not a text.`,
  );
  /** @type {Record<string, Stamped>} */
  const meta = own();
  for (const [key, value] of Object.entries(story)) {
    const fault = key.startsWith(PREFIX) ? faultOfEntry(value, msg`The story's “${key.slice(0, 80)}”`) : "";
    must(fault === "", () => fault);
    if (!NOT_META.has(key)) meta[key] = { value, changed: timeOf(times[key], changed) };
  }
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
    must(Object.hasOwn(nodes, id), () => msg`A mark stands on node ${id.slice(0, 80)}, which is not in the file.`);
    must(isRecord(values), () => msg`The marks of node ${id} are not an object.`);
    const { changed = 0, ...rest } = values;
    const ofNode = isRecord(times[id]) ? times[id] : {};
    read[id] = own();
    for (const [key, value] of Object.entries(rest)) {
      const text = key === "name" || key === "note";
      must(!text || typeof value === "string", () => msg`The ${key} of node ${id} is not a text.`);
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
  must(isCount(changed), () => msg`A value of the story was changed at no time: times are in milliseconds.`);
  return changed;
}

/**
 * Refuse a value that no JSON of ours holds: too large, too deep, with half characters or a key `__proto__`.
 * @param {unknown} value
 */
export function checkValue(value) {
  let size = 0;
  const stack = [{ value, depth: 0 }];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const { value: part, depth } = top;
    if (typeof part === "string") {
      size += part.length;
      must(isWhole(part), () => msg`The file holds half of a character: it is damaged.`);
    } else if (part !== null && typeof part === "object") {
      must(depth < MOST_DEPTH, () => msg`The file is nested more than ${MOST_DEPTH} levels deep.`);
      for (const key of Object.keys(part)) {
        must(key !== "__proto__", () => msg`The file holds the key __proto__, which no story has.`);
        must(isWhole(key), () => msg`The file holds half of a character: it is damaged.`);
        size += key.length;
        stack.push({ value: /** @type {Record<string, unknown>} */ (part)[key], depth: depth + 1 });
      }
    } else must(typeof part !== "number" || Number.isFinite(part), () => msg`The file holds a number that is none.`);
    must(size <= MOST_UNITS, () => msg`The story is larger than 256 MB.`);
  }
}

/**
 * @param {unknown} json  the text of a file, or the object that it stands for
 * @returns {Record<string, unknown>}
 */
export function parseFile(json) {
  if (typeof json === "string") {
    must(json.length <= MOST_UNITS, () => msg`The file is larger than 256 MB.`);
    try {
      json = JSON.parse(json);
    } catch (error) {
      throw new StoryError(msg`The file is not JSON: ${/** @type {Error} */ (error).message}.`);
    }
  }
  must(
    isRecord(json) && json.format === "srb-story",
    () => msg`The file is not a story: it does not say “format”: “srb-story”.`,
  );
  must(
    json.version === 1,
    () => msg`The story is of version ${JSON.stringify(json.version) ?? msg`none`}; this page reads version 1.`,
  );
  return json;
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
  if (!story.isPlace(place)) throw new StoryError(msg`${whose} stands at a place that is not in the story.`);
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
        throw new StoryError(msg`Node ${id} cuts a character of its parent into halves.`);
      if (steps > MOST_STEPS) throw new StoryError(msg`The story's edits are nested too deeply to be checked.`);
    }
  }
}

/** @param {boolean} good @param {() => string} sentence made only where it is needed: files have millions of values @returns {asserts good} */
export function must(good, sentence) {
  if (!good) throw new StoryError(sentence());
}
