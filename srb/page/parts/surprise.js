// A tint of the words in the manuscript that the model did not expect: of what is in view, which is read when it comes there.

import { surpriseOf, tintsOf } from "../desk/surprise.js";
import { msg } from "../languages.js";
import { Decoration, EditorView, StateEffect, StateField, ViewPlugin } from "../vendor/codemirror.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../desk/surprise.js").Tint} Tint */

const PAUSE = 400; // ms without a key or a scroll until what is in view is read
const MOST = 12_000; // characters that are read at once, more than a large window shows

const setTints = /** @type {ReturnType<typeof StateEffect.define<Tint[]>>} */ (StateEffect.define());
const STEPS = [2, 3, 4, 5];
const MARKS = STEPS.map((step) => Decoration.mark({ class: `surprise-${step}` }));
const LOOK = EditorView.theme(
  Object.fromEntries(STEPS.map((step) => [`.surprise-${step}`, { backgroundColor: `var(--step-${step})` }])),
);

const tints = StateField.define({
  create: () => Decoration.none,
  update(shown, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(setTints))
        return Decoration.set(effect.value.flatMap(({ from, to, step }) => MARKS[step - 2]?.range(from, to) ?? []));
    return shown.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** @type {WeakMap<Desk, Surprise>} */
const ofDesks = new WeakMap();

/** Tint the words, or tint them no more. @param {Desk} desk */
export function switchSurprise(desk) {
  const known = ofDesks.get(desk);
  const surprise = known ?? new Surprise(desk);
  if (!known) ofDesks.set(desk, surprise);
  surprise.turn();
}

class Surprise {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.isOn = false;
    this.timer = 0;
    /** @type {AbortController | null} of what is being read */
    this.reading = null;
    this.read = ""; // the text that is tinted, and all before it
    /** @type {EditorView | null} */
    this.view = null;
    const follower = ViewPlugin.define((view) => {
      this.view = view;
      return { update: ({ docChanged, viewportChanged }) => (docChanged || viewportChanged ? this.soon() : undefined) };
    });
    desk.manuscript?.extend([tints, follower, LOOK]);
    desk.addEventListener("head", () => this.soon());
  }

  turn() {
    this.isOn = !this.isOn;
    this.reading?.abort();
    this.read = "";
    if (this.isOn) {
      this.desk.notice(
        msg`The stronger a word’s colour, the less the model expected it. Alt+T at a word shows what it expected; Alt+S ends this.`,
      );
      this.soon(0);
    } else this.show([]);
  }

  soon(pause = PAUSE) {
    if (!this.isOn) return;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.look(), pause);
  }

  /** Read what is in view, unless it is what was read last. */
  async look() {
    const { desk, view } = this;
    if (!view || !this.isOn) return;
    const from = view.viewport.from;
    const to = Math.min(view.viewport.to, from + MOST);
    const { text } = desk;
    if (text.slice(0, to) === this.read) return;
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    try {
      const known = await surpriseOf(desk, text.slice(0, from), text.slice(from, to), reading.signal);
      if (reading.signal.aborted || !desk.text.startsWith(text.slice(0, to))) return;
      this.read = text.slice(0, to);
      this.show(tintsOf(text.slice(from, to), from, known));
    } catch (error) {
      if (reading.signal.aborted) return;
      this.isOn = false;
      this.show([]);
      desk.notice(/** @type {Error} */ (error).message, "error");
    }
  }

  /** @param {Tint[]} wanted */
  show(wanted) {
    this.view?.dispatch({ effects: setTints.of(wanted) });
  }
}
