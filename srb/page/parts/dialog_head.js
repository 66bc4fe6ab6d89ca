// The head of a dialog: its name, by which it is known as `NAME-title`, and the way out.

import { html } from "../vendor/lit.js";
import { closeButton } from "./icons.js";

/** @param {import("./part.js").DialogPart} dialog @param {unknown} title */
export const dialogHead = (dialog, title) => html`<div class="dialog-head">
  <h2 id="${dialog.dialogName}-title">${title}</h2>
  ${closeButton(() => dialog.close())}
</div>`;
