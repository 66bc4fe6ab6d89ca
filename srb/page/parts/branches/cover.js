// What stands in the place of the cards while a person writes first.

import { msg } from "../../languages.js";
import { html } from "../../vendor/lit.js";

export const YOURS_FIRST = msg`Your own sentence first: the cards open when it stands.`;

/** @param {import("../branches.js").Branches} pane */
export function cover(pane) {
  const open = () => {
    pane.desk.rounds?.uncover();
    pane.updateComplete.then(() => pane.focus());
  };
  return html`<div class="cover"><p role="status">${YOURS_FIRST}</p>
    <button @click=${open}>${msg`Show them now`}</button></div>`;
}
