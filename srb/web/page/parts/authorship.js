// Authorship colours: the model's words have a tint, a person's words in the middle of them are underlined.
//
// The colours come from the story's pieces after a take, an undo or a pause. Between those the marks move with the text, and
// typed words are the person's. CodeMirror draws only the marks in view.

import { Decoration, EditorView, RangeSet, RangeSetBuilder, StateEffect, StateField } from "../vendor/codemirror.js";

/** @typedef {{from: number, to: number, node: string, by: string}} Piece */
/** @typedef {import("../vendor/codemirror.js").DecorationSet} Marks */

const MODEL = Decoration.mark({ class: "by-model" });
const EDIT = Decoration.mark({ class: "by-edit", inclusive: true });

/** The marks of the whole text, as `marksOf` made them. */
export const setMarks = /** @type {import("../vendor/codemirror.js").StateEffectType<Marks>} */ (StateEffect.define());

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
  const kinds = pieces.map((piece) => (piece.by === "person" && isInserted(piece) ? "inserted" : piece.by));
  for (let first = 0, next; first < pieces.length; first = next) {
    next = first + 1;
    while (kinds[next] === kinds[first]) {
      next += 1;
    }
    const besideModel = kinds[first - 1] === "model" || kinds[next] === "model";
    const mark = kinds[first] === "model" ? MODEL : kinds[first] === "inserted" && besideModel ? EDIT : null;
    if (mark !== null && pieces[next - 1].to > pieces[first].from) {
      builder.add(pieces[first].from, pieces[next - 1].to, mark);
    }
  }
  return builder.finish();
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
