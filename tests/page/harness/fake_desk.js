// A desk without a server: a story of whole versions, and takes of given texts.

/** A story whose every version is a node with its text and pieces. */
class FakeStory {
  constructor(id) {
    this.id = id;
    this.nodes = new Map([["n0", { text: "", pieces: [] }]]);
    this.values = new Map();
  }

  text(id) {
    return this.nodes.get(id).text;
  }

  pieces(id) {
    return this.nodes.get(id).pieces;
  }

  meta(key) {
    return this.values.get(key);
  }

  /** Add the version of `id` in which [from, to) is `insert`, by `by`; return its place. */
  spliced(id, from, to, insert, by) {
    const old = this.nodes.get(id);
    const node = `n${this.nodes.size}`;
    const pieces = [];
    const put = (length, name, author) => {
      const at = pieces.at(-1)?.to ?? 0;
      if (length > 0) {
        pieces.push({ from: at, to: at + length, node: name, by: author });
      }
    };
    for (const piece of old.pieces) {
      put(Math.min(piece.to, from) - Math.min(piece.from, from), piece.node, piece.by);
    }
    put(insert.length, node, by);
    for (const piece of old.pieces) {
      put(Math.max(piece.to, to) - Math.max(piece.from, to), piece.node, piece.by);
    }
    const text = old.text.slice(0, from) + insert + old.text.slice(to);
    this.nodes.set(node, { text, pieces, tail: to < old.text.length ? to : undefined });
    return { node, at: text.length };
  }
}

export class FakeDesk extends EventTarget {
  story = new FakeStory("s1");
  head = { node: "n0", at: 0 };
  settings = {};
  server = {
    state: "ready",
    message: "",
    model: "storyteller",
    n_ctx: 8192,
    chat_template: true,
    max_n: 64,
    sampling: { temperature: 0.8, min_p: 0.05, top_p: 0.95, top_k: 40 },
  };
  context = { used: 0, limit: 0, cut: 0, parts: [] };
  heads = []; // every head that the manuscript was told, in order
  manuscript;

  edited({ changes, target, doc }) {
    if (target === null) {
      for (const { from, to, insert } of [...changes].reverse()) {
        this.head = this.story.spliced(this.head.node, from, to, insert, "person");
      }
    } else {
      this.head = target;
    }
    if (this.story.text(this.head.node) !== doc()) {
      throw new Error(`the manuscript is not the text of its head: ${JSON.stringify(this.head)}`);
    }
    this.heads.push(this.head.node);
    return this.head;
  }

  /** Take a model's text at the end of the manuscript. */
  take(text) {
    const end = this.story.text(this.head.node).length;
    const head = this.story.spliced(this.head.node, end, end, text, "model");
    this.show(head, "take");
  }

  show(head, why) {
    this.manuscript.apply({ text: this.story.text(head.node), head, pieces: this.story.pieces(head.node), why });
  }

  load() {
    this.manuscript.load(this.story.text(this.head.node), this.story.pieces(this.head.node), this.head);
  }

  openDialog(name, detail = {}) {
    this.dispatchEvent(new CustomEvent("dialog", { detail: { name, ...detail } }));
  }

  setSetting(name, value) {
    this.settings = { ...this.settings, [name]: value };
    this.dispatchEvent(new CustomEvent("story"));
  }
}
