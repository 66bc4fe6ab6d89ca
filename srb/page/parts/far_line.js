// A long line that holds an end of the selection and is out of view, as a paragraph of a book's size is once somebody scrolls away: the editor would
// draw it whole, for the selection's sake, and the browser would lay it out for seconds. Only what stands around the selection is drawn.

import { Decoration, ViewPlugin, WidgetType } from "../vendor/codemirror.js";

const LONG = 20_000; // characters of a line
const AROUND = 500; // that are drawn on each side

class Hidden extends WidgetType {
  /** @param {number} height in px @param {number} estimatedHeight   of the line, which CodeMirror takes from the highest of its widgets */
  constructor(height, estimatedHeight) {
    super();
    this.height = height;
    this._estimatedHeight = estimatedHeight;
  }

  toDOM() {
    const place = document.createElement("div");
    place.style.height = `${this.height}px`;
    return place;
  }

  /** @param {Hidden} other */
  eq({ height, estimatedHeight }) {
    return height === this.height && estimatedHeight === this._estimatedHeight;
  }

  get estimatedHeight() {
    return this._estimatedHeight;
  }
}

/** @typedef {import("../vendor/codemirror.js").EditorView} View */
/** @typedef {ReturnType<View["state"]["doc"]["lineAt"]>} Line */

/** The long lines out of view in which the selection begins or ends. @param {View} view @returns {Line[]} */
function farLines({ state, viewport }) {
  const { from, to } = state.selection.main;
  const first = state.doc.lineAt(from);
  const lines = first.to >= to ? [first] : [first, state.doc.lineAt(to)];
  return lines.filter((line) => line.length > LONG && (line.to < viewport.from || line.from > viewport.to));
}

/** @param {View} view @param {Line[]} lines @param {number[]} heights of them */
function hiddenOf(view, lines, heights) {
  const { main } = view.state.selection;
  const found = [];
  for (const [index, line] of lines.entries()) {
    const height = heights[index];
    let from = line.from;
    for (const end of [main.from, main.to, Number.POSITIVE_INFINITY]) {
      const to = Math.min(end - AROUND, line.to);
      const widget = new Hidden(Math.round((height * (to - from)) / line.length), height);
      if (to - from > AROUND) found.push(Decoration.replace({ widget }).range(from, to));
      from = Math.max(from, end + AROUND);
    }
  }
  return Decoration.set(found);
}

/** @param {View} view @param {Line[]} lines */
function heightsOf(view, lines) {
  return lines.map(({ from }) => view.lineBlockAt(from).height);
}

class FarLine {
  /** @param {View} view */
  constructor(view) {
    this.lines = farLines(view);
    this.heights = heightsOf(view, this.lines);
    this.hidden = hiddenOf(view, this.lines, this.heights);
  }

  /** Heights stay while the lines do: of a line that is hidden in part the editor has a guess. @param {import("../vendor/codemirror.js").ViewUpdate} update */
  update({ changes, docChanged, selectionSet, viewportChanged, view }) {
    if (!docChanged && !selectionSet && !viewportChanged) return;
    const lines = farLines(view);
    const before = this.lines.map(({ from }) => changes.mapPos(from));
    const isSame = lines.length === before.length && lines.every(({ from }, index) => from === before[index]);
    this.lines = lines;
    if (!isSame) this.heights = heightsOf(view, lines);
    if (docChanged || selectionSet || !isSame) this.hidden = hiddenOf(view, lines, this.heights);
  }
}

/** An extension of the editor. */
export const farLine = ViewPlugin.fromClass(FarLine, { decorations: ({ hidden }) => hidden });
