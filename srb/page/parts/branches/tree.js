// The merged tree: beginnings that several branches share are shown once, and the branches below them.

import { mergedTree } from "../../compare.js";
import { msg } from "../../languages.js";
import { html, nothing } from "../../vendor/lit.js";
import { visible } from "../../visible.js";

/** @typedef {import("../../round.js").Round} Round */

/** @param {Round} round */
export function treeOf(round) {
  const { shown } = round;
  const slots = shown.map((number) => round.slots[number]).filter((slot) => slot?.text && slot.state !== "pruned");
  const texts = slots.map((slot) => slot?.text ?? "");
  const label = (/** @type {number} */ place) => shown.indexOf(slots[place]?.number ?? -1) + 1;
  return html`<ul class="tree" aria-label=${msg`Shared beginnings`}>
    ${mergedTree(texts).map(({ depth, places: [first = 0, ...others], from, to }) => {
      const text = texts[first] ?? "";
      const isWhole = to === text.length;
      const count = others.length + 1;
      return html`<li data-depth=${depth} class=${isWhole ? "leaf" : "twig"}>
        ${isWhole ? html`<button data-card=${slots[first]?.number} data-act="take" aria-label=${msg`Take branch ${label(first)}`}>${label(first)}</button>` : nothing}
        ${count > 1 ? html`<span class="same" role="img" aria-label=${msg`${count} branches`}>×${count}</span>` : nothing}
        <span class="text" dir="auto">${visible(text.slice(from, to))}</span>
      </li>`;
    })}
    ${texts.length ? nothing : html`<li class="leaf">${msg`No text yet.`}</li>`}
  </ul>`;
}
