/** The ends of all that models have written behind a text and nobody has set aside. The shortest is found by looking at what is new. */

/** @typedef {import("../story/types.js").Place} Place */

export class Ends {
  /** @param {import("../story.js").Story} story @param {Place} root the text's end @param {number} from where the models' words begin */
  constructor(story, root, from) {
    this.story = story;
    this.root = root;
    this.from = from;
    /** @type {Set<string>} nodes that were looked at, or stand in `open` */
    this.known = new Set();
    /** @type {Set<string>} nodes behind which something may be new */
    this.touched = new Set([root.node]);
    /** @type {{id: string, length: number}[]} nodes that may be ends, the shortest line last */
    this.open = [];
  }

  /** All of them: the whole tree is looked at. @returns {Place[]} */
  all() {
    const open = this.goesOn(this.root.node);
    const ends = [];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      const further = this.goesOn(id);
      if (!further.length) ends.push({ node: id, at: this.story.length(id) });
      open.push(...further);
    }
    return ends;
  }

  /** What goes on from a node. @param {string} id */
  goesOn(id) {
    const { from, root, story } = this;
    const all = story.children(id).filter((each) => story.nodes.get(each)?.by === "model" && !story.mark(each).pruned);
    return id === root.node ? all.filter((each) => (story.nodes.get(each)?.keep ?? 0) >= from) : all;
  }

  /** Note that something may be new behind nodes. @param {Iterable<string>} ids */
  touch(ids) {
    for (const id of ids) this.touched.add(id);
  }

  /** Look at all of the tree again: something in it was set aside, or came back. */
  forget() {
    this.known.clear();
    this.open = [];
    this.touched.add(this.root.node);
  }

  /** The end of the shortest line that goes on; the text's own end, if nothing is there yet; null if the model has ended all lines. @returns {Place | null} */
  shortest() {
    const { open, root, story } = this;
    for (const id of this.touched) if (id === root.node || this.known.has(id)) this.add(this.goesOn(id));
    this.touched.clear();
    for (let last = open.at(-1); last; last = open.at(-1)) {
      const { id, length } = last;
      const further = this.goesOn(id);
      const now = story.length(id);
      if (!further.length && now === length && story.nodes.get(id)?.end?.reason !== "eos") return { node: id, at: now };
      open.pop();
      if (further.length) this.add(further);
      else if (now !== length) this.insert(id); // it has grown
    }
    return this.goesOn(root.node).length ? null : root;
  }

  /** @param {string[]} ids */
  add(ids) {
    for (const id of ids) {
      if (this.known.has(id)) continue;
      this.known.add(id);
      this.insert(id);
    }
  }

  /** @param {string} id */
  insert(id) {
    const { open } = this;
    const length = this.story.length(id);
    let [low, high] = [0, open.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (open[middle].length > length) low = middle + 1;
      else high = middle;
    }
    open.splice(low, 0, { id, length });
  }
}
