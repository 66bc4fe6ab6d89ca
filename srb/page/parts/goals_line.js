// <srb-goals>: in the header, the words of the day and of the chapter beside their goals, if the story has any.

import { chapterAtCaret, hasChapterGoals } from "../desk/chapter_goals.js";
import { Day, goalsOf } from "../desk/goals.js";
import { msg, NUMBER } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";

const PAUSE = 400; // ms after a key until words are counted: a chapter's cost the length of the story
const EDITS = new Set(["type", "take", "undo"]);

class GoalsPart extends Part {
  constructor() {
    super();
    /** @type {Day | null} */
    this.day = null;
  }

  listen() {
    this.day = new Day(this.desk);
    this.day.follow(false);
    this.on("story", () => {
      this.day?.follow(false);
      this.requestUpdate();
    });
    this.on("head", ({ why }) => {
      this.day?.follow(EDITS.has(why));
      this.later(PAUSE);
    });
    this.on("caret", () => hasChapterGoals(this.desk.story) && this.later(PAUSE));
  }

  render() {
    const { desk } = this;
    const { day } = goalsOf(desk.story);
    const chapter = hasChapterGoals(desk.story) ? chapterAtCaret(desk) : { words: 0, goal: 0 };
    if (day === 0 && chapter.goal === 0) return nothing;
    return html`<button class="quiet" aria-haspopup="dialog" title=${msg`Goals`} @click=${() => desk.openDialog("goals")}>
      ${day ? beside(this.day?.written ?? 0, day, (words, goal) => msg`${words} of ${goal} today`) : nothing}
      ${chapter.goal ? beside(chapter.words, chapter.goal, (words, goal) => msg`${words} of ${goal} in the chapter`) : nothing}
    </button>`;
  }
}

/** Words beside their goal. @param {number} words @param {number} goal @param {(words: string, goal: string) => string} say */
function beside(words, goal, say) {
  return html`<span>${words >= goal ? "✓ " : ""}${say(NUMBER.format(words), NUMBER.format(goal))}</span>`;
}

customElements.define("srb-goals-line", GoalsPart);
