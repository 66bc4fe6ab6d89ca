// <srb-goals>: the dialog of a story's goals.

import { goalsOf, MOST_WORDS, wordsIn } from "../desk/goals.js";
import { msg } from "../languages.js";
import { html, live } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { DialogPart } from "./part.js";

class GoalsDialog extends DialogPart {
  constructor() {
    super("goals");
  }

  listen() {
    super.listen();
    this.on("story", () => this.requestUpdate());
  }

  /** @param {"day" | "chapter"} name @param {string} value */
  set(name, value) {
    const { desk } = this;
    const words = wordsIn(value);
    const goals = goalsOf(desk.story);
    if (words !== goals[name]) desk.setMeta("goals", { ...goals, [name]: words });
  }

  render() {
    const { day, chapter } = goalsOf(this.desk.story);
    return html`<dialog aria-labelledby="goals-title" closedby="any">
      ${dialogHead(this, msg`Goals`)}
      ${this.field("day", msg`Words a day`, day)}
      ${this.field("chapter", msg`Words of each chapter`, chapter)}
      <p class="words">${msg`They belong to this story; the header says how far you are.`}
        ${msg`A day counts the words that the text has more than at its first change of the day.`}
        ${msg`Without a number there is no goal. The list of chapters gives a chapter another goal than the others.`}</p>
    </dialog>`;
  }

  /** @param {"day" | "chapter"} name @param {string} label @param {number} now */
  field(name, label, now) {
    return html`<p><label>${label} <input
      type="number"
      min="0"
      max=${MOST_WORDS}
      step="50"
      .value=${live(now ? String(now) : "")}
      @input=${(/** @type {any} */ event) => this.set(name, event.target.value)}
    /></label></p>`;
  }
}

customElements.define("srb-goals", GoalsDialog);
