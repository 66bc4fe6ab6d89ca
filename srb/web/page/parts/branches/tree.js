// The merged tree: beginnings that several branches share are shown once, and the branches below them.

import { mergedTree } from "../../compare.js";
import { html, nothing } from "../../vendor/lit.js";
import { visible } from "../../visible.js";

/** @typedef {import("../../round.js").Round} Round */

/** @param {Round} round */
export function treeOf(round) {
  const slots = round.order
    .map((number) => round.slots[number])
    .filter((slot) => slot?.text && slot.state !== "pruned");
  const texts = slots.map((slot) => slot?.text ?? "");
  const label = (/** @type {number} */ place) => round.order.indexOf(slots[place]?.number ?? -1) + 1;
  return html`<ul class="tree" aria-label="Shared beginnings">
    ${mergedTree(texts).map(({ depth, places, from, to }) => {
      const text = visible(texts[places[0] ?? 0]?.slice(from, to) ?? "");
      const number = slots[places[0] ?? 0]?.number;
      return html`<li data-depth=${Math.min(depth, 8)} class=${places.length > 1 ? "twig" : "leaf"}>
        ${
          places.length > 1
            ? html`<span class="same" aria-label="${places.length} branches">×${places.length}</span>`
            : html`<button data-card=${number} data-act="take" aria-label="Take branch ${label(places[0] ?? 0)}">${label(places[0] ?? 0)}</button>`
        }
        <span class="text" dir="auto">${text}</span>
      </li>`;
    })}
    ${texts.length ? nothing : html`<li class="leaf">No text yet.</li>`}
  </ul>`;
}
