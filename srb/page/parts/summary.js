// <srb-summary>: the summary of the text's beginning. It is there as soon as the model no longer reads all of the text.

import { summaryOf, summaryUpTo, toldOf } from "../desk/summaries.js";
import { summarize } from "../desk/summarize.js";
import { WordsBefore } from "../desk/words.js";
import { msg, wordCount } from "../languages.js";
import { html, live, nothing } from "../vendor/lit.js";
import { WritingPart } from "./writing_part.js";

/** @typedef {import("../desk/summaries.js").Summary} Summary */

class SummaryPart extends WritingPart {
  constructor() {
    super();
    this.cutWords = new WordsBefore();
    this.toldWords = new WordsBefore();
    /** @type {unknown} the summary before a person changed it */
    this.was = null;
  }

  listen() {
    this.on(["story", "head", "server", "rounds"], () => this.requestUpdate());
  }

  /** Let the model write. @param {boolean} isAnew from the text's beginning */
  async write(isAnew) {
    await this.letWrite((rounds, signal) => summarize(rounds, { isAnew, signal }));
    this.was = this.desk.story.meta("summary");
    this.requestUpdate();
    await this.updateComplete;
    this.querySelector("textarea")?.focus();
  }

  /** Keep what a person writes: it tells of all that is cut unless the model had told of less. @param {string} text */
  set(text) {
    const { desk } = this;
    const now = summaryOf(desk.story);
    const isFirst = now.text === "" || toldOf(now, desk.text) === 0;
    desk.setMeta("summary", isFirst ? summaryUpTo(text, desk.text, desk.context.cut) : { ...now, text });
  }

  render() {
    const { desk, writing } = this;
    const { cut } = desk.context;
    const summary = summaryOf(desk.story);
    const told = summary.text === "" ? 0 : toldOf(summary, desk.text);
    if (cut === 0 && summary.text === "") return nothing;
    return html`<section class="summary">
      <h3><label for="summary-text">${msg`Summary`}</label></h3>
      <p class="words" id="summary-words">${this.coverage(cut, told, summary.text !== "")}</p>
      <textarea
        id="summary-text"
        rows="5"
        dir="auto"
        aria-describedby="summary-words"
        placeholder=${msg`What has happened in the words that the model no longer reads.`}
        ?readonly=${writing !== null}
        .value=${live(summary.text)}
        @focus=${() => {
          this.was = desk.story.meta("summary");
        }}
        @input=${(/** @type {any} */ event) => this.set(event.target.value)}
        @change=${() => desk.recordMeta("summary", this.was)}
      ></textarea>
      <div class="choices">${this.buttons(cut, told, summary)}</div>
    </section>`;
  }

  /** How much of the text is not read, and how much of that the summary tells of.
   * @param {number} cut @param {number} told @param {boolean} isThere whether there is a summary */
  coverage(cut, told, isThere) {
    const { text } = this.desk;
    if (cut === 0) return msg`The model reads the whole text, and no summary.`;
    const left = msg`The model no longer reads the first ${wordCount(this.cutWords.in(text, cut))}; they stay in the text.`;
    if (!isThere) return left;
    if (told === 0) return `${left} ${msg`The summary was written for another beginning.`}`;
    if (told >= cut) return `${left} ${msg`The summary tells of all of them.`}`;
    return `${left} ${msg`The summary tells of the first ${wordCount(this.toldWords.in(text, told))}.`}`;
  }

  /** @param {number} cut @param {number} told @param {Summary} summary */
  buttons(cut, told, { text }) {
    if (this.writing)
      return html`<span role="status">${msg`The model reads and summarizes …`}</span>
        <button @click=${() => this.writing?.abort()}>${msg`Stop`}</button>`;
    if (cut === 0) return nothing;
    const anew = html`<button @click=${() => this.write(true)}>${text ? msg`Write it anew` : msg`Let the model write it`}</button>`;
    return text && told > 0 && told < cut
      ? html`<button @click=${() => this.write(false)}>${msg`Add what was cut since`}</button> ${anew}`
      : anew;
  }
}

customElements.define("srb-summary", SummaryPart);
