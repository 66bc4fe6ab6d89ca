// The head of cards that go on from other words than the text has now: which words, and where a card that is taken goes.

import { html, nothing } from "../../vendor/lit.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../desk.js").Desk} Desk */

/** @type {[import("../../desk/seam.js").Choice, string][]} */
const CHOICES = [
  ["after", "after my words"],
  ["instead", "in place of them"],
];

/** @param {Pane} pane @param {NonNullable<Desk["seam"]>} seam */
export function seamHead(pane, { from, typed }) {
  const { desk } = pane;
  const act = (/** @type {() => unknown} */ run) => () => {
    run();
    pane.focus(); // the button goes; and the next key takes a card
  };
  const rest = typed ? "" : ", which is not in the text any more.";
  return html`<header class="branches-head seam">
    <h2 class="hidden-words">Branches</h2>
    <p role="status" title="${from}">These go on from “${from}”${rest}</p>
    <div class="acts">
      ${
        typed
          ? html`<div class="choices" role="group" aria-label="Take a card"><span aria-hidden="true">Take</span>
            ${CHOICES.map(
              ([choice, words]) => html`<button aria-pressed=${desk.choice === choice}
                @click=${act(() => desk.setChoice(choice))}>${words}</button>`,
            )}</div>`
          : nothing
      }
      <button class="new-round" title="Go on from the text as it is now" @click=${act(() => desk.go())}>New round</button>
    </div>
  </header>`;
}
