/** The lists of the side panel, which nobody needs before it is first open: loaded then, or while the page is idle. */

import { addStyle } from "./styles.js";

/** @type {Promise<unknown> | null} */
let loading = null;

/** Resolves when they can be drawn. After a failure the next call tries again. */
export function loadLists() {
  loading ??= Promise.all([
    import("./plan.js"),
    import("./lorebook.js"),
    import("./comments.js"),
    addStyle(new URL("./plan.css", import.meta.url)),
    addStyle(new URL("./lorebook.css", import.meta.url)),
    addStyle(new URL("./comments.css", import.meta.url)),
  ]).catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}
