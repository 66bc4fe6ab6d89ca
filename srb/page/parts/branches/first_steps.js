// Words in the place of the cards while there is no round: how one begins, sentences to begin with, and a story to look at.

import { openSample } from "../../desk/sample.js";
import { msg } from "../../languages.js";
import { html, nothing } from "../../vendor/lit.js";
import { msgHtml } from "../msg_html.js";

/** @typedef {import("../branches.js").Branches} Pane */

/** First sentences of stories, each of another kind. */
const OPENINGS = [
  msg`Once upon a time, there was a lighthouse at the edge of the world.`,
  msg`The letter arrived on a Tuesday, eleven years late.`,
  msg`Nobody in the village spoke of the old mill, but everybody knew who lived there.`,
];

const BEGUN = "srb.begun"; // set when this browser has shown cards

/** From now on this browser's person knows how a round begins. */
export function noteBegun() {
  try {
    localStorage.setItem(BEGUN, "yes");
  } catch {
    // full or switched off: it is told again
  }
}

function isBegun() {
  try {
    return localStorage.getItem(BEGUN) !== null;
  } catch {
    return false;
  }
}

/** @param {Pane} pane */
export function firstSteps({ desk }) {
  const isEmpty = !desk.text?.trim();
  const sample = () =>
    openSample(desk).catch((/** @type {Error} */ error) =>
      desk.notice(error.message, "error", { label: msg`Try again`, run: sample }),
    );
  return html`<div class="first-steps" tabindex="-1">
    ${
      desk.text
        ? nothing
        : html`<div class="openings"><p>${msg`Or begin with one of these:`}</p>
            ${OPENINGS.map((text) => html`<button class="opening" @click=${() => desk.begin(text)}>${text}</button>`)}
          </div>`
    }
    <ol ?hidden=${!isEmpty && isBegun()}>
      <li>${msg`Write how a story begins: “Once upon a time,” will do.`}</li>
      <li>${msgHtml`Press Continue<span class="keys"> or <kbd>Ctrl</kbd>+<kbd>Enter</kbd></span>: ${desk.settings?.n ?? msg`several`} continuations grow here, side by side.`}</li>
      <li>${msgHtml`Take one: its button<span class="keys">, or <kbd>F6</kbd> and its digit</span>; click a word first to take it only so far.`}
        ${msgHtml`The others stay in the outline, and Undo<span class="keys"> (<kbd>Ctrl</kbd>+<kbd>Z</kbd>)</span> goes back.`}</li>
    </ol>
    <p class="buttons">
      ${isEmpty ? nothing : html`<button class="main" data-act="begin">${msg`Go on from my text`}</button>`}
      ${isEmpty ? html`<button @click=${sample}>${msg`Open a sample story`}</button>` : nothing}
      <button @click=${() => desk.openDialog("help")}>${msg`All keys`}</button>
    </p>
  </div>`;
}
