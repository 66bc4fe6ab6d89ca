/**
 * The voices of a round: models of the server, or adapters (LoRA) of the one model that it has, among which the branches are shared.
 * A story that names none beside its own model has one voice, "".
 */

import { msg } from "../languages.js";
import { Context } from "./context.js";

/** @typedef {import("./context.js").Asked} Asked */
/** @typedef {import("./server_watch.js").Server} Server */
/** @typedef {{asked: Asked, context: Context, fields: Record<string, unknown>}} Voice   `fields`: what makes a request this voice's */
/** @typedef {{id: number, path: string, scale: number}} Adapter */

export const ALONE = Object.freeze([""]);
export const MOST_VOICES = 3; // each takes a connection of the three that rounds may hold

/** The name of an adapter: its file's, without folder and ending. @param {Adapter} adapter */
export const adapterName = ({ path }) => path.replace(/^.*[/\\]/, "").replace(/\.gguf$/i, "");

export class Voices {
  /** @param {import("../desk.js").Desk} desk */
  constructor(desk) {
    this.desk = desk;
    /** @type {Map<string, Voice>} by name */
    this.known = new Map([["", { asked: desk, context: new Context(desk), fields: {} }]]);
  }

  /** The story's own model. */
  get own() {
    return this.of("").context;
  }

  /** @param {string} name of a voice that is known, or of one that the server has no more: the story's own model then @returns {Voice} */
  of(name) {
    return /** @type {Voice} */ (this.known.get(name) ?? this.known.get(""));
  }

  forget() {
    for (const { context } of this.known.values()) context.forget();
  }

  /** The voices of the next round: the story's own model and those that it names. @returns {readonly string[] | Promise<readonly string[]>} */
  next() {
    const { settings, server } = this.desk;
    const own = settings.model || server.model;
    const others = settings.voices.filter((name) => name !== own);
    return others.length && own ? this.find([own, ...others].slice(0, MOST_VOICES)) : ALONE;
  }

  /** Return those of some voices that the server has, and say which it has not; ALONE if they are fewer than two. @param {string[]} names */
  async find(names) {
    const there = await this.learnAll(names);
    const gone = names.filter((name) => !there.includes(name)).map((name) => msg`“${name}”`);
    if (gone.length)
      this.desk.notice(msg`This server has no model ${gone.join(msg` and no model `)}: the round goes without.`);
    return there.length < 2 ? ALONE : there;
  }

  /** Learn the voices of a round of the past; one that the server has no more is the story's own model now. @param {readonly string[]} names */
  async recall(names) {
    if (names.some((name) => !this.known.has(name))) await this.learnAll(names);
  }

  /** Ask the server about voices, and return those that it has. @param {readonly string[]} names */
  async learnAll(names) {
    const { server, api } = this.desk;
    const adapters = server.models ? [] : await api.get("lora-adapters");
    const found = await Promise.all(
      names.map((name) => (server.models ? this.learnModel(name) : this.learnAdapter(name, adapters))),
    );
    return names.filter((_, place) => found[place]);
  }

  /** @param {string} name */
  async learnModel(name) {
    if (!this.desk.server.models?.includes(name)) return false;
    this.learn(name, await this.describe(name), { model: name }, {});
    return true;
  }

  /** Return what the server says of a model; one that was not loaded yet is like the story's own, without what depends on it.
   * @param {string} model @returns {Promise<Server>} */
  async describe(model) {
    const { server } = this.desk;
    const unknown = { n_ctx: 0, modalities: null, chat_template: null, fill: null, lacks: null };
    try {
      return { ...server, ...(await this.desk.api.get(`v1/srb/server?model=${encodeURIComponent(model)}`)) };
    } catch {
      return { ...server, ...unknown, model }; // it is being loaded, or cannot be: its request says why
    }
  }

  /** @param {string} name @param {Adapter[]} adapters */
  async learnAdapter(name, adapters) {
    const { server } = this.desk;
    const adapter = adapters.find((each) => adapterName(each) === name);
    if (!adapter && name !== server.model) return false;
    this.learn(name, server, {}, adapter ? { lora: [{ id: adapter.id, scale: adapter.scale || 1 }] } : {});
    return true;
  }

  /** @param {string} name @param {Server} server @param {{model?: string}} own @param {Record<string, unknown>} fields */
  learn(name, server, own, fields) {
    const { desk } = this;
    const known = this.known.get(name);
    const context = known?.context ?? new Context(desk, { server, settings: desk.settings }, this.own.media.outbox);
    const mode = server.chat_template === false ? "text" : desk.settings.mode;
    Object.assign(context.asked, { server, settings: { ...desk.settings, ...own, mode } });
    this.known.set(name, { asked: context.asked, context, fields });
  }
}
