// <srb-ask>: questions about the story, which readers answer beside it, and which of the cards seem to contradict what stands before them.

import { literal } from "../bans.js";
import { sentenceAt } from "../cuts.js";
import { askStory, CHECKERS, doubtsOfCards, takesQuestions } from "../desk/asking.js";
import { addComment } from "../desk/comments.js";
import { draftOf, sendDraft, sentOf } from "../desk/drafts.js";
import { msg } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { draftField } from "./draft_field.js";
import { PlacePart } from "./place_part.js";

/** @typedef {import("../desk/asking.js").Doubt} Doubt */
/** @typedef {{text: string, readers: number}} Answer */

const READERS = [1, 2, 4, 8];
const DRAFT = "ask";

class Ask extends PlacePart {
  constructor() {
    super("ask");
    this.readers = 4;
    this.question = ""; // that the answers are of
    /** @type {string[]} one of each reader */
    this.answers = [];
    /** @type {Doubt[] | null} null: the cards were not checked */
    this.doubts = null;
    /** @type {import("../round.js").Round | null} whose cards were checked */
    this.checked = null;
    this.progress = "";
    /** @type {AbortController | null} of what the readers are asked */
    this.asking = null;
    /** @type {Set<string>} answers and lines that were kept as notes */
    this.kept = new Set();
  }

  listen() {
    super.listen();
    this.on("server", () => this.requestUpdate());
    this.on("head", ({ why }) => why === "load" && this.forget());
  }

  get stays() {
    return true;
  }

  closed() {
    this.asking?.abort();
  }

  /** What was said is of the story that was open. */
  forget() {
    this.asking?.abort();
    Object.assign(this, { question: "", answers: [], doubts: null, checked: null, progress: "" });
    this.kept.clear();
    this.requestUpdate();
  }

  /** @param {{isCheck?: boolean}} [detail] `isCheck`: the cards are checked at once */
  async open({ isCheck = false } = {}) {
    await super.open();
    this.querySelector("textarea")?.focus();
    if (isCheck && takesQuestions(this.desk.server)) await this.check();
  }

  /** @param {Event} event */
  go(event) {
    event.preventDefault();
    const question = (this.querySelector("textarea")?.value ?? "").trim();
    if (!question) return;
    sendDraft(this.desk, DRAFT, question);
    Object.assign(this, { question, answers: [], doubts: null });
    return this.wait(msg`The readers read …`, (rounds, signal) =>
      askStory(rounds, question, {
        n: this.readers,
        signal,
        heard: (answers) => {
          this.answers = answers;
          this.requestUpdate();
        },
      }),
    );
  }

  check() {
    Object.assign(this, { question: "", answers: [], doubts: null, checked: this.desk.round });
    return this.wait(msg`The readers read …`, async (rounds, signal) => {
      const heard = (/** @type {number} */ read, /** @type {number} */ all) => {
        this.progress = msg`The readers read card ${read + 1} of ${all} …`;
        this.requestUpdate();
      };
      this.doubts = await doubtsOfCards(rounds, { signal, heard });
    });
  }

  /**
   * Wait for readers, in the place of those who are waited for.
   * @param {string} progress @param {(rounds: import("../desk/rounds.js").Rounds, signal: AbortSignal) => Promise<unknown>} act
   */
  async wait(progress, act) {
    this.asking?.abort();
    const asking = new AbortController();
    Object.assign(this, { asking, progress });
    this.requestUpdate();
    try {
      await this.desk.withRounds((rounds) => act(rounds, asking.signal));
    } catch (error) {
      if (!asking.signal.aborted) this.desk.notice(/** @type {Error} */ (error).message, "error");
    } finally {
      if (this.asking === asking) Object.assign(this, { asking: null, progress: "" });
      this.requestUpdate();
    }
  }

  // ---- Notes

  /** Keep an answer as a comment on the sentence at the caret. @param {Answer} answer */
  keepAnswer({ text }) {
    const { desk, question } = this;
    const caret = desk.manuscript?.caret() ?? desk.text.length;
    addComment(desk, sentenceAt(desk.text, desk.text.slice(0, caret).trimEnd().length), `${question}\n${text}`);
    this.note(text);
  }

  /** Keep a doubt as the card's note, behind what that says already. @param {Doubt} doubt */
  keepDoubt({ node, line }) {
    if (node === null) return;
    const before = this.desk.story.mark(node).note ?? "";
    this.desk.setNodeMark(node, "note", [before, msg`May contradict: “${line}”`].filter(Boolean).join("\n"));
    this.note(`${node} ${line}`);
  }

  /** @param {string} what was kept */
  note(what) {
    this.kept.add(what);
    this.requestUpdate();
  }

  /** Show a line in the text; on a small screen it may stand below the answers. @param {{from: number, to: number}} place */
  show({ from, to }) {
    const { manuscript } = this.desk;
    manuscript?.select(from, to);
    manuscript?.focus();
    const [line, box] = [manuscript?.rect(from), this.dialog.getBoundingClientRect()];
    if (!line || (line.right > box.left && line.left < box.right && line.bottom > box.top && line.top < box.bottom))
      this.close();
  }

  // ---- What is shown

  render() {
    return this.box(msg`Ask the story`, takesQuestions(this.desk.server) ? this.form() : this.refusal());
  }

  refusal() {
    const { desk } = this;
    const choose = () => {
      this.close();
      desk.openDialog("settings", { section: "model" });
    };
    return html`<p>${msg`This model only writes on, and answers no questions: it has no chat template.`}</p>
      ${desk.server.models ? html`<p><button class="main" @click=${choose}>${msg`Choose another model`}</button></p>` : nothing}`;
  }

  form() {
    const { desk, asking, progress } = this;
    const { input, keydown } = draftField(desk, () => DRAFT);
    const hasCards = desk.round?.slots.some(({ text }) => text.trim());
    return html`<form @submit=${this.go}>
      <p><label>${msg`Your question`}
        <textarea rows="2" dir="auto" placeholder=${msg`What does Mara know here?`} .value=${draftOf(desk, DRAFT)} @input=${input} @keydown=${keydown}></textarea></label></p>
      ${sentOf(desk, DRAFT).length ? html`<p class="words">${msg`↑ at the beginning: what was asked for before`}</p>` : nothing}
      <p class="buttons">
        <button class="main">${msg`Ask`}</button>
        <label>${msg`Readers`} <select @change=${(/** @type {any} */ event) => (this.readers = Number(event.target.value))}>
          ${READERS.map((each) => html`<option ?selected=${each === this.readers}>${each}</option>`)}</select></label>
        <button type="button" ?disabled=${!hasCards} @click=${() => this.check()}>${msg`Check the cards against the story`}</button>
        ${asking ? html`<button type="button" @click=${() => asking.abort()}>${msg`Stop`}</button>` : nothing}
      </p>
    </form>
    <p role="status" class="words">${progress || msg`The readers know the text up to the caret, and what a round would read beside it. Nothing of this becomes a part of your text.`}</p>
    ${this.answers.length ? this.said() : nothing}
    ${this.doubts && this.checked === desk.round ? this.found(this.doubts) : nothing}`;
  }

  said() {
    const all = grouped(this.answers);
    return html`<h3 dir="auto">${this.question}</h3>
      <ul>${all.map(
        (answer) => html`<li><p dir="auto">${answer.text}</p>
          <p class="buttons">${answer.readers > 1 ? html`<small>${msg`${answer.readers} of ${this.answers.length} readers`}</small>` : nothing}
          ${this.asking ? nothing : this.keepButton(answer.text, () => this.keepAnswer(answer))}</p></li>`,
      )}</ul>`;
  }

  /** @param {Doubt[]} doubts */
  found(doubts) {
    const cards = this.checked?.slots.filter(({ text, state }) => text.trim() && state !== "pruned").length ?? 0;
    if (!doubts.length) return html`<p>${msg`The readers found no contradiction.`}</p>`;
    const isBlind = cards > 2 && doubts.length === cards;
    return html`<h3>${msg`What seems to contradict the story`}</h3>
      ${isBlind ? html`<p class="words">${msg`The readers say so of every card: this model may not be able to tell.`}</p>` : nothing}
      <ul>${doubts.map((doubt) => this.doubt(doubt))}</ul>`;
  }

  /** @param {Doubt} doubt */
  doubt(doubt) {
    const { node, number, line, votes } = doubt;
    const place = placeOf(this.desk.text, line);
    const label = (this.checked?.shown.indexOf(number) ?? -1) + 1 || number + 1;
    return html`<li><p dir="auto"><b>${msg`Card ${label}`}</b> ${msg`“${line}”`}</p>
      <p class="buttons"><small>${msg`${votes} of ${CHECKERS} readers`}</small>
        ${place ? html`<button type="button" @click=${() => this.show(place)}>${msg`Show the line`}</button>` : nothing}
        ${node === null ? nothing : this.keepButton(`${node} ${line}`, () => this.keepDoubt(doubt))}</p></li>`;
  }

  /** @param {string} what @param {() => void} keep */
  keepButton(what, keep) {
    const isKept = this.kept.has(what);
    return html`<button type="button" ?disabled=${isKept} @click=${keep}>${isKept ? msg`Kept` : msg`Keep as a note`}</button>`;
  }
}

/** The answers that differ, those of most readers first. @param {string[]} answers @returns {Answer[]} */
function grouped(answers) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const text of answers.map((each) => each.trim()).filter(Boolean)) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].map(([text, readers]) => ({ text, readers })).sort((a, b) => b.readers - a.readers);
}

/** Where a line stands in a text, whatever blanks that has between its words; null if it does not. @param {string} text @param {string} line */
function placeOf(text, line) {
  const found = new RegExp(line.split(" ").map(literal).join("\\s+"), "u").exec(text);
  return found && { from: found.index, to: found.index + found[0].length };
}

customElements.define("srb-ask", Ask);
