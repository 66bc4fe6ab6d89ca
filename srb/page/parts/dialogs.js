/**
 * Dialogs, which nobody needs before the first word is written: each is loaded when it is first opened, or while the page is
 * idle, so that a server that goes away later takes none of them along.
 */

import { loadLists } from "./side_lists.js";
import { addStyle } from "./styles.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {HTMLElement & {desk: Desk, open: (detail: object) => unknown}} Dialog */
/** @typedef {{load: () => Promise<unknown>, style: URL, further?: () => Promise<unknown>}} Source  `further`: modules that it loads when they are used */

const AT_PLACE = new URL("./at_place.css", import.meta.url);

/** By the names that the desk opens them by; the elements are called `srb-NAME`. @type {Record<string, Source>} */
const SOURCES = {
  alternatives: { load: () => import("./alternatives.js"), style: AT_PLACE },
  stories: { load: () => import("./stories.js"), style: new URL("./stories.css", import.meta.url) },
  settings: { load: () => import("./settings.js"), style: new URL("./settings.css", import.meta.url) },
  help: { load: () => import("./help.js"), style: new URL("./help.css", import.meta.url) },
  formats: {
    load: () => import("./formats.js"),
    style: new URL("./formats.css", import.meta.url),
    further: async () => (await import("../formats/importers.js")).loadAll(),
  },
  map: { load: () => import("./map.js"), style: new URL("./map.css", import.meta.url) },
  reading: { load: () => import("./reading.js"), style: new URL("./reading.css", import.meta.url) },
  palette: { load: () => import("./palette.js"), style: new URL("./palette.css", import.meta.url) },
  grow: { load: () => import("./grow.js"), style: AT_PLACE },
  ask: { load: () => import("./ask.js"), style: AT_PLACE },
  goals: { load: () => import("./goals.js"), style: new URL("./goals.css", import.meta.url) },
  share: { load: () => import("./share.js"), style: new URL("./share.css", import.meta.url) },
  directions: { load: () => import("./directions.js"), style: AT_PLACE },
  overused: { load: () => import("./overused.js"), style: new URL("./overused.css", import.meta.url) },
  task: { load: () => import("./task.js"), style: AT_PLACE },
  note: { load: () => import("./note.js"), style: AT_PLACE },
};

export class LaterDialogs {
  /** @param {Desk} desk @param {Record<string, Source>} [sources] */
  constructor(desk, sources = SOURCES) {
    this.desk = desk;
    this.sources = sources;
    /** @type {Map<string, Promise<Dialog>>} by name */
    this.made = new Map();
    /** @type {Set<string>} names of those that are in the document, and open themselves */
    this.there = new Set();
    this.isHeldUp = false; // a dialog could not be preloaded: the server is away
    desk.addEventListener("server", () => this.isHeldUp && desk.server.state === "ready" && this.preload());
    desk.addEventListener("dialog", (event) => this.open(/** @type {CustomEvent} */ (event).detail));
  }

  /** Open a dialog that is not there yet. @param {{name: string}} detail */
  async open({ name, ...detail }) {
    if (!this.sources[name] || this.there.has(name)) return;
    const loading = new AbortController();
    document.addEventListener("keydown", ignoreTyping, { capture: true, signal: loading.signal });
    try {
      (await this.make(name)).open(detail);
    } catch {
      this.desk.sayNotLoaded();
    } finally {
      loading.abort();
    }
  }

  /** Load the side panel's lists, then all dialogs one after the other, each when the page has nothing else to do. */
  async preload() {
    this.isHeldUp = false;
    for (const name of ["", ...Object.keys(this.sources)]) {
      await idle();
      try {
        await (name ? this.make(name) : loadLists());
        await this.sources[name]?.further?.();
      } catch {
        this.isHeldUp = true; // for when the server is back, or the dialog is opened
        return;
      }
    }
  }

  /** @param {string} name */
  make(name) {
    const known = this.made.get(name);
    if (known) return known;
    const made = this.load(name);
    this.made.set(name, made);
    made.catch(() => this.made.delete(name));
    return made;
  }

  /** @param {string} name @returns {Promise<Dialog>} */
  async load(name) {
    const { load, style } = this.sources[name];
    await Promise.all([load(), addStyle(style)]);
    const dialog = /** @type {Dialog} */ (document.createElement(`srb-${name}`));
    dialog.desk = this.desk;
    document.body.append(dialog);
    this.there.add(name);
    return dialog;
  }
}

/** Keep words that are meant for a dialog which is still being loaded out of the text: they would replace what is selected. @param {KeyboardEvent} event */
function ignoreTyping(event) {
  if (event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

/** Wait until the page is idle; Safari cannot tell. */
function idle() {
  return new Promise((resolve) => (window.requestIdleCallback ?? setTimeout)(resolve));
}
