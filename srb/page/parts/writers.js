// The voices that wrote a story, each with a number by which it has its hue and its shape wherever its words are shown: models, and persons
// where people have names. Each branch of a model is of a run, or of one that joined it.

import { isBlind } from "../desk/blind.js";

/** @typedef {import("../story.js").Story} Story */
/** @typedef {import("../story/types.js").Node} Node */
/** @typedef {import("../story/types.js").Run} Run */

/** By number; the page's colours for them are --voice-1 to --voice-6. */
export const SIGNS = ["●", "■", "▲", "◆", "▼", "✚"];

/** The model that a run asked: of a round that several write, the one that its branches are by. @param {Run} run */
const modelOf = ({ model, request }) => /** @type {any} */ (request)?.voice || model;

class Writers {
  constructor() {
    /** @type {Map<string, string>} models by the id of a run, and by that of a run's request */
    this.byId = new Map();
    /** @type {Set<string>} in the order in which they came to the story */
    this.models = new Set();
    /** @type {Set<string>} */
    this.persons = new Set();
    this.size = 0; // of the story when it was read
    /** @type {Story | null} */
    this.story = null;
  }

  /** The voice that wrote a node, if the story has several; "" if not. @param {Story} story @param {Node | undefined} node */
  of(story, node) {
    this.look(story);
    if (node?.by === "person") return this.persons.size < 2 ? "" : String(node.who ?? "");
    if (this.models.size < 2 || node?.run === undefined || isBlind(story, node.run)) return "";
    return this.byId.get(node.request ?? node.run) ?? this.byId.get(node.run) ?? "";
  }

  /** The number of a voice; one that the story does not know yet is the next. @param {Story} story @param {string} name */
  hueOf(story, name) {
    this.look(story);
    if (this.persons.has(name)) return SIGNS.length - ([...this.persons].indexOf(name) % SIGNS.length);
    this.models.add(name);
    return 1 + ([...this.models].indexOf(name) % SIGNS.length);
  }

  /** @param {Story} story */
  look(story) {
    const size = story.runs.size + story.nodes.size;
    if (this.story === story && this.size === size) return;
    this.story = story;
    this.size = size;
    this.byId.clear();
    const runs = [...story.runs.values()].sort((one, other) => one.made - other.made || (one.id < other.id ? -1 : 1));
    for (const run of runs)
      for (const id of [run.id, run.request_id]) if (modelOf(run)) this.byId.set(id, modelOf(run));
    this.models = new Set(this.byId.values());
    this.persons.clear();
    for (const { by, who } of story.nodes.values()) if (by === "person" && who) this.persons.add(String(who));
  }
}

/** Of the story that was asked about last. */
export const WRITERS = new Writers();
