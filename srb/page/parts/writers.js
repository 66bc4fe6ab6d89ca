// The models that wrote a story: each branch is of a run, or of one that joined it.

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("../story/types.js").Run} Run */

/** The model that a run asked: of a round that several write, the one that its branches are by. @param {Run} run */
const modelOf = ({ model, request }) => /** @type {any} */ (request)?.voice || model;

export class Writers {
  constructor() {
    /** @type {Map<string, string>} models by the id of a run, and by that of a run's request */
    this.byId = new Map();
    this.size = 0;
    this.models = 0;
    /** @type {Story | null} whose runs these are */
    this.story = null;
  }

  /** The model that wrote a node, if the story is by several; "" if not. @param {Story} story @param {Node} node */
  of(story, { run, request }) {
    this.look(story);
    if (this.models < 2 || run === undefined) return "";
    return this.byId.get(request ?? run) ?? this.byId.get(run) ?? "";
  }

  /** @param {Story} story */
  look(story) {
    if (this.story === story && this.size === story.runs.size) return;
    this.story = story;
    this.size = story.runs.size;
    this.byId.clear();
    for (const run of story.runs.values())
      for (const id of [run.id, run.request_id]) if (modelOf(run)) this.byId.set(id, modelOf(run));
    this.models = new Set(this.byId.values()).size;
  }
}
