// Keys of the manuscript: moving, selecting and deleting, on Linux and Windows as on macOS.
//
// CodeMirror's own default keymap is for programs: there Enter indents and drops the spaces after the caret, Ctrl+Enter
// inserts a line, Alt+arrow moves one. Here each key changes exactly the characters that a writer sees change.

import * as cm from "../vendor/codemirror.js";

/** @type {readonly import("../vendor/codemirror.js").KeyBinding[]} */
const EVERYWHERE = [
  { key: "ArrowLeft", run: cm.cursorCharLeft, shift: cm.selectCharLeft, preventDefault: true },
  { key: "ArrowRight", run: cm.cursorCharRight, shift: cm.selectCharRight, preventDefault: true },
  { key: "ArrowUp", run: cm.cursorLineUp, shift: cm.selectLineUp, preventDefault: true },
  { key: "ArrowDown", run: cm.cursorLineDown, shift: cm.selectLineDown, preventDefault: true },
  { key: "PageUp", run: cm.cursorPageUp, shift: cm.selectPageUp },
  { key: "PageDown", run: cm.cursorPageDown, shift: cm.selectPageDown },
  { key: "Home", run: cm.cursorLineBoundaryBackward, shift: cm.selectLineBoundaryBackward, preventDefault: true },
  { key: "End", run: cm.cursorLineBoundaryForward, shift: cm.selectLineBoundaryForward, preventDefault: true },
  { key: "Mod-Home", run: cm.cursorDocStart, shift: cm.selectDocStart },
  { key: "Mod-End", run: cm.cursorDocEnd, shift: cm.selectDocEnd },
  {
    key: "Mod-ArrowLeft",
    mac: "Alt-ArrowLeft",
    run: cm.cursorGroupLeft,
    shift: cm.selectGroupLeft,
    preventDefault: true,
  },
  {
    key: "Mod-ArrowRight",
    mac: "Alt-ArrowRight",
    run: cm.cursorGroupRight,
    shift: cm.selectGroupRight,
    preventDefault: true,
  },
  { key: "Enter", run: cm.insertNewline, shift: cm.insertNewline },
  { key: "Backspace", run: cm.deleteCharBackwardStrict, shift: cm.deleteCharBackwardStrict, preventDefault: true },
  { key: "Delete", run: cm.deleteCharForward, preventDefault: true },
  { key: "Mod-Backspace", mac: "Alt-Backspace", run: cm.deleteGroupBackward, preventDefault: true },
  { key: "Mod-Delete", mac: "Alt-Delete", run: cm.deleteGroupForward, preventDefault: true },
  { key: "Mod-a", run: cm.selectAll },
];

/** @type {readonly import("../vendor/codemirror.js").KeyBinding[]} */
const MACOS = [
  { mac: "Cmd-ArrowLeft", run: cm.cursorLineBoundaryLeft, shift: cm.selectLineBoundaryLeft, preventDefault: true },
  { mac: "Cmd-ArrowRight", run: cm.cursorLineBoundaryRight, shift: cm.selectLineBoundaryRight, preventDefault: true },
  { mac: "Cmd-ArrowUp", run: cm.cursorDocStart, shift: cm.selectDocStart },
  { mac: "Cmd-ArrowDown", run: cm.cursorDocEnd, shift: cm.selectDocEnd },
  { mac: "Ctrl-ArrowUp", run: cm.cursorPageUp, shift: cm.selectPageUp },
  { mac: "Ctrl-ArrowDown", run: cm.cursorPageDown, shift: cm.selectPageDown },
  { mac: "Cmd-Backspace", run: cm.deleteLineBoundaryBackward, preventDefault: true },
  { mac: "Cmd-Delete", run: cm.deleteLineBoundaryForward, preventDefault: true },
  { mac: "Ctrl-a", run: cm.cursorLineStart, shift: cm.selectLineStart },
  { mac: "Ctrl-e", run: cm.cursorLineEnd, shift: cm.selectLineEnd },
  { mac: "Ctrl-d", run: cm.deleteCharForward },
  { mac: "Ctrl-h", run: cm.deleteCharBackwardStrict },
  { mac: "Ctrl-k", run: cm.deleteToLineEnd },
  { mac: "Ctrl-o", run: cm.splitLine },
  { mac: "Ctrl-t", run: cm.transposeChars },
];

export const proseKeymap = [...EVERYWHERE, ...MACOS];
