/** Changes of a story since it was last sent, by name: the values are read when they are sent. */
export class Changes {
  /** @type {Set<string>} */
  meta = new Set();
  /** @type {Set<string>} */
  nodes = new Set();
  /** @type {Set<string>} */
  runs = new Set();
  /** @type {Map<string, Set<string>>} */
  marks = new Map();

  get any() {
    return this.meta.size + this.nodes.size + this.runs.size + this.marks.size > 0;
  }

  /**
   * @param {string} id
   * @param {string} key
   */
  mark(id, key) {
    const keys = this.marks.get(id);
    if (keys === undefined) this.marks.set(id, new Set([key]));
    else keys.add(key);
  }

  /** @param {import("./types.js").Wire} wire */
  add(wire) {
    for (const key of Object.keys(wire.meta ?? {})) this.meta.add(key);
    for (const id of Object.keys(wire.nodes ?? {})) this.nodes.add(id);
    for (const id of Object.keys(wire.runs ?? {})) this.runs.add(id);
    for (const [id, values] of Object.entries(wire.marks ?? {}))
      for (const key of Object.keys(values)) this.mark(id, key);
  }
}
