/**
 * Pictures in the manuscript as CodeMirror's extension: each marker is shown as the picture that it names, and is moved over,
 * selected and deleted as one character.
 */

import { markersOf } from "../markers.js";
import { isSound, typeOf } from "../media.js";
import { Decoration, EditorView, StateEffect, StateField, WidgetType } from "../vendor/codemirror.js";

/** @typedef {import("../vendor/codemirror.js").DecorationSet} Shown */
/** @typedef {(id: string) => Promise<Uint8Array<ArrayBuffer> | null>} Read */

/** Read again what could not be read. */
export const readAgain = /** @type {ReturnType<typeof StateEffect.define<null>>} */ (StateEffect.define());

class PictureWidget extends WidgetType {
  /** @param {string} name @param {string} id @param {Read} read @param {number} [time] how often it was asked for again */
  constructor(name, id, read, time = 0) {
    super();
    this.name = name;
    this.id = id;
    this.read = read;
    this.time = time;
  }

  /** @param {PictureWidget} other */
  eq(other) {
    return other.id === this.id && other.name === this.name && other.time === this.time;
  }

  /** @param {EditorView} view */
  toDOM(view) {
    const place = document.createElement("span");
    place.className = "picture";
    place.setAttribute("role", "img");
    label(place, `Picture: ${this.name}`, `🖼 ${this.name}`);
    this.show(place, view).catch(() =>
      label(place, `Picture, not loaded: ${this.name}`, `🖼 ${this.name} (not loaded)`),
    );
    return place;
  }

  /** @param {HTMLElement} place @param {EditorView} view */
  async show(place, view) {
    const bytes = await this.read(this.id);
    if (!bytes) return label(place, `Picture, not here: ${this.name}`, `🖼 ${this.name} (not here)`);
    const type = typeOf(bytes);
    if (isSound(type)) return label(place, `Sound: ${this.name}`, `♪ ${this.name}`);
    const picture = document.createElement("img");
    picture.alt = "";
    picture.src = URL.createObjectURL(new Blob([bytes], { type }));
    try {
      await picture.decode();
      place.replaceChildren(picture);
    } finally {
      URL.revokeObjectURL(picture.src);
    }
    view.requestMeasure();
  }

  ignoreEvent() {
    return false; // a click selects it, see below
  }
}

/** @param {HTMLElement} place @param {string} words @param {string} shown */
function label(place, words, shown) {
  place.setAttribute("aria-label", words);
  place.textContent = shown;
}

/** @param {Read} read */
export function pictureWidgets(read) {
  let time = 0;
  /** @param {string} text @param {number} offset */
  const found = (text, offset) =>
    text.includes("](srb:")
      ? markersOf(text).map(({ from, to, name, id }) =>
          Decoration.replace({ widget: new PictureWidget(name, id, read, time) }).range(offset + from, offset + to),
        )
      : [];
  const field = StateField.define({
    create: ({ doc }) => /** @type {Shown} */ (Decoration.set(found(doc.toString(), 0))),
    update(shown, transaction) {
      const { newDoc: doc } = transaction;
      if (transaction.effects.some((effect) => effect.is(readAgain))) {
        time += 1;
        return Decoration.set(found(doc.toString(), 0));
      }
      if (!transaction.docChanged) return shown;
      let after = shown.map(transaction.changes);
      transaction.changes.iterChangedRanges((_fromA, _toA, fromB, toB) => {
        const from = doc.lineAt(fromB).from;
        const to = doc.lineAt(toB).to;
        const add = found(doc.sliceString(from, to), from);
        after = after.update({ filter: () => false, filterFrom: from, filterTo: to, add });
      });
      return after;
    },
    provide: (self) => [
      EditorView.decorations.from(self),
      EditorView.atomicRanges.of((view) => view.state.field(self)),
    ],
  });
  return [field, EditorView.domEventHandlers({ mousedown: (event, view) => select(event, view, field) }), LOOK];
}

/** @param {MouseEvent} event @param {EditorView} view @param {StateField<Shown>} field */
function select(event, view, field) {
  const place = /** @type {Element} */ (event.target).closest(".picture");
  if (!place || event.button !== 0) return false;
  const at = view.posAtDOM(place);
  view.state.field(field).between(at, at, (from, to) => {
    if (from === at) view.dispatch({ selection: { anchor: from, head: to } });
  });
  view.focus();
  event.preventDefault();
  return true;
}

const LOOK = EditorView.theme({
  ".picture": {
    display: "inline-block",
    maxWidth: "100%",
    verticalAlign: "bottom",
    color: "var(--dim)",
    cursor: "default",
  },
  ".picture img": {
    display: "block",
    maxWidth: "min(100%, 20em)",
    maxHeight: "12em",
    borderRadius: "4px",
  },
});
