/**
 * The rest of the page, which nobody needs before the first word is written: rounds and their cards, outline, messages, dialogs.
 * It is loaded as soon as the caret is in the manuscript, or when something asks for it; what the desk says meanwhile waits.
 */

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("./rest.js").Rest} Rest */

const AGAIN = 2000; // ms
const HELD = ["notice", "withdrawn", "dialog", "side"]; // topics of the desk for parts that are not there yet

export class Later {
  /** @param {Desk} desk @param {HTMLElement} root */
  constructor(desk, root) {
    this.desk = desk;
    this.root = root;
    /** @type {Promise<Rest> | null} */
    this.loading = null;
    /** @type {CustomEvent[]} */
    this.held = [];
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    for (const topic of HELD) desk.addEventListener(topic, (event) => this.hold(event), { signal });
    desk.addEventListener("server", () => this.serverChanged(), { signal });
  }

  /** @param {Event} event */
  hold(event) {
    this.held.push(/** @type {CustomEvent} */ (event));
    this.load().catch(() => {});
  }

  /** Load what says that the server is not ready. */
  serverChanged() {
    if (this.desk.server.state !== "ready") this.load().catch(() => {});
  }

  /** Resolves when the rest is there. After a failure it is loaded again and again: the server is away. */
  load() {
    this.loading ??= this.add().catch((error) => {
      this.loading = null;
      window.setTimeout(() => this.load().catch(() => {}), AGAIN);
      throw error;
    });
    return this.loading;
  }

  /** @returns {Promise<Rest>} */
  async add() {
    const { desk, root } = this;
    const [{ addRest }] = await Promise.all([import("./rest.js"), desk.loadRounds()]);
    const rest = await addRest(desk, root);
    this.listeners.abort();
    for (const { type, detail } of this.held) desk.tell(type, detail);
    rest.dialogs.preload();
    return rest;
  }
}
