// <srb-comments>: in the side panel, the comments on passages of the text, in the order of these.

import { addComment, commentsOf, PREFIX, rangesOf } from "../desk/comments.js";
import { changeAll } from "../desk/values.js";
import { msg } from "../languages.js";
import { html, live, nothing, repeat } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { Part } from "./part.js";

/** @typedef {import("../desk/comments.js").Comment} Comment */
/** @typedef {import("../desk/comments.js").Range} Range */

class Comments extends Part {
  constructor() {
    super();
    /** @type {unknown} a comment before a person changed it */
    this.was = null;
    this.wasSelected = false;
  }

  listen() {
    this.on("caret", () => Boolean(this.desk.selected) !== this.wasSelected && this.requestUpdate());
  }

  /** Begin a comment on a passage. @param {Range} range */
  async add({ from, to }) {
    const { desk } = this;
    if (!desk.text.slice(from, to).trim())
      return desk.notice(msg`Select the words that the comment is on: then it can be written.`);
    const id = addComment(desk, { from, to });
    this.requestUpdate();
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(`[data-comment="${id}"] textarea`))?.focus();
  }

  /** @param {string} id */
  takeAway(id) {
    const { desk } = this;
    const before = desk.story.meta(PREFIX + id);
    changeAll(desk, [[PREFIX + id, null]]);
    /** @type {HTMLElement | null} */ (this.querySelector(".add"))?.focus();
    const run = () => desk.story.meta(PREFIX + id) === null && desk.setMeta(PREFIX + id, before);
    desk.notice(msg`The comment was taken away.`, "info", { label: msg`Undo`, run });
  }

  /** Show the words of a comment. @param {Range} range */
  show({ from, to }) {
    this.desk.manuscript?.select(from, to);
    this.desk.manuscript?.focus();
  }

  render() {
    const { desk } = this;
    const comments = commentsOf(desk.story);
    const places = rangesOf(desk.story, desk.head, comments);
    const from = (/** @type {string} */ id) => places.get(id)?.from ?? Number.POSITIVE_INFINITY;
    const rows = [...comments].sort(([a], [b]) => (from(a) === from(b) ? 0 : from(a) - from(b)));
    this.wasSelected = Boolean(desk.selected);
    return html`<section aria-labelledby="comments-title">
      <h2 id="comments-title">${msg`Comments`} ${rows.length ? html`<span class="count">${rows.length}</span>` : nothing}</h2>
      ${
        rows.length
          ? html`<ul>${repeat(
              rows,
              ([id]) => id,
              ([id, comment]) => this.row(id, comment, places.get(id)),
            )}</ul>`
          : html`<p class="hint">${msg`Remarks on words of the text. The model reads none of them.`}</p>`
      }
      <p class="acts"><button class="add" ?disabled=${!this.wasSelected} @click=${() => this.add(desk.manuscript?.selection ?? { from: 0, to: 0 })}>${msg`Comment on the selection`}</button></p>
    </section>`;
  }

  /** @param {string} id @param {Comment} comment @param {Range | undefined} place */
  row(id, comment, place) {
    const { desk } = this;
    const key = PREFIX + id;
    const quote = msg`“${comment.quote}”`;
    return html`<li data-comment=${id}>
      ${
        place
          ? html`<button class="quiet quote" dir="auto" title=${msg`Show these words`} @click=${() => this.show(place)}>${quote}</button>`
          : html`<p class="quote" dir="auto">${quote} <small>${msg`not in this text`}</small></p>`
      }
      ${comment.author ? html`<p class="author" dir="auto">${comment.author}</p>` : nothing}
      <textarea
        rows="2"
        dir="auto"
        maxlength="20000"
        aria-label=${msg`Comment on ${quote}`}
        .value=${live(comment.text)}
        @focus=${() => {
          this.was = desk.story.meta(key);
        }}
        @input=${(/** @type {any} */ event) => desk.setMeta(key, { ...comment, text: event.target.value })}
        @change=${() => desk.recordMeta(key, this.was)}
      ></textarea>
      <button class="quiet" aria-label=${msg`Take away the comment on ${quote}`} title=${msg`Take it away`} @click=${() => this.takeAway(id)}>${icon("prune")}</button>
    </li>`;
  }
}

customElements.define("srb-comments", Comments);
