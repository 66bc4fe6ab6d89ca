/**
 * The server's story routes, and its troubles as the page tells them.
 *
 * @import {Api} from "../api.js"
 * @import {Wire} from "../story/types.js"
 */
import { msg } from "../languages.js";

const ROOT = "v1/srb/stories";
/** Milliseconds after which a silent server counts as away. */
const PATIENCE = 30_000;

const patiently = (times = 1) => ({ signal: AbortSignal.timeout(times * PATIENCE) });

/** @typedef {{node: string, reason: string, message: string}} Refused  a node that was not stored, and why */
/**
 * @typedef {Wire & {id: string, server: string, seq: number, deleted?: number, refused?: Refused[], room?: Room, owner?: string, access?: "read" | "write"}} Answer
 *   a story's number after a post or a read, and all that the sender lacked; `room` if the story is nearly full, `owner` and `access` if another shares it
 */
/** @typedef {{used: number, nodes: number, bytes: number}} Room  percent that is taken, and what may still come */
/** @typedef {{id: string, title: string, changed: number, nodes: number, words?: number, opening?: string, deleted?: number, owner?: string, access?: "read" | "write"}} Listed */
/** @typedef {{owner: string, access: "read" | "write"}} Share  another's story */
/** @typedef {{seq: number, server?: string, room?: Room, share?: Share}} Known  what this page has of a story: up to which number, of which file */

/**
 * A save that failed. `off`: the server keeps no stories; `read_only`: it can only read them; `refused`: the same post would be
 * refused again; `away`: it may succeed later.
 */
export class Trouble {
  /**
   * @param {"off" | "read_only" | "refused" | "away"} kind
   * @param {string} message  a sentence
   */
  constructor(kind, message) {
    this.kind = kind;
    this.message = message;
  }

  /**
   * @param {unknown} error
   * @returns {Trouble}
   */
  static of(error) {
    const { status = 0, code = "", message = "", body } = /** @type {Partial<import("../api.js").ApiError>} */ (error);
    if (code === "stories_off")
      return new Trouble("off", msg`This server keeps no stories: they are kept in this browser only.`);
    if (code === "stories_read_only")
      return new Trouble("read_only", msg`The server cannot save: ${sentence(message)}`);
    if (code.startsWith("stories_")) return new Trouble("away", msg`The server cannot save: ${sentence(message)}`);
    const isAnothers = body?.error?.owner !== undefined; // a story that may only be read
    if (isAnothers || [400, 404, 405, 413, 415, 422].includes(status))
      return new Trouble("refused", msg`The server refused to save: ${sentence(message)}`);
    if (status === 401) return new Trouble("away", msg`The server wants its API key before it saves.`);
    if (status === 403) return new Trouble("away", msg`The server does not let this page save: ${sentence(message)}`);
    if (status === 0) return new Trouble("away", msg`The server cannot be reached.`);
    return new Trouble("away", msg`The server cannot save now: ${sentence(message)}`);
  }
}

/** @param {string} message */
const sentence = (message) => (/[.!?]$/.test(message) ? message : `${message}.`);

/** @param {unknown} error */
export const isMissing = (error) => {
  const { status, code } = /** @type {Partial<import("../api.js").ApiError>} */ (error);
  return status === 404 && code !== "stories_off";
};

export class StoryServer {
  /** Whether the server keeps stories, as far as its last answer says. */
  isOn = true;

  /** @param {Pick<Api, "get" | "post" | "send" | "base">} api */
  constructor(api) {
    this.api = api;
  }

  /**
   * @template T
   * @param {Promise<T>} answer
   * @returns {Promise<T>}
   */
  async #note(answer) {
    try {
      const value = await answer;
      this.isOn = true;
      return value;
    } catch (error) {
      if (Trouble.of(error).kind === "off") this.isOn = false;
      throw error;
    }
  }

  /**
   * @param {boolean} [binned]
   * @returns {Promise<{stories: Listed[], state: "ok" | "full" | "read_only" | "checking", server: string, person?: string}>}
   */
  list(binned = false) {
    return this.#note(this.api.get(binned ? `${ROOT}?deleted=1` : ROOT, patiently()));
  }

  /**
   * Return all of a story that is newer than what is known, or null if nothing is.
   * @param {string} id
   * @param {Known | null} [known]
   * @returns {Promise<Answer | null>}
   */
  read(id, known = null) {
    const query = known?.server ? `?since=${known.seq}&server=${encodeURIComponent(known.server)}` : "";
    return this.#note(this.api.get(`${path(id)}${query}`, patiently()));
  }

  /**
   * Save a part of a story.
   * @param {string} id
   * @param {Wire} wire
   * @param {Known | null} known  then the answer has all that is newer
   * @param {{keepalive?: boolean, signal?: AbortSignal}} [options]
   * @returns {Promise<Answer>}
   */
  post(id, wire, known, options = patiently()) {
    const body = known === null ? wire : { ...wire, since: known.seq, server: known.server };
    return this.#note(this.api.post(path(id), body, options));
  }

  /**
   * Save nodes that are too large for a post. Files may be larger.
   * @param {string} id
   * @param {Required<Wire>["nodes"]} nodes
   */
  postFile(id, nodes) {
    return this.#note(this.api.post(ROOT, { format: "srb-story", version: 1, id, nodes }, patiently(10)));
  }

  /** @param {string} id */
  remove(id) {
    return this.#note(this.api.send("DELETE", path(id), undefined, patiently()));
  }

  /** @param {string} id */
  restore(id) {
    return this.#note(this.api.post(`${path(id)}/restore`, {}, patiently()));
  }
}

/** @param {Answer} answer @returns {Share | undefined} */
export const shareOf = ({ owner, access }) => (owner === undefined || !access ? undefined : { owner, access });

/** @param {string} id */
const path = (id) => `${ROOT}/${encodeURIComponent(id)}`;
