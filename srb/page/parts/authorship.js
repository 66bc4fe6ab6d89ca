// Authorship: the model's words have an ink of their own, a person's words in the middle of them are underlined.
//
// The colours come from the story's pieces after a take, an undo or a pause. Between those the marks move with the text, and
// typed words are the person's. CodeMirror draws only the marks in view. The style sheet shows them where a person asks for it.

import { Decoration, EditorView, RangeSet, RangeSetBuilder, StateEffect, StateField } from "../vendor/codemirror.js";

/** @typedef {{from: number, to: number, node: string, by: string}} Piece */
/** @typedef {import("../vendor/codemirror.js").DecorationSet} Marks */

const MODEL = Decoration.mark({ class: "by-model" });
const EDIT = Decoration.mark({ class: "by-edit", inclusive: true });

/** The marks of the whole text, as `marksOf` made them. */
export const setMarks = /** @type {ReturnType<typeof StateEffect.define<Marks>>} */ (StateEffect.define());

/** The marks of the text, and their decorations. */
export const authorship = StateField.define({
  create: () => /** @type {Marks} */ (RangeSet.empty),
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) {
        return effect.value;
      }
    }
    return transaction.docChanged ? marksAfter(marks, transaction) : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/**
 * Return the marks of a text.
 *
 * @param {readonly Piece[]} pieces - of the whole text, adjacent
 * @param {(piece: Piece) => boolean} isInserted - whether a person's piece was put into a text that went on behind it
 * @returns {Marks}
 */
export function marksOf(pieces, isInserted) {
  const builder = /** @type {RangeSetBuilder<Decoration>} */ (new RangeSetBuilder());
  const runs = runsOf(pieces, isInserted);
  for (const [i, run] of runs.entries()) {
    const besideModel = runs[i - 1]?.kind === "model" || runs[i + 1]?.kind === "model";
    if (run.kind === "model" || (run.kind === "inserted" && besideModel)) {
      builder.add(run.from, run.to, run.kind === "model" ? MODEL : EDIT);
    }
  }
  return builder.finish();
}

/**
 * Return the text's runs of one kind: by whom, or "inserted".
 *
 * @param {readonly Piece[]} pieces
 * @param {(piece: Piece) => boolean} isInserted
 */
function runsOf(pieces, isInserted) {
  /** @type {{from: number, to: number, kind: string}[]} */
  const runs = [];
  for (const piece of pieces) {
    const kind = piece.by === "person" && isInserted(piece) ? "inserted" : piece.by;
    const last = runs.at(-1);
    if (last?.kind === kind) {
      last.to = piece.to;
    } else if (piece.to > piece.from) {
      runs.push({ from: piece.from, to: piece.to, kind });
    }
  }
  return runs;
}

/**
 * Return the marks after a change that a person made.
 *
 * @param {Marks} marks
 * @param {import("../vendor/codemirror.js").Transaction} transaction
 */
function marksAfter(marks, transaction) {
  let after = marks.map(transaction.changes);
  transaction.changes.iterChanges((_fromA, _toA, from, to) => {
    if (to > from) {
      after = withTyped(after, from, to, transaction.newDoc.length);
    }
  });
  return after;
}

/**
 * Return the marks with a typed range: it is cut out of the model's, and an edit if the model's words are beside it.
 *
 * @param {Marks} marks
 * @param {number} from
 * @param {number} to
 * @param {number} length - of the whole text
 */
function withTyped(marks, from, to, length) {
  const add = [];
  let besideModel = false;
  let isEdit = false;
  for (const range of rangesAt(marks, from, to)) {
    if (range.value === EDIT) {
      isEdit ||= range.from <= from && range.to >= to;
      continue;
    }
    besideModel = true;
    if (range.from < from) {
      add.push(MODEL.range(range.from, from));
    }
    if (range.to > to) {
      add.push(MODEL.range(to, range.to));
    }
  }
  if (besideModel && !isEdit && to < length) {
    add.push(EDIT.range(from, to));
  }
  return marks.update({
    filter: (_from, _to, mark) => mark === EDIT,
    filterFrom: from,
    filterTo: to,
    add,
    sort: true,
  });
}

/**
 * @param {Marks} marks
 * @param {number} from
 * @param {number} to
 */
function rangesAt(marks, from, to) {
  /** @type {{from: number, to: number, value: Decoration}[]} */
  const found = [];
  marks.between(from, to, (start, end, value) => {
    found.push({ from: start, to: end, value });
  });
  return found;
}
