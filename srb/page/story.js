/**
 * A story in memory: a tree of splices, what is said about it, and the changes that are still to be saved.
 *
 * @import {BareNode, BareRun, End, News, Node, Marks, Piece, Place, Run, Stretch, Wire} from "./story/types.js"
 */
import { Changes } from "./story/changes.js";
import { faultOfNode, faultOfRun, isId, isRecord, isStamped } from "./story/check.js";
import { writeFile } from "./story/file.js";
import { laterRun, own } from "./story/merge.js";
import { Pen } from "./story/pen.js";
import { Stamps } from "./story/stamps.js";
import { newId, whole } from "./story/text.js";
import { Texts } from "./story/texts.js";
import { Tree } from "./story/tree.js";
import { bareNode, bareRun, entriesOf, fullNode, fullRun, getOrSet, pick, settingsApart } from "./story/wire.js";

export { newId } from "./story/text.js";

export class Story {
  person = ""; // the name of who writes here, where people have names
  /** @type {Map<string, Run>} */
  runs = new Map();
  #tree = new Tree();
  #texts = new Texts(this.#tree);
  #meta = new Stamps();
  /** @type {Map<string, Stamps>} */
  #marks = new Map();
  #changes = new Changes();
  #pen = new Pen(
    this.#tree,
    (node) => this.#save(this.person && node.by === "person" ? { who: this.person, ...node } : node),
    () => this.now(),
  );

  /**
   * @param {string} id
   * @param {() => number} [now]
   */
  constructor(id, now = Date.now) {
    this.id = id;
    this.now = now;
  }

  /** @param {string} [title] */
  static create(title = "") {
    const story = new Story(newId());
    if (title !== "") story.setMeta("title", title);
    return story;
  }

  /** @returns {Record<string, unknown>} the srb-story form */
  toJSON() {
    return writeFile(this);
  }

  get nodes() {
    return this.#tree.nodes;
  }

  /** The tree itself, for the checks of a story that comes from a file. */
  get tree() {
    return this.#tree;
  }

  /** @returns {Place} the place that was worked at last, which may be before all texts; the newest text if that is not known */
  get head() {
    const head = this.meta("head");
    if (head === null) return { node: "", at: 0 };
    if (this.isPlace(head)) return { node: head.node, at: head.at };
    let newest = "";
    let made = -1;
    for (const node of this.nodes.values()) if (node.made >= made) [newest, made] = [node.id, node.made];
    return { node: newest, at: this.length(newest) };
  }

  set head(place) {
    const who = this.person && { who: this.person };
    this.setMeta("head", place.node === "" ? null : { node: place.node, at: place.at, ...who });
  }

  /** @returns {number} the time of the last change that this copy knows */
  get edited() {
    let latest = this.#meta.changed;
    for (const marks of this.#marks.values()) latest = Math.max(latest, marks.changed);
    for (const { made } of this.nodes.values()) latest = Math.max(latest, made);
    return latest;
  }

  /** @param {string} key */
  meta(key) {
    return this.#meta.get(key);
  }

  /**
   * @param {string} key
   * @param {unknown} value
   * @param {number} [changed]
   */
  setMeta(key, value, changed = this.now()) {
    this.#meta.set(key, value, changed);
    this.#changes.meta.add(key);
  }

  /**
   * @param {string} id
   * @returns {Marks & Record<string, unknown>}
   */
  mark(id) {
    return { ...this.#marks.get(id)?.values() };
  }

  /**
   * @param {string | null} id  of a node, or null for the story's own values
   * @returns {{values: Record<string, unknown>, times: Record<string, number>}} all that is set, and when
   */
  stampsOf(id) {
    const stamps = id === null ? this.#meta : (this.#marks.get(id) ?? new Stamps());
    return { values: stamps.values(), times: stamps.times() };
  }

  /**
   * @param {string} id
   * @param {string} key
   * @param {unknown} value  null takes the mark away
   * @param {number} [changed]
   */
  setMark(id, key, value, changed = this.now()) {
    getOrSet(this.#marks, id, () => new Stamps()).set(key, value, changed);
    this.#changes.mark(id, key);
  }

  /** @param {string} id @returns {number} the length of a node's whole text */
  length(id) {
    return id === "" ? 0 : this.#tree.entry(id).length;
  }

  /**
   * Return the whole text of a node, or its first `at` units.
   * @param {string} id
   * @param {number} [at]
   * @returns {string}
   */
  text(id, at = this.length(id)) {
    return id === "" ? "" : this.#texts.text(id).slice(0, at);
  }

  /**
   * Return who brought which stretch of a text.
   * @param {string} id
   * @param {number} [at]
   * @returns {Piece[]}
   */
  pieces(id, at = this.length(id)) {
    return id === "" ? [] : this.#texts.pieces(id, at);
  }

  /** @param {string} id @returns {string[]} the ids from the root to the node */
  path(id) {
    return id === "" ? [] : this.#tree.path(id).map((entry) => entry.node.id);
  }

  /** @param {string} id @returns {string[]} */
  children(id) {
    return id === "" ? this.roots() : this.#tree.entry(id).children.map((entry) => entry.node.id);
  }

  /** @returns {string[]} */
  roots() {
    return this.#tree.roots.map((entry) => entry.node.id);
  }

  /**
   * Replace a stretch of the text at `head`, as a person did, and return the place of the new text.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {string} insert
   * @returns {Place}
   */
  edit(head, from, to, insert) {
    return this.#pen.edit(head, from, to, insert);
  }

  /**
   * Put stretches that others have written in the place of a part of the text at `head`, and return the place of the new text.
   * @param {Place} head
   * @param {number} from
   * @param {number} to
   * @param {Stretch[]} stretches
   * @returns {Place}
   */
  graft(head, from, to, stretches) {
    return this.#pen.graft(head, from, to, stretches);
  }

  /**
   * Note that the text at `head` has another text in it; return the place that says so.
   * @param {Place} head
   * @param {Place} joined
   * @param {string} act  that the nodes have which brought it
   * @returns {Place}
   */
  join(head, joined, act) {
    return this.#pen.join(head, joined, act);
  }

  /**
   * End the open node of a person; the next words make a new one.
   * @param {string} id
   */
  close(id) {
    this.#pen.close(id);
  }

  /** End all open nodes of the person here: the page may be closing, and another page could not go on with them. */
  closeAll() {
    this.#pen.closeAll();
  }

  /**
   * Return a place with the same text that no one rewrites any more, on which a round can build.
   * @param {Place} place
   * @returns {Place}
   */
  settle(place) {
    return this.#pen.settle(place);
  }

  /**
   * Return the place of a text as it was before another tab rewrote the open node that it is of.
   * @param {string} id
   * @param {string} text
   * @returns {Place}
   */
  asItWas(id, text) {
    return this.#pen.asItWas(id, text);
  }

  /**
   * Begin a branch of a model, and return its id. It grows until it is ended.
   * @param {{parent: string, keep: number, text?: string, run?: string, index?: number, slot?: number, seed?: number}} fields
   *   without a parent (""), the branch is a text of its own
   * @returns {string}
   */
  addModelNode({ parent, keep, text = "", ...others }) {
    if (keep > this.length(parent)) throw new RangeError(`no ${keep} units in a text of ${this.length(parent)}`);
    this.#pen.close(parent);
    const id = newId();
    const place = parent === "" ? {} : { parent, keep };
    this.#save({ id, ...place, text: whole(text), by: "model", made: this.now(), open: true, ...others });
    return id;
  }

  /**
   * Take a branch's text so far, of which its last text is the beginning.
   * @param {string} id
   * @param {string} text
   */
  grow(id, text) {
    const { node } = this.#tree.entry(id);
    const grown = whole(text);
    if (!node.open || node.by !== "model" || !grown.startsWith(node.text))
      throw new Error(`node ${id} cannot grow to another text`);
    if (grown.length > node.text.length) this.#save({ ...node, text: grown });
  }

  /**
   * End a branch.
   * @param {string} id
   * @param {End} end
   * @param {number} [logprob]  the mean of its tokens
   */
  end(id, end, logprob) {
    const { open, ...node } = this.#tree.entry(id).node;
    if (open && node.by === "model") this.#save({ ...node, end, ...(logprob === undefined ? {} : { logprob }) });
  }

  /** @param {Run} run */
  addRun(run) {
    this.#pen.close(run.node);
    this.runs.set(run.id, run);
    this.#changes.runs.add(run.id);
  }

  /**
   * Take what the server or another tab sent. What is malformed is left out.
   * @param {Wire} wire
   * @returns {News} what changed by it
   */
  merge(wire) {
    /** @type {News} */
    const changed = { nodes: new Set(), marks: new Set(), meta: new Set() };
    for (const [key, stamped] of entriesOf(wire.meta).flatMap(settingsApart)) {
      if (isStamped(stamped) && this.#meta.take(key, stamped)) changed.meta.add(key);
    }
    for (const [id, run] of entriesOf(wire.runs)) {
      if (faultOfRun(id, run) === "") this.#takeRun(fullRun(id, /** @type {BareRun} */ (run)));
    }
    for (const [id, node] of entriesOf(wire.nodes)) {
      if (faultOfNode(id, node) !== "") continue;
      for (const one of this.#take(fullNode(id, /** @type {BareNode} */ (node)))) changed.nodes.add(one);
    }
    for (const [id, values] of entriesOf(wire.marks)) {
      if (!isId(id)) continue;
      const marks = getOrSet(this.#marks, id, () => new Stamps());
      for (const [key, stamped] of entriesOf(values))
        if (isStamped(stamped) && marks.take(key, stamped)) changed.marks.add(id);
    }
    return changed;
  }

  /** Whether every node that came in has its parent here. */
  get isWhole() {
    return this.#tree.waiting === 0;
  }

  /** Whether anything is still to be saved. */
  get changed() {
    return this.#changes.any;
  }

  /** @returns {Required<Wire> | null} what was changed here since the last call */
  takeChanges() {
    const changes = this.#changes;
    if (!changes.any) return null;
    this.#changes = new Changes();
    const marks = own();
    for (const [id, keys] of changes.marks) marks[id] = pick(keys, (key) => this.#marks.get(id)?.stamped(key));
    return {
      meta: pick(changes.meta, (key) => this.#meta.stamped(key)),
      nodes: pick(changes.nodes, (id) => bareNode(this.#tree.get(id))),
      runs: pick(changes.runs, (id) => bareRun(this.runs.get(id))),
      marks,
    };
  }

  /** @returns {Required<Wire>} all of the story */
  wire() {
    const marks = own();
    for (const [id, stamps] of this.#marks) marks[id] = stamps.all();
    const nodes = own();
    for (const [id, node] of this.nodes) nodes[id] = bareNode(node);
    const runs = own();
    for (const [id, run] of this.runs) runs[id] = bareRun(run);
    return { meta: this.#meta.all(), nodes, runs, marks };
  }

  /**
   * Put changes back that could not be saved; the next call takes them as they are then.
   * @param {Wire} wire
   */
  putBack(wire) {
    this.#changes.add(wire);
  }

  /** @param {Node} node */
  #save(node) {
    this.#changes.nodes.add(node.id);
    this.#texts.forget(this.#tree.has(node.id) ? this.#tree.replace(node) : this.#tree.put(node));
  }

  /** @param {Node} node  from elsewhere */
  #take(node) {
    const result = this.#tree.put(node);
    this.#texts.forget(result);
    if (result.changed.has(node.id)) this.#pen.disown(node.id);
    return result.changed;
  }

  /** @param {Run} run */
  #takeRun(run) {
    const before = this.runs.get(run.id);
    this.runs.set(run.id, before === undefined ? run : laterRun(before, run));
  }

  /**
   * @param {unknown} place
   * @returns {place is Place} whether it is a place of this story, as it is now
   */
  isPlace(place) {
    if (!isRecord(place) || typeof place.node !== "string" || !Number.isSafeInteger(place.at)) return false;
    const at = /** @type {number} */ (place.at);
    return at >= 0 && (place.node === "" ? at === 0 : this.#tree.has(place.node) && at <= this.length(place.node));
  }
}
