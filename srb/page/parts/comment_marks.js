// Marks in the manuscript under the words that have comments.

import { commentsOf, rangesOf } from "../desk/comments.js";
import { Decoration, EditorView, StateEffect, StateField, ViewPlugin } from "../vendor/codemirror.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{from: number, to: number}} Range */

const PAUSE = 400; // ms after a key until the marks are found anew: each time costs the length of the story; meanwhile they move with the text

const setComments = /** @type {ReturnType<typeof StateEffect.define<Range[]>>} */ (StateEffect.define());
const MARK = Decoration.mark({ class: "comment" });

const marks = StateField.define({
  create: () => Decoration.none,
  update(shown, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(setComments)) return Decoration.set(effect.value.map(({ from, to }) => MARK.range(from, to)));
    return shown.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const LOOK = EditorView.theme({
  ".comment": { textDecoration: "underline dotted 2px var(--edit)", textUnderlineOffset: "0.25em" },
});

/** @param {Desk} desk */
export function showComments(desk) {
  /** @type {EditorView | null} */
  let view = null;
  let timer = 0;
  let hasMarks = false;
  const follower = ViewPlugin.define((made) => {
    view = made;
    return {};
  });
  const show = () => {
    timer = 0;
    const ranges = [...rangesOf(desk.story, desk.head, commentsOf(desk.story)).values()];
    if (!hasMarks && ranges.length === 0) return;
    hasMarks = ranges.length > 0;
    const { length } = desk.text;
    const there = ranges.filter(({ to }) => to <= length).sort((a, b) => a.from - b.from || a.to - b.to);
    view?.dispatch({ effects: setComments.of(there) });
  };
  desk.manuscript?.extend([marks, follower, LOOK]);
  desk.addEventListener("story", show);
  desk.addEventListener("head", () => {
    if (timer === 0) timer = window.setTimeout(show, PAUSE);
  });
  show();
}
