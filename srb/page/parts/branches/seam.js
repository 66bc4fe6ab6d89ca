// The head of cards that go on from other words than the text has now: which words, and where a card that is taken goes.

import { quoted } from "../../desk/moves.js";
import { msg } from "../../languages.js";
import { html, nothing } from "../../vendor/lit.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../desk.js").Desk} Desk */

/** @type {[import("../../desk/seam.js").Choice, string][]} */
const CHOICES = [
  ["after", msg`after my words`],
  ["instead", msg`in place of them`],
];

/** @param {Pane} pane @param {NonNullable<Desk["seam"]>} seam */
export function seamHead(pane, seam) {
  const { from, typed } = seam;
  const { desk } = pane;
  const act = (/** @type {() => unknown} */ run) => () => {
    run();
    pane.focus(); // the button goes; and the next key takes a card
  };
  return html`<div class="branches-head seam">
    <h2 class="hidden-words">${msg`Branches`}</h2>
    <p role="status" title="${seam.passage || from}">${wordsOf(seam)}</p>
    <div class="acts">
      ${
        typed
          ? html`<div class="choices" role="group" aria-label=${msg`Take a card`}><span aria-hidden="true">${msg`Take`}</span>
            ${CHOICES.map(
              ([choice, words]) => html`<button aria-pressed=${desk.choice === choice}
                @click=${act(() => desk.setChoice(choice))}>${words}</button>`,
            )}</div>`
          : nothing
      }
      <button class="new-round" title=${msg`Go on from the text as it is now`} @click=${act(() => desk.go())}>${msg`New round`}</button>
    </div>
  </div>`;
}

/** What the cards were asked for. @param {NonNullable<Desk["seam"]>} seam */
function wordsOf({ from, typed, passage }) {
  if (passage) return msg`These are for the passage as it was: ${quoted(passage)}`;
  if (from === "") return msg`These were to begin the text`;
  return typed ? msg`These go on from “${from}”` : msg`These go on from “${from}”, which is not in the text any more.`;
}
