// The mark of the place in the manuscript where the cards go that stand in the middle of the text.

import { Decoration, EditorView, StateEffect, StateField, ViewPlugin, WidgetType } from "../vendor/codemirror.js";

/** @typedef {import("../desk.js").Desk} Desk */

class GapWidget extends WidgetType {
  toDOM() {
    const mark = document.createElement("span");
    mark.className = "gap";
    mark.setAttribute("aria-hidden", "true"); // the branches' head says it in words
    return mark;
  }

  eq() {
    return true;
  }
}

/** @typedef {{at: number, to: number}} Range   cards go in the place of what is between the two */

/** Where it is; null: nowhere. */
const setGap = /** @type {ReturnType<typeof StateEffect.define<Range | null>>} */ (StateEffect.define());

const MARK = Decoration.widget({ widget: new GapWidget(), side: -1 });
const PASSAGE = Decoration.mark({ class: "passage" });

const gap = StateField.define({
  create: () => Decoration.none,
  update(marks, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(setGap)) return effect.value === null ? Decoration.none : Decoration.set(markOf(effect.value));
    return marks.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** @param {Range} range */
function markOf({ at, to }) {
  return at < to ? PASSAGE.range(at, to) : MARK.range(at);
}

/** Show where the shown cards go, if that is in the middle of the text; and the passage that a person asks about. @param {Desk} desk */
export function showGap(desk) {
  /** @type {EditorView | null} */
  let view = null;
  const follower = ViewPlugin.define((made) => {
    view = made;
    return {};
  });
  /** @type {Range | null} of which a person says what becomes of it */
  let asked = null;
  const show = () => {
    const { round } = desk;
    const range = asked ?? (round?.isInside || round?.passage ? (desk.rounds?.gap ?? null) : null);
    const shown = view?.state.field(gap).iter();
    const isShown = range ? shown?.value && shown.from === range.at && shown.to === range.to : !shown?.value;
    if (!isShown) view?.dispatch({ effects: setGap.of(range) });
  };
  desk.manuscript?.extend([gap, follower]);
  for (const topic of ["round", "head"]) desk.addEventListener(topic, show);
  desk.addEventListener("asked", (event) => {
    asked = /** @type {CustomEvent} */ (event).detail;
    show();
  });
}
