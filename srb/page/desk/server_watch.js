/** The server's state, asked for again and again: often while something is wrong, seldom while all is well. */

/** @typedef {import("../api.js").Api} Api */
/** @typedef {"loading" | "ready" | "restarting" | "gone" | "key" | "missing" | "failed"} ServerState */
/**
 * @typedef {object} Server
 * @property {ServerState} state
 * @property {string} message the server's own words, where it is not ready
 * @property {number | null} percent how much of the model is loaded, while it is being loaded
 * @property {string} model
 * @property {number} n_ctx longest text in tokens; 0 while unknown
 * @property {{vision: boolean, audio: boolean} | null} [modalities] null while they are not known
 * @property {boolean | null} chat_template null while it is not known
 * @property {import("../behind.js").Fill | null} [fill] the model's tokens for a text with a gap
 * @property {string | null} [lacks] typographic characters that the model's vocabulary has no tokens for
 * @property {string[]} [control_vectors] the moods that it has
 * @property {string[]} [models] their names, where the server has several
 * @property {string | null} [embedding] the name of the one among them that tells what texts mean, if it is at hand
 * @property {string} [status] of the model among them: unloaded, loading or loaded
 * @property {number} max_n
 * @property {number} max_linger seconds
 * @property {number} [max_body_bytes]
 * @property {Record<string, any>} sampling the server's defaults
 * @property {number} n
 * @property {number} max_tokens
 */

const SOON = 1000; // ms between two questions while the server is not ready
const LATER = 15000;
const PATIENCE = 30000; // ms after which a silent server counts as away: a connection may be dead after a sleep

/** @type {Server} */
const UNKNOWN = {
  state: "loading",
  message: "",
  percent: null,
  model: "",
  n_ctx: 0,
  chat_template: false,
  max_n: 64,
  max_linger: 0,
  sampling: {},
  n: 8,
  max_tokens: 128,
};

export class ServerWatch {
  /** @param {Api} api @param {(server: Server) => void} onchange called after each change @param {number} [patience] ms */
  constructor(api, onchange, patience = PATIENCE) {
    this.api = api;
    this.patience = patience;
    this.onchange = onchange;
    this.server = UNKNOWN;
    this.wanted = ""; // the model that is asked about; empty: the server's first
    this.isAwaited = () => false; // whether somebody waits for it
    this.timer = 0;
    this.wasReady = false;
    /** @type {Promise<void> | null} */
    this.asking = null;
  }

  /** Ask about a model from now on. @param {string} model */
  follow(model) {
    if (model === this.wanted) return;
    this.wanted = model;
    this.wasReady = false;
    this.check();
  }

  /** Ask now; one question at a time. */
  check() {
    clearTimeout(this.timer);
    this.asking ??= this.ask().finally(() => {
      this.asking = null;
      const { state, status } = this.server;
      const isWell = state === "ready" && (status !== "unloaded" || !this.isAwaited());
      const isCalm = isWell || state === "key" || state === "missing";
      this.timer = window.setTimeout(() => this.check(), isCalm ? LATER : SOON);
    });
    return this.asking;
  }

  stop() {
    clearTimeout(this.timer);
  }

  /** @returns {Promise<void>} */
  async ask() {
    const { wanted } = this;
    const server = await this.answer(wanted);
    return wanted === this.wanted ? this.become(server) : this.ask();
  }

  /** @param {string} wanted @returns {Promise<Server>} */
  async answer(wanted) {
    try {
      const query = wanted && `?model=${encodeURIComponent(wanted)}`;
      const said = await this.api.get(`v1/srb/server${query}`, { signal: AbortSignal.timeout(this.patience) });
      return { ...said, state: "ready", message: "", percent: null };
    } catch (error) {
      const { status = 0, message = "", body } = /** @type {Partial<import("../api.js").ApiError>} */ (error);
      const { engine, percent = null, models = this.server.models, model: named } = body?.error ?? {};
      const state = status === 404 && body?.error?.models ? "missing" : this.stateOf(status, engine, models);
      const model = named || (models && wanted) || this.server.model;
      return { ...this.server, model, models, status: undefined, state, message, percent };
    }
  }

  /**
   * @param {number} status
   * @param {string | undefined} engine the engine's state in the server's words
   * @param {string[] | undefined} models where there are several, one that was unloaded is loaded again
   * @returns {ServerState}
   */
  stateOf(status, engine, models) {
    if (status === 401) return "key";
    if (status === 0 || status === 502 || status === 504) return "gone";
    if (status !== 503 || engine === "failed") return "failed";
    return engine === "loading" && (models || !this.wasReady) ? "loading" : "restarting";
  }

  /** @param {Server} server */
  become(server) {
    this.wasReady ||= server.state === "ready";
    const changed = JSON.stringify(server) !== JSON.stringify(this.server);
    this.server = server;
    if (changed) this.onchange(server);
  }
}
