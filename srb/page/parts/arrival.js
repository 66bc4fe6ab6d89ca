// Arrival: text that is taken from a card comes into the manuscript from the cards' side. Only its look moves (manuscript.css): it
// is in the document at once, so keys and the caret wait for nothing.

import { Decoration, EditorView, StateEffect, StateField } from "../vendor/codemirror.js";

/** @typedef {{from: number, to: number}} Range */

const ARRIVING = Decoration.mark({ class: "arriving" });

/** The range that arrives; null as soon as it is there. */
export const arrive = /** @type {ReturnType<typeof StateEffect.define<Range | null>>} */ (StateEffect.define());

const arriving = StateField.define({
  create: () => Decoration.none,
  update(marks, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(arrive))
        return effect.value ? Decoration.set(ARRIVING.range(effect.value.from, effect.value.to)) : Decoration.none;
    return marks.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** An input method's text is not drawn anew while it is composed: the mark stays until the next arrival, and does nothing. */
const end = EditorView.domEventHandlers({
  animationend: (_event, view) => view.composing || view.dispatch({ effects: arrive.of(null) }),
});

export const arrival = [arriving, end];
