/**
 * Pictures and sounds in the manuscript as CodeMirror's extension: each marker is shown as the picture that it names, or as a button
 * that plays the sound, and is moved over, selected and deleted as one character.
 */

import { msg } from "../languages.js";
import { markersOf } from "../markers.js";
import { isSound, typeOf } from "../media.js";
import { Decoration, EditorView, StateEffect, StateField, WidgetType } from "../vendor/codemirror.js";

/** @typedef {import("../vendor/codemirror.js").DecorationSet} Shown */
/** @typedef {(id: string) => Promise<Uint8Array<ArrayBuffer> | null>} Read */

const AWAY = "not loaded"; // the server could not be asked
const NOWHERE = "not here";
/** @type {Record<string, string>} */
const WHY = { [AWAY]: msg`not loaded`, [NOWHERE]: msg`not here` };
const SOUND = /\.(wav|mp3|flac)$/i; // of a name: its bytes are read when it is played

/** Read again what could not be read; also what is nowhere, if the value says so. */
export const readAgain = /** @type {ReturnType<typeof StateEffect.define<boolean>>} */ (StateEffect.define());

class PictureWidget extends WidgetType {
  /** @param {{name: string, id: string, read: Read, missing: Map<string, string>, time: number, before?: string}} given */
  constructor({ name, id, read, missing, time, before = "" }) {
    super();
    this.name = name;
    this.id = id;
    this.read = read;
    this.missing = missing;
    this.time = time;
    this.before = before; // why it was missing: shown until it is read, so that no line moves for nothing
  }

  /** @param {PictureWidget} other */
  eq(other) {
    return other.id === this.id && other.name === this.name && other.time === this.time;
  }

  /** @param {EditorView} view */
  toDOM(view) {
    const place = document.createElement("span");
    place.className = "picture";
    if (SOUND.test(this.name)) this.offer(place, view);
    else {
      place.setAttribute("role", "img");
      if (this.before) this.miss(place, this.before);
      else label(place, msg`Picture: ${this.name}`, `🖼 ${this.name}`);
      this.show(place, view).catch(() => this.miss(place, AWAY));
    }
    return place;
  }

  /** @param {HTMLElement} place @param {EditorView} view */
  async show(place, view) {
    const bytes = await this.read(this.id);
    if (!bytes) return this.miss(place, NOWHERE);
    this.missing.delete(this.id);
    delete place.dataset.missing;
    const type = typeOf(bytes);
    if (isSound(type)) return this.offer(place, view);
    const picture = document.createElement("img");
    picture.alt = "";
    place.setAttribute("aria-label", msg`Picture: ${this.name}`);
    picture.src = URL.createObjectURL(new Blob([bytes], { type }));
    try {
      await picture.decode();
      place.replaceChildren(picture);
    } finally {
      URL.revokeObjectURL(picture.src);
    }
    view.requestMeasure();
  }

  /** Offer to play a sound. @param {HTMLElement} place @param {EditorView} view */
  offer(place, view) {
    const button = document.createElement("button");
    button.type = "button";
    label(button, msg`Play ${this.name}`, `♪ ${this.name}`);
    button.addEventListener("click", () => this.play(place, view).catch(() => this.miss(place, AWAY)));
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", msg`Sound: ${this.name}`);
    place.replaceChildren(button);
  }

  /** @param {HTMLElement} place @param {EditorView} view */
  async play(place, view) {
    const bytes = await this.read(this.id);
    if (!bytes) return this.miss(place, NOWHERE);
    if (!isSound(typeOf(bytes))) return this.show(place, view); // whatever its name says
    this.missing.delete(this.id);
    if (!place.isConnected) return; // it was deleted, or another story was opened: nothing would stop it
    const player = document.createElement("audio");
    player.controls = true;
    player.setAttribute("aria-label", this.name);
    player.src = URL.createObjectURL(new Blob([bytes], { type: typeOf(bytes) }));
    place.replaceChildren(player);
    view.requestMeasure();
    player.focus();
    await player.play().catch(() => {}); // its controls show what it cannot play
  }

  /** @param {HTMLElement} place */
  destroy(place) {
    const player = place.querySelector("audio");
    player?.pause();
    if (player) URL.revokeObjectURL(player.src);
  }

  /** @param {HTMLElement} place @param {string} why */
  miss(place, why) {
    this.missing.set(this.id, why);
    place.dataset.missing = why;
    const [kind, sign] = SOUND.test(this.name) ? [msg`Sound`, "♪"] : [msg`Picture`, "🖼"];
    place.setAttribute("role", "img");
    label(place, `${kind}, ${WHY[why]}: ${this.name}`, `${sign} ${this.name} (${WHY[why]})`);
  }

  /** The editor selects a picture that is clicked (see below); a player's buttons and keys are its own. @param {Event} event */
  ignoreEvent(event) {
    return /** @type {Element} */ (event.target).closest("button, audio") !== null;
  }
}

/** @param {HTMLElement} place @param {string} words @param {string} shown */
function label(place, words, shown) {
  place.setAttribute("aria-label", words);
  place.textContent = shown;
}

/** @param {Read} read */
export function pictureWidgets(read) {
  /** @type {Map<string, string>} why pictures could not be read, by id */
  const missing = new Map();
  /** @type {Map<string, number>} how often a picture was asked for again */
  const times = new Map();
  /** @param {string} text @param {number} offset */
  const found = (text, offset) =>
    text.includes("](srb:")
      ? markersOf(text).map(({ from, to, name, id }) =>
          Decoration.replace({
            widget: new PictureWidget({ name, id, read, missing, time: times.get(id) ?? 0, before: missing.get(id) }),
          }).range(offset + from, offset + to),
        )
      : [];
  const field = StateField.define({
    create: ({ doc }) => /** @type {Shown} */ (Decoration.set(found(doc.toString(), 0))),
    update(shown, transaction) {
      const { newDoc: doc } = transaction;
      const again = transaction.effects.find((effect) => effect.is(readAgain));
      if (again) {
        for (const [id, why] of missing) if (why === AWAY || again.value) times.set(id, (times.get(id) ?? 0) + 1); // all other widgets are equal, and stay
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
    maxWidth: "min(100%, 20em)",
    verticalAlign: "bottom",
    color: "var(--dim)",
    cursor: "default",
  },
  ".picture button": {
    minHeight: "2rem",
    padding: "0.1rem 0.65rem",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    background: "var(--card)",
    font: "inherit",
    color: "var(--ink)",
    cursor: "pointer",
  },
  "@media (pointer: coarse)": {
    ".picture button": { minHeight: "44px" },
  },
  ".picture audio": {
    display: "block",
    maxWidth: "100%",
  },
  ".picture img": {
    display: "block",
    maxWidth: "100%",
    maxHeight: "12em",
    borderRadius: "4px",
  },
});
