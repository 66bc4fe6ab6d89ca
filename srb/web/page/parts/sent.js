// What the model reads of a story: each part of the prompt with the cells that it takes, and what of it is left out.

import { html, nothing } from "../vendor/lit.js";

const NAMES = {
  system: "System prompt and instruction",
  memory: "Memory",
  story: "Story",
  note: "Author's note",
  room: "Room for the branches",
};
const NUMBER = new Intl.NumberFormat("en");

/** A table of the parts; nothing while the model's context is not known. @param {import("../desk.js").Desk} desk */
export function sentTable({ context: { used, limit, parts } }) {
  if (limit === 0) return nothing;
  const free = parts.find(({ kind }) => kind === "room")?.tokens ?? 0;
  return html`<table class="sent">
    <caption>What the model reads</caption>
    <thead><tr><th scope="col">Part</th><th scope="col">Cells, about</th><th scope="col">Left out</th></tr></thead>
    <tbody>
      ${parts
        .filter(({ tokens, cut }) => tokens > 0 || cut > 0)
        .map(
          ({ kind, tokens, cut }) => html`<tr>
          <th scope="row">${NAMES[kind]}</th><td>${NUMBER.format(tokens)}</td>
          <td class=${cut ? "cut" : nothing}>${leftOut(kind, cut)}</td>
        </tr>`,
        )}
    </tbody>
    <tfoot><tr><th scope="row">Together</th><td>${NUMBER.format(used + free)}</td><td>of ${NUMBER.format(limit)} cells of the context</td></tr></tfoot>
  </table>`;
}

/** @param {keyof typeof NAMES} kind @param {number} cut  characters */
function leftOut(kind, cut) {
  if (cut === 0) return "";
  return `${NUMBER.format(cut)} characters at the ${kind === "story" ? "beginning" : "end"}`;
}
