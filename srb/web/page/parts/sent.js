// What the model reads of a story: each part of the prompt with the tokens that it takes, and what of it is left out.

import { html, nothing } from "../vendor/lit.js";

const NAMES = {
  system: "System prompt and instruction",
  memory: "Memory",
  lore: "Lorebook",
  story: "Story",
  note: "Author's note",
  room: "Room for the branches",
};
const NUMBER = new Intl.NumberFormat("en");

/** A table of the parts, to be opened; nothing while the model's context is not known. @param {import("../desk.js").Desk} desk */
export function sentTable({ context: { used, limit, parts } }) {
  if (limit === 0) return nothing;
  const free = parts.find(({ kind }) => kind === "room")?.tokens ?? 0;
  return html`<details class="sent">
    <summary>What the model reads</summary>
    <table>
      <thead><tr><th scope="col">Part</th><th scope="col">Tokens, about</th></tr></thead>
      <tbody>
        ${parts
          .filter(({ tokens, cut }) => tokens > 0 || cut > 0)
          .map(
            ({ kind, tokens, cut }) => html`<tr>
              <th scope="row">${NAMES[kind]} ${cut ? html`<small class="cut">${leftOut(kind, cut)}</small>` : nothing}</th>
              <td>${NUMBER.format(tokens)}</td>
            </tr>`,
          )}
      </tbody>
      <tfoot><tr><th scope="row">Together, of ${NUMBER.format(limit)}</th><td>${NUMBER.format(used + free)}</td></tr></tfoot>
    </table>
  </details>`;
}

/** @param {keyof typeof NAMES} kind @param {number} cut  characters */
function leftOut(kind, cut) {
  return `${NUMBER.format(cut)} characters at the ${kind === "story" ? "beginning" : "end"} are left out`;
}
