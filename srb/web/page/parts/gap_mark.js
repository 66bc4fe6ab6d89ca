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

/** Where it is; null: nowhere. */
const setGap = /** @type {ReturnType<typeof StateEffect.define<number | null>>} */ (StateEffect.define());

const MARK = Decoration.widget({ widget: new GapWidget(), side: -1 });

const gap = StateField.define({
  create: () => Decoration.none,
  update(marks, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(setGap)) return effect.value === null ? Decoration.none : Decoration.set(MARK.range(effect.value));
    return marks.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Show where the shown cards go, if that is in the middle of the text. @param {Desk} desk */
export function showGap(desk) {
  /** @type {EditorView | null} */
  let view = null;
  const follower = ViewPlugin.define((made) => {
    view = made;
    return {};
  });
  const show = () => {
    const at = desk.round?.isInside ? (desk.rounds?.gap?.at ?? null) : null;
    const shown = view?.state.field(gap).iter().value ? view.state.field(gap).iter().from : null;
    if (at !== shown) view?.dispatch({ effects: setGap.of(at) });
  };
  desk.manuscript?.extend([gap, follower]);
  for (const topic of ["round", "head"]) desk.addEventListener(topic, show);
}
