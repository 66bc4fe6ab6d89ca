// Markdown in the manuscript: emphasis, headings and breaks between scenes are shown as such, with their signs dimmed, and Ctrl+I
// and Ctrl+B give a selection emphasis or take it away.
//
// The text keeps its signs, and so does what the model reads. Only the lines in view are read. A heading's line is as high as any
// other, so that no line moves when the look comes to a text that is there already.

import { emphasised, isEmphasised, wordAround } from "../emphasis.js";
import { readLine, SIGNS } from "../markdown.js";
import {
  Decoration,
  EditorSelection,
  EditorView,
  isolateHistory,
  keymap,
  RangeSetBuilder,
  ViewPlugin,
} from "../vendor/codemirror.js";

/** @typedef {import("../markdown.js").Kind} Kind */
/** @typedef {import("../vendor/codemirror.js").EditorState} EditorState */
/** @typedef {import("../vendor/codemirror.js").TransactionSpec} TransactionSpec */
/** @typedef {{from: number, to: number, text: string}} DocLine */

const MARKS = {
  em: Decoration.mark({ class: "em" }),
  strong: Decoration.mark({ class: "strong" }),
  sign: Decoration.mark({ class: "sign" }),
  hanging: Decoration.mark({ class: "sign hanging" }),
};
const LINES = [1, 2, 3].map((level) => Decoration.line({ class: `heading level-${level}` }));
const BREAK = Decoration.line({ class: "break" });
const HANGING = 4; // characters of a heading's sign, with its blank: longer ones have no room in the margin

class ProseLook {
  /** @param {EditorView} view */
  constructor(view) {
    this.decorations = looksOf(view);
  }

  /** @param {import("../vendor/codemirror.js").ViewUpdate} update */
  update({ docChanged, viewportChanged, view }) {
    if (docChanged || viewportChanged) this.decorations = looksOf(view);
  }
}

/** The decorations of the lines in view. @param {EditorView} view */
function looksOf(view) {
  const builder = /** @type {RangeSetBuilder<Decoration>} */ (new RangeSetBuilder());
  const { doc } = view.state;
  let next = 0;
  for (const { from, to } of view.visibleRanges) {
    for (let at = Math.max(from, next); at <= to; at = next) {
      const line = doc.lineAt(at);
      add(builder, line);
      next = line.to + 1;
    }
  }
  return builder.finish();
}

/** @param {RangeSetBuilder<Decoration>} builder @param {DocLine} line */
function add(builder, { from: start, text }) {
  const { kind, level, from: words, spans, signs } = readLine(text);
  const look = kind === "heading" ? LINES[Math.min(level, LINES.length) - 1] : BREAK;
  if (kind !== "text" && look) builder.add(start, start, look);
  const marks = [
    ...spans.map(({ kind: of, from, to }) => ({ from, to, mark: MARKS[of] })),
    ...signs.map(({ from, to }) => ({ from, to, mark: to === words && to <= HANGING ? MARKS.hanging : MARKS.sign })),
  ];
  for (const { from, to, mark } of marks.sort((a, b) => a.from - b.from || b.to - a.to))
    builder.add(start + from, start + to, mark);
}

/** @param {Kind} kind @returns {import("../vendor/codemirror.js").Command} */
const toggle = (kind) => (view) => {
  const spec = toggled(view.state, kind);
  if (spec) view.dispatch({ ...spec, userEvent: "input.emphasis", scrollIntoView: true });
  return true; // the browser has other uses for these keys
};

/**
 * Return what the key of an emphasis does: to the selection, to the word around the caret, or else it begins or ends emphasis there.
 * @param {EditorState} state @param {Kind} kind @returns {TransactionSpec | null}
 */
function toggled(state, kind) {
  const { main } = state.selection;
  if (!main.empty) return wrapped(state, kind, main);
  const line = state.doc.lineAt(main.head);
  const word = wordAround(line.text, main.head - line.from);
  if (word === null) return atCaret(line, main.head - line.from, kind);
  const spec = wrapped(state, kind, { from: line.from + word.from, to: line.from + word.to });
  return spec && { changes: spec.changes, annotations: spec.annotations }; // the caret stays in the word
}

/** @param {EditorState} state @param {Kind} kind @param {{from: number, to: number}} range @returns {TransactionSpec | null} */
function wrapped(state, kind, { from, to }) {
  const parts = [];
  for (let at = from; at <= to; ) {
    const line = state.doc.lineAt(at);
    const part = { from: Math.max(from, line.from) - line.from, to: Math.min(to, line.to) - line.from };
    const is = isEmphasised(line.text, part, kind);
    if (is !== null) parts.push({ line, part, is });
    at = line.to + 1;
  }
  const on = !parts.every(({ is }) => is);
  const changes = parts.flatMap(({ line, part, is }) =>
    is === on
      ? []
      : (emphasised(line.text, part, kind, on) ?? []).map((change) => ({
          from: line.from + change.from,
          to: line.from + change.to,
          insert: change.insert,
        })),
  );
  if (changes.length === 0) return null;
  const set = state.changes(changes);
  const selection = EditorSelection.single(set.mapPos(from, 1), set.mapPos(to, -1));
  return { changes: set, selection, annotations: isolateHistory.of("full") };
}

/**
 * Begin an emphasis at the caret, by a pair of signs; or leave it, or take the empty pair away.
 * @param {DocLine} line @param {number} at @param {Kind} kind @returns {TransactionSpec}
 */
function atCaret(line, at, kind) {
  const sign = SIGNS[kind];
  const { length } = sign;
  const place = line.from + at;
  if (readLine(line.text).spans.some((span) => span.kind === kind && span.to === at))
    return { selection: { anchor: place + length } };
  if (signsBefore(line.text, at) === length && signsAfter(line.text, at) === length)
    return { changes: { from: place - length, to: place + length } };
  return { changes: { from: place, insert: sign + sign }, selection: { anchor: place + length } };
}

/** @param {string} text @param {number} at */
const signsBefore = (text, at) => at - text.slice(0, at).replace(/\*{1,3}$/, "").length;

/** @param {string} text @param {number} at */
const signsAfter = (text, at) => /^\**/.exec(text.slice(at))?.[0].length ?? 0;

const LOOK = EditorView.theme({
  // Another face, or one that is still being loaded, has its baseline elsewhere: at the full height it would make its line higher.
  ".em, .strong, .sign": { lineHeight: "1" },
  ".em": { fontStyle: "italic" },
  ".strong": { fontWeight: "bold" },
  ".sign": { color: "var(--dim)", fontWeight: "normal", fontStyle: "normal" },
  ".cm-line.heading": { fontSize: "1.25em", lineHeight: "1.28", fontWeight: "bold" }, // 1.6 of a line's size
  ".cm-line.level-1": { fontSize: "1.45em", lineHeight: "1.1034" },
  ".cm-line.level-3": { fontSize: "1.05em", lineHeight: "1.5238" },
  ".cm-line.break": { textAlign: "center" },
});

/** An extension of the editor. */
export const proseMarkdown = [
  ViewPlugin.fromClass(ProseLook, { decorations: (look) => look.decorations }),
  keymap.of([
    { key: "Mod-i", run: toggle("em") },
    { key: "Mod-b", run: toggle("strong") },
  ]),
  LOOK,
];
