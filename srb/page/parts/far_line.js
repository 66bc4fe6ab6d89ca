// A long line that holds an end of the selection and is out of view, as a paragraph of a book's size is once somebody scrolls away: the editor would
// draw it whole, for the selection's sake, and the browser would lay it out for seconds. Only what stands around the selection is drawn.

import { Decoration, ViewPlugin, WidgetType } from "../vendor/codemirror.js";

const LONG = 20_000; // characters of a line
const AROUND = 500; // that are drawn on each side

class Hidden extends WidgetType {
  /** @param {number} height in px */
  constructor(height) {
    super();
    this.height = height;
  }

  toDOM() {
    const place = document.createElement("div");
    place.style.height = `${this.height}px`;
    return place;
  }

  /** @param {Hidden} other */
  eq({ height }) {
    return height === this.height;
  }

  get estimatedHeight() {
    return this.height;
  }
}

/** @typedef {import("../vendor/codemirror.js").EditorView} View */
/** @typedef {ReturnType<View["state"]["doc"]["lineAt"]>} Line */

/** The long lines out of view in which the selection begins or ends. @param {View} view @returns {Line[]} */
function farLines({ state, viewport }) {
  const { from, to } = state.selection.main;
  const lines = [state.doc.lineAt(from), state.doc.lineAt(to)].slice(state.doc.lineAt(from).to >= to ? 1 : 0);
  return lines.filter((line) => line.length > LONG && (line.to < viewport.from || line.from > viewport.to));
}

/** @param {View} view @param {Line[]} lines */
function hiddenOf(view, lines) {
  const { main } = view.state.selection;
  const found = [];
  for (const line of lines) {
    const { height } = view.lineBlockAt(line.from);
    let from = line.from;
    for (const end of [main.from, main.to, Number.POSITIVE_INFINITY]) {
      const to = Math.min(end - AROUND, line.to);
      const widget = new Hidden(Math.round((height * (to - from)) / line.length));
      if (to - from > AROUND) found.push(Decoration.replace({ widget }).range(from, to));
      from = Math.max(from, end + AROUND);
    }
  }
  return Decoration.set(found);
}

class FarLine {
  /** @param {View} view */
  constructor(view) {
    this.lines = farLines(view);
    this.hidden = hiddenOf(view, this.lines);
  }

  /** Heights stay while the lines do: each look at them would change the view, and so their heights. @param {import("../vendor/codemirror.js").ViewUpdate} update */
  update({ docChanged, selectionSet, viewportChanged, view }) {
    if (!docChanged && !selectionSet && !viewportChanged) return;
    const lines = farLines(view);
    const isSame =
      lines.length === this.lines.length && lines.every(({ from }, index) => from === this.lines[index]?.from);
    this.lines = lines;
    if (docChanged || selectionSet || !isSame) this.hidden = hiddenOf(view, lines);
  }
}

/** An extension of the editor. */
export const farLine = ViewPlugin.fromClass(FarLine, { decorations: ({ hidden }) => hidden });
