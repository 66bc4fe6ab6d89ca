// Views of the branches' pane that are not cards: its header, the phone's bar, and its dialogs.

import { keyOf } from "../../desk/meaning.js";
import { quoted } from "../../desk/moves.js";
import { continuedWords } from "../../desk/seam.js";
import { msg, TENTHS } from "../../languages.js";
import { EACH } from "../../tasks.js";
import { html, nothing } from "../../vendor/lit.js";
import { icon } from "../icons.js";
import { keyName } from "../key_names.js";
import { CARD_GESTURES, isMarked, PANE_GESTURES } from "./gestures.js";
import { seamHead } from "./seam.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../round.js").Slot} Slot */

/** @type {[string, string][]} */
const BUTTONS = [
  ["refill", msg`Try others`],
  ["sort", msg`Sort`],
  ["following", msg`By what follows`],
  ["meaning", msg`By meaning`],
  ["likelihood", msg`Likelihood`],
  ["fold", msg`Group`],
  ["alike", msg`Group alike`],
  ["filter", msg`Filter`],
  ["more", msg`More`],
  ["stop", msg`Stop`],
];

/** @param {Pane} pane */
export function head(pane) {
  const { seam } = pane.desk;
  if (seam) return seamHead(pane, seam);
  return html`<header class="branches-head">
    <h2 class="hidden-words">${msg`Branches`}</h2>
    <p class="counts">${progress(pane) ?? [pane.counts, gapWords(pane)].filter(Boolean).join(" ")}
      ${differentWords(pane)}</p>
    <div class="buttons" role="group" aria-label=${msg`All branches`}>${paneButtons(pane)}</div>
  </header>`;
}

/** @param {Pane} pane */
function paneButtons(pane) {
  const { round } = pane;
  const slot = /** @type {Slot} */ (pane.board?.currentCard?.slot);
  const tree = html`<button data-act="tree" aria-pressed=${pane.isTree} ?disabled=${!round || pane.isCovered} title=${msg`Show shared beginnings once`}>
    ${msg`Tree`}</button>`;
  const others = BUTTONS.map(([name, words]) => {
    const gesture = PANE_GESTURES[name];
    if (name === "likelihood") return pane.tellsLikelihood ? likelihoodButton(pane) : nothing;
    if (name === "following" && !pane.leadsOn) return nothing;
    if ((name === "meaning" || name === "alike") && !pane.tellsMeaning) return nothing;
    const isOn = round && (!pane.isCovered || name === "stop") && (gesture?.can?.(pane, slot) ?? true);
    return html`<button data-act=${name} title=${titleOf(gesture)} ?disabled=${!isOn}>${words}</button>`;
  });
  return [tree, ...others];
}

/** @param {import("./gestures.js").Gesture | undefined} gesture */
const titleOf = (gesture) => [gesture?.label, gesture?.key && `(${keyName(gesture.key)})`].filter(Boolean).join(" ");

/** The switch of what *Sort* brings with it. @param {Pane} pane */
function likelihoodButton({ desk }) {
  const isShown = desk.settings.likelihood === true;
  return html`<button data-act="likelihood" aria-pressed=${isShown} title=${msg`Bars: how likely the model finds each text`}>${msg`Likelihood`}</button>`;
}

/** Where cards go that stand in the middle of the text. @param {Pane} pane */
function gapWords({ desk, round }) {
  if (!round) return "";
  const { passage, task } = round;
  const place = passage
    ? msg`in place of ${quoted(passage)}`
    : round.isInside
      ? msg`after “${continuedWords(desk.story, round)}”`
      : "";
  const asked = task && task.verb !== EACH.verb ? msg`as asked: ${quoted(task.instruction)}` : "";
  const choice = round.wanted && !round.isChosen ? msg`for ${round.wanted} cards` : "";
  return [place, asked, choice].filter(Boolean).join(", ");
}

/** How many of the cards really differ, while they have the texts that were compared. @param {Pane} pane */
function differentWords({ round }) {
  const { meaning } = round ?? {};
  if (!round || !meaning || meaning.key !== keyOf(round)) return nothing;
  const [different, count] = [TENTHS.format(meaning.different), meaning.order.length];
  const isByWords = meaning.by === "words";
  const title = isByWords
    ? msg`As many really different texts as these cards have by their words: 1.0 if all have the same, ${count} if none has a word of another. With a model for embeddings the server compares what they mean.`
    : msg`As many really different texts as these cards have in what they mean: 1.0 if all say the same, ${count} if none says anything of another.`;
  const words = isByWords ? msg`${different} of ${count} differ in their words` : msg`${different} of ${count} differ`;
  return html`<span class="different" tabindex="0" title=${title}>${words}</span>`;
}

/** How far the model has read the text, before the first branch runs. It stands in the place of the counts, so nothing moves.
 * @param {Pane} pane */
function progress(pane) {
  const { state, progress } = pane.round ?? {};
  if (state !== "reading") return null;
  if (!progress) return msg`reading your text …`;
  const { processed, total } = progress;
  const percent = total ? Math.floor((100 * processed) / total) : 0;
  return html`<progress max="100" value=${percent} aria-label=${msg`Your text is read`}></progress> ${msg`reading your text: ${percent} %`}`;
}

/** The buttons under the cards of a phone, for the card in view. @param {Pane} pane */
export function phoneBar(pane) {
  const { round, board } = pane;
  const slot = board?.currentCard?.slot;
  if (!round || !slot) return nothing;
  return html`<div class="phone-bar">
    <div class="buttons" role="group" aria-label=${msg`This card`}>
      ${!isMarked(slot) ? nothing : html`<button data-act="takeWhole">${msg`Take`}</button>`}
      <button class="main" data-act="take" ?disabled=${!round.canTake(slot) && !slot.isLive}>
        ${!isMarked(slot) ? msg`Take` : msg`Take what is marked`}</button>
      <button data-act="prune" aria-label=${msg`Set aside`} ?disabled=${!round.canPrune(slot)}>${icon("prune")}</button>
      <button data-act="more">${msg`More`}</button>
      <button data-act="refill" ?disabled=${!round.slots.some((each) => round.canRefill(each))}>${msg`Others`}</button>
      <button data-act="menu" aria-label=${msg`All that can be done`}>${icon("more")}</button>
    </div>
  </div>`;
}

/** All gestures, with their keys. @param {Pane} pane */
export function menu(pane) {
  const slot = pane.board?.currentCard?.slot;
  const items = slot ? Object.entries({ ...CARD_GESTURES, ...PANE_GESTURES }) : [];
  return html`<dialog class="menu" aria-label=${msg`What can be done with this card`}>
    <ul>${items.map(
      ([
        name,
        { label, key, can },
      ]) => html`<li><button data-act=${name} ?disabled=${!!slot && can !== undefined && !can(pane, slot)}>
        <span>${label}</span>${key ? html`<kbd>${keyName(key)}</kbd>` : nothing}</button></li>`,
    )}</ul>
    <button data-act="closeMenu">${msg`Close`}</button>
  </dialog>`;
}

/** @param {() => void} onkeep @param {ReturnType<typeof import("../draft_field.js").draftField>} field */
export function noteDialog(onkeep, { input, keydown }) {
  return html`<dialog class="note" aria-label=${msg`Note`}>
    <form method="dialog" @submit=${onkeep}>
      <label>${msg`Note on this branch`} <textarea name="note" rows="4" @input=${input} @keydown=${keydown}></textarea></label>
      <p><button class="main">${msg`Keep the note`}</button> <button type="button" data-act="closeNote">${msg`Cancel`}</button></p>
    </form>
  </dialog>`;
}
