// vendor/codemirror.js: the manuscript's editor, its history and its search panel.
//
// Of @codemirror/commands only what does not look at a programming language: parts/prose_keymap.js binds these.
export {
  cursorCharLeft, cursorCharRight, cursorDocEnd, cursorDocStart, cursorGroupLeft, cursorGroupRight, cursorLineBoundaryBackward,
  cursorLineBoundaryForward, cursorLineBoundaryLeft, cursorLineBoundaryRight, cursorLineDown, cursorLineEnd, cursorLineStart,
  cursorLineUp, cursorPageDown, cursorPageUp, deleteCharBackwardStrict, deleteCharForward, deleteGroupBackward, deleteGroupForward,
  deleteLineBoundaryBackward, deleteLineBoundaryForward, deleteToLineEnd, history, historyField, historyKeymap, insertNewline,
  invertedEffects, isolateHistory, redo, redoDepth, selectAll, selectCharLeft, selectCharRight, selectDocEnd, selectDocStart,
  selectGroupLeft, selectGroupRight, selectLineBoundaryBackward, selectLineBoundaryForward, selectLineBoundaryLeft,
  selectLineBoundaryRight, selectLineDown, selectLineEnd, selectLineStart, selectLineUp, selectPageDown, selectPageUp, splitLine,
  transposeChars, undo, undoDepth,
} from "@codemirror/commands";
export { closeSearchPanel, openSearchPanel, search, searchKeymap } from "@codemirror/search";
export {
  Annotation, ChangeSet, Compartment, EditorSelection, EditorState, Facet, Prec, RangeSet, RangeSetBuilder, StateEffect, StateField,
  Text, Transaction,
} from "@codemirror/state";
export {
  Decoration, drawSelection, dropCursor, EditorView, highlightSpecialChars, keymap, placeholder, ViewPlugin, WidgetType,
} from "@codemirror/view";

export type { ChangeDesc, ChangeSpec, Extension, Range, SelectionRange, StateCommand, TransactionSpec } from "@codemirror/state";
export type { Command, DecorationSet, KeyBinding, ViewUpdate } from "@codemirror/view";
