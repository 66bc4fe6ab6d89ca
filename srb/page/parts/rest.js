/** All parts that are not needed until the caret is in the manuscript, with their styles. */

import "./branches.js";
import { takesDragged } from "./branches/drag.js";
import { caretInView } from "./caret_in_view.js";
import { clipboard } from "./clipboard.js";
import { LaterDialogs } from "./dialogs.js";
import "./file_drops.js";
import { farLine } from "./far_line.js";
import { focusEnd, typewriter } from "./focus_mode.js";
import { divider, sheetHandle } from "./layout.js";
import "./outline.js";
import "./goals_line.js";
import { bindOwnKeys } from "./palette/own_keys.js";
import "./pictures.js";
import { showComments } from "./comment_marks.js";
import { findPanel } from "./find_panel.js";
import { showGap } from "./gap_mark.js";
import { showGhost } from "./ghost.js";
import { bindPrint } from "./print.js";
import { proseMarkdown } from "./prose_markdown.js";
import "./side_panel.js";
import "./status.js";
import { addStyle } from "./styles.js";
import { typedSigns } from "./typed_signs.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {HTMLElement & {ask: (message: string) => Promise<{key: string, remember: boolean} | null>}} KeyDialog */
/** @typedef {{key: KeyDialog, dialogs: LaterDialogs}} Rest */

const STYLES = [
  new URL("./faces.css", import.meta.url),
  new URL("./controls.css", import.meta.url),
  new URL("./branches.css", import.meta.url),
  new URL("./card.css", import.meta.url),
  new URL("./outline.css", import.meta.url),
  new URL("./side_panel.css", import.meta.url),
  new URL("./status.css", import.meta.url),
  new URL("./file_drops.css", import.meta.url),
  new URL("./print.css", import.meta.url),
  new URL("./focus_mode.css", import.meta.url),
];

/** @param {Desk} desk @param {HTMLElement} root of the panes @returns {Promise<Rest>} */
export async function addRest(desk, root) {
  /** @type {import("./manuscript.js").Manuscript | null} */ (desk.manuscript)?.extend([
    caretInView,
    clipboard(),
    farLine,
    proseMarkdown,
    findPanel,
    typewriter(desk),
    typedSigns(desk),
    takesDragged(desk),
  ]); // the caret's line is seen before panes come
  await Promise.all(STYLES.map(addStyle));
  const make = (/** @type {string} */ name) => {
    const part = /** @type {HTMLElement & {desk: Desk}} */ (document.createElement(name));
    part.desk = desk;
    return part;
  };
  root.querySelector("srb-header")?.after(make("srb-banner"));
  root.querySelector("main")?.before(make("srb-side-panel"));
  root.append(sheetHandle(root, desk), make("srb-branches"), make("srb-outline"), divider(root)); // by keys: text, cards
  bindPrint(desk);
  bindOwnKeys(desk);
  showGap(desk);
  showGhost(desk);
  document.querySelector("srb-header .facts")?.append(make("srb-goals-line"));
  showComments(desk);
  const key = /** @type {any} */ (make("srb-key"));
  document.body.append(focusEnd(desk), make("srb-status"), make("srb-file-drops"), make("srb-pictures"), key);
  return { key, dialogs: new LaterDialogs(desk) };
}
