// One history for the manuscript: its text, the story's head, and acts outside of the text are undone in one order.
//
// CodeMirror's history keeps effects beside changes. A change that moves the head brings back "the head was …" when it is
// undone; an act brings back its opposite.

import {
  Annotation,
  EditorState,
  history,
  invertedEffects,
  isolateHistory,
  StateEffect,
} from "../vendor/codemirror.js";

/** @typedef {{node: string, at: number}} Place */
/** @typedef {{forward: () => void, backward: () => void}} Act */

/** The head moves to this place. */
export const setHead = /** @type {ReturnType<typeof StateEffect.define<Place>>} */ (StateEffect.define());

/** An act was done; `forward` does it again, `backward` takes it back. */
const act = /** @type {ReturnType<typeof StateEffect.define<Act>>} */ (StateEffect.define());

/** Marks the transaction by which an act that has been done already joins the history. */
const recorded = /** @type {ReturnType<typeof Annotation.define<boolean>>} */ (Annotation.define());

/**
 * Return the history, as an extension of the editor.
 *
 * @param {() => Place} headNow - the head before the transaction that is being recorded
 */
export function oneHistory(headNow) {
  return [
    history({ minDepth: 1000, joinToEvent: (transaction, isAdjacent) => isAdjacent && !endsParagraph(transaction) }),
    EditorState.transactionExtender.of((transaction) =>
      ["input.paste", "input.drop"].some((event) => transaction.isUserEvent(event))
        ? { annotations: isolateHistory.of("full") }
        : null,
    ),
    invertedEffects.of((transaction) => {
      const effects = [];
      if (transaction.docChanged || headAfter(transaction) !== null) {
        effects.push(setHead.of(headNow()));
      }
      for (const effect of transaction.effects) {
        if (effect.is(act)) {
          effects.push(act.of({ forward: effect.value.backward, backward: effect.value.forward }));
        }
      }
      return effects;
    }),
  ];
}

/**
 * Return the head that a transaction asks for, or null if it leaves the head to the changes.
 *
 * Typing that is undone at once was recorded key by key, the last key first: the last effect is the oldest head.
 *
 * @param {import("../vendor/codemirror.js").Transaction} transaction
 * @returns {Place | null}
 */
export function headAfter(transaction) {
  let head = null;
  for (const effect of transaction.effects) {
    if (effect.is(setHead)) {
      head = effect.value;
    }
  }
  return head;
}

/**
 * Return the transaction that records an act which has been done.
 *
 * @param {() => void} undo
 * @param {() => void} redo
 */
export function recordAct(undo, redo) {
  return {
    effects: act.of({ forward: redo, backward: undo }),
    annotations: [recorded.of(true), isolateHistory.of("full")],
  };
}

/**
 * Do the acts that a transaction of undo or redo brings back.
 *
 * @param {import("../vendor/codemirror.js").Transaction} transaction
 */
export function runActs(transaction) {
  if (transaction.annotation(recorded)) {
    return;
  }
  for (const effect of transaction.effects) {
    if (effect.is(act)) {
      effect.value.forward();
    }
  }
}

/**
 * Whether a transaction begins a new paragraph: the next undo stops there.
 *
 * @param {import("../vendor/codemirror.js").Transaction} transaction
 */
function endsParagraph(transaction) {
  let ends = false;
  transaction.changes.iterChanges((_fromA, _toA, _fromB, _toB, inserted) => {
    ends ||= inserted.lines > 1;
  });
  return ends;
}
