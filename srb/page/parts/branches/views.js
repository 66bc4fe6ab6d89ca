// Views of the branches' pane that are not cards: its header, the phone's bar, and its dialogs.

import { keyOf } from "../../desk/meaning.js";
import { quoted } from "../../desk/moves.js";
import { continuedWords, plainWords } from "../../desk/seam.js";
import { msg, TENTHS } from "../../languages.js";
import { EACH } from "../../tasks.js";
import { html, nothing } from "../../vendor/lit.js";
import { icon } from "../icons.js";
import { keyName } from "../key_names.js";
import { CARD_GESTURES, isMarked, PANE_GESTURES } from "./gestures.js";
import { seamHead } from "./seam.js";

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../../round.js").Slot} Slot */

const AROUND = 64; // characters of the words that the cards go on from

/** The orders and groups of the cards, in the menu. @type {[string, string][]} */
const ORDERS = [
  ["unsort", msg`As written`],
  ["sort", msg`Likeliest first`],
  ["following", msg`By what follows`],
  ["meaning", msg`By meaning`],
  ["fold", msg`Group the same`],
  ["alike", msg`Group alike`],
];

/** @param {Pane} pane */
export function head(pane) {
  const { seam } = pane.desk;
  if (seam) return seamHead(pane, seam);
  return html`<div class="branches-head">
    <h2 class="hidden-words">${msg`Branches`}</h2>
    <p class="counts">${progress(pane) ?? [pane.counts, gapWords(pane)].filter(Boolean).join(" ")}
      ${differentWords(pane)}</p>
    <div class="buttons" role="group" aria-label=${msg`All branches`}>${pane.round && paneButtons(pane)}</div>
  </div>`;
}

/** @param {Pane} pane */
function paneButtons(pane) {
  const { isTree, isRunning, filters, round } = pane;
  const slot = /** @type {Slot} */ (pane.board?.currentCard?.slot);
  const can = (/** @type {string} */ name) => !pane.isCovered && (PANE_GESTURES[name].can?.(pane, slot) ?? true);
  const button = (/** @type {string} */ name, /** @type {string} */ words) =>
    html`<button data-act=${name} title=${titleOf(PANE_GESTURES[name])} ?disabled=${pane.isCovered}>${words}</button>`;
  const toggle = (/** @type {string} */ name, /** @type {string} */ words, /** @type {boolean} */ isOn) =>
    html`<button class="sign" data-act=${name} aria-label=${words} aria-pressed=${isOn} title=${titleOf(PANE_GESTURES[name])} ?disabled=${pane.isCovered}>${icon(name)}</button>`;
  return [
    can("refill") ? button("refill", msg`Try others`) : nothing,
    button("more", msg`More`),
    html`<button popovertarget="cards-order" ?disabled=${pane.isCovered}>${msg`Sort`} ${icon("down")}</button>`,
    html`<div id="cards-order" class="list" popover @toggle=${placeList}>${ORDERS.map(([name, words]) => (can(name) ? button(name, words) : nothing))}
      ${pane.tellsLikelihood ? likelihoodButton(pane) : nothing}</div>`,
    toggle("tree", msg`Tree`, isTree),
    toggle("filter", msg`Filter`, filters.isOpen),
    isRunning && round
      ? html`<button data-act="stop" title=${titleOf(PANE_GESTURES.stop)}>${msg`Stop`}</button>`
      : nothing,
  ];
}

/** Let a list that opens stand below its button. @param {Event} event */
function placeList({ target }) {
  const list = /** @type {HTMLElement} */ (target);
  const button = list.previousElementSibling?.getBoundingClientRect() ?? new DOMRect();
  list.style.top = `${button.bottom + 4}px`;
  list.style.left = `${Math.max(8, Math.min(button.left, innerWidth - list.offsetWidth - 8))}px`;
}

/** @param {import("./gestures.js").Gesture | undefined} gesture */
const titleOf = (gesture) => [gesture?.label, gesture?.key && `(${keyName(gesture.key)})`].filter(Boolean).join(" ");

/** The switch of what sorting brings with it. @param {Pane} pane */
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
      ? msg`after “${plainWords(continuedWords(desk.story, round, AROUND))}”`
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

/** The buttons of a phone's bar that are for the card in view. @param {Pane} pane */
export function phoneBar(pane) {
  const { round, board } = pane;
  const slot = board?.currentCard?.slot;
  if (!round || !slot) return nothing;
  const take = isMarked(slot) ? msg`Take what is marked` : msg`Take`;
  return html`<div class="phone-bar buttons" role="group" aria-label=${msg`This card`}>
    <button class="main" data-act="take" aria-label=${take} ?disabled=${!round.canTake(slot) && !slot.isLive}>${msg`Take`}</button>
    <button class="quiet" data-act="prune" aria-label=${msg`Set aside`} ?disabled=${!round.canPrune(slot)}>${icon("prune")}</button>
    <button class="quiet" data-act="menu" aria-label=${msg`All that can be done`}>${icon("more")}</button>
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
