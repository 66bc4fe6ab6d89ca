// The part of a story that the model reads: each part of the prompt with the tokens that it takes, and what of it is left out.

import { msg, NUMBER } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";

const NAMES = {
  system: msg`System prompt and instruction`,
  memory: msg`Memory`,
  lore: msg`Lorebook`,
  plan: msg`Plan`,
  summary: msg`Summary`,
  story: msg`Story`,
  note: msg`Author's note`,
  room: msg`Room for the branches`,
};

/** A table of the parts, to be opened; nothing while the model's context is not known. @param {import("../desk.js").Desk} desk */
export function sentTable(desk) {
  const { used, limit, parts } = desk.context;
  if (limit === 0) return nothing;
  const free = parts.find(({ kind }) => kind === "room")?.tokens ?? 0;
  return html`<details class="sent">
    <summary>${msg`What the model reads`}</summary>
    <table>
      <thead><tr><th scope="col">${msg`Part`}</th><th scope="col">${msg`Tokens, about`}</th></tr></thead>
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
      <tfoot><tr><th scope="row">${msg`Together, of ${NUMBER.format(limit)}`}</th><td>${NUMBER.format(used + free)}</td></tr></tfoot>
    </table>
    <button @click=${() => desk.openDialog("reading")}>${msg`Word for word`}</button>
  </details>`;
}

/** @param {keyof typeof NAMES} kind @param {number} cut  characters */
function leftOut(kind, cut) {
  const count = NUMBER.format(cut);
  return kind === "story"
    ? msg`${count} characters at the beginning are left out`
    : msg`${count} characters at the end are left out`;
}
