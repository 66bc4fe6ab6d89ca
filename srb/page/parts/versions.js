// Two versions of the text side by side, with the words marked that differ.

import { diffWords } from "../compare.js";
import { msg } from "../languages.js";
import { labelOf } from "../outline_rows.js";
import { html, nothing } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { DialogPart } from "./part.js";

const AROUND = 600; // characters shown before the first difference

export class Versions extends DialogPart {
  constructor() {
    super("versions");
    this.node = "";
  }

  /** @param {{node?: string}} [detail] the version to compare with the manuscript; without one the newest beside it */
  async open({ node } = {}) {
    const { head } = this.desk;
    this.node = node && node !== head.node ? node : this.newestOther();
    await super.open();
  }

  /** The newest branch that is not on the way to the head. */
  newestOther() {
    const path = new Set(this.desk.story.path(this.desk.head.node));
    let newest = "";
    for (const { id } of this.desk.story.nodes.values()) if (!path.has(id)) newest = id;
    return newest;
  }

  /** Versions that parted from the manuscript last, newest first. */
  others() {
    const { story, head } = this.desk;
    const path = story.path(head.node);
    const onPath = new Set(path);
    const ids = path.slice(-6).flatMap((id) => story.children(story.nodes.get(id)?.parent ?? ""));
    const near = [...new Set([...ids, this.node])].filter((id) => id && !onPath.has(id));
    return near.slice(-40).reverse();
  }

  render() {
    return html`<dialog aria-labelledby="versions-title">
      <header class="dialog-head">
        <h2 id="versions-title">${msg`Two versions`}</h2>
        ${closeButton(() => this.close())}
      </header>
      ${this.node ? this.comparison() : html`<p>${msg`There is one version only so far. Continue the text, or change a word in its middle.`}</p>`}
    </dialog>`;
  }

  comparison() {
    const { story, text } = this.desk;
    const other = story.text(this.node);
    const start = Math.max(0, commonWords(text, other) - AROUND);
    const parts = diffWords(text.slice(start), other.slice(start));
    return html`<p><label>${msg`Compare the manuscript with`}
        <select @change=${(/** @type {any} */ event) => this.compareWith(event.target.value)}>
          ${this.others().map((id) => {
            const node = story.nodes.get(id);
            return html`<option value=${id} ?selected=${id === this.node}>${story.mark(id).name || (node ? labelOf(node, 60) : id)}</option>`;
          })}
        </select></label>
        <button @click=${() => this.take()}>${msg`Make it the manuscript`}</button></p>
      <div class="versions">
        <section aria-label=${msg`The manuscript`}><h3>${msg`The manuscript`}</h3>${this.column(parts, "removed", start)}</section>
        <section aria-label=${msg`The other version`}><h3>${msg`The other version`}</h3>${this.column(parts, "added", start)}</section>
      </div>`;
  }

  /** @param {{kind: string, text: string}[]} parts @param {"added" | "removed"} own @param {number} start */
  column(parts, own, start) {
    return html`<p class="version" dir="auto">${start ? "… " : nothing}${parts
      .filter(({ kind }) => kind === "same" || kind === own)
      .map(({ kind, text }) => (kind === own ? html`<mark class=${own}>${text}</mark>` : text))}</p>`;
  }

  /** @param {string} id */
  compareWith(id) {
    this.node = id;
    this.requestUpdate();
  }

  take() {
    this.close();
    this.desk.openNode(this.node);
  }
}

/** The length of the words that two texts have in common at their beginning. @param {string} a @param {string} b */
function commonWords(a, b) {
  let [low, high] = [0, Math.min(a.length, b.length)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (a.slice(low, middle) === b.slice(low, middle)) low = middle;
    else high = middle - 1;
  }
  return a.lastIndexOf(" ", low) + 1;
}

customElements.define("srb-versions", Versions);
