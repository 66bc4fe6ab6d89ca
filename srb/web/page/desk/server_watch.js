/** The server's state, asked for again and again: often while something is wrong, seldom while all is well. */

/** @typedef {import("../api.js").Api} Api */
/** @typedef {"loading" | "ready" | "restarting" | "gone" | "key" | "failed"} ServerState */
/**
 * @typedef {object} Server
 * @property {ServerState} state
 * @property {string} message the server's own words, where it is not ready
 * @property {number | null} percent how much of the model is loaded, while it is being loaded
 * @property {string} model
 * @property {number} n_ctx longest text in tokens; 0 while unknown
 * @property {{vision: boolean, audio: boolean}} [modalities]
 * @property {boolean} chat_template
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
    this.timer = 0;
    this.wasReady = false;
    /** @type {Promise<void> | null} */
    this.asking = null;
  }

  /** Ask now; one question at a time. */
  check() {
    clearTimeout(this.timer);
    this.asking ??= this.ask().finally(() => {
      this.asking = null;
      const wait = this.server.state === "ready" || this.server.state === "key" ? LATER : SOON;
      this.timer = window.setTimeout(() => this.check(), wait);
    });
    return this.asking;
  }

  stop() {
    clearTimeout(this.timer);
  }

  async ask() {
    try {
      const said = await this.api.get("v1/srb/server", { signal: AbortSignal.timeout(this.patience) });
      this.become({ ...said, state: "ready", message: "", percent: null });
    } catch (error) {
      const { status = 0, message, body } = /** @type {Partial<import("../api.js").ApiError>} */ (error);
      const { engine, percent = null } = body?.error ?? {};
      this.become({ ...this.server, state: this.stateOf(status, engine), message: message ?? "", percent });
    }
  }

  /** @param {number} status @param {string | undefined} engine the engine's state in the server's words @returns {ServerState} */
  stateOf(status, engine) {
    if (status === 401) return "key";
    if (status === 0 || status === 502 || status === 504) return "gone";
    if (status !== 503 || engine === "failed") return "failed";
    return engine === "loading" && !this.wasReady ? "loading" : "restarting";
  }

  /** @param {Server} server */
  become(server) {
    this.wasReady ||= server.state === "ready";
    const changed = JSON.stringify(server) !== JSON.stringify(this.server);
    this.server = server;
    if (changed) this.onchange(server);
  }
}
