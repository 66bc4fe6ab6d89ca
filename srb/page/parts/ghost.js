// The ghost: a card that stands in the manuscript at its place, in its ink, while a person looks at it. It is no part of the text.

import { putAtCaret } from "../desk/graft.js";
import { waysAt } from "../desk/past_ways.js";
import { alike } from "../story/text.js";
import {
  Decoration,
  EditorView,
  keymap,
  Prec,
  StateEffect,
  StateField,
  ViewPlugin,
  WidgetType,
} from "../vendor/codemirror.js";
import { nodesOf } from "./branches/emphasis_nodes.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../desk/past_ways.js").Ways} Ways */
/** @typedef {import("../desk/gestures.js").Landing & {isThere?: boolean}} Landing   `isThere`: the text has these words already */

class Ghost extends WidgetType {
  /** @param {Landing} landing */
  constructor({ text, taken }) {
    super();
    this.text = text;
    this.taken = taken;
  }

  toDOM() {
    const ghost = document.createElement("span");
    ghost.className = "ghost";
    ghost.setAttribute("aria-hidden", "true"); // the card has the words
    this.updateDOM(ghost);
    return ghost;
  }

  /** @param {HTMLElement} ghost */
  updateDOM(ghost) {
    const rest = document.createElement("span");
    rest.className = "rest";
    rest.append(...nodesOf(this.text, this.taken, this.text.length, []).children);
    ghost.replaceChildren(...nodesOf(this.text, 0, this.taken, []).children, rest);
    return true;
  }

  /** @param {Ghost} other */
  eq({ text, taken }) {
    return text === this.text && taken === this.taken;
  }

  get lineBreaks() {
    return this.text.split("\n").length - 1;
  }
}

/** What stands in the text; null: nothing. */
const setGhost = /** @type {ReturnType<typeof StateEffect.define<Landing | null>>} */ (StateEffect.define());

const ghost = StateField.define({
  create: () => Decoration.none,
  update(shown, { changes, effects }) {
    for (const effect of effects)
      if (effect.is(setGhost)) return effect.value === null ? Decoration.none : Decoration.set(marksOf(effect.value));
    return shown.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** @param {Landing} landing */
function marksOf(landing) {
  const { from, to, isThere = false } = landing;
  if (isThere) return from < to ? [Decoration.mark({ class: "ghost-there" }).range(from, to)] : [];
  const words = Decoration.widget({ widget: new Ghost(landing), side: 1 }).range(from);
  return from < to ? [words, Decoration.mark({ class: "ghost-instead" }).range(from, to)] : [words];
}

const LOOK = EditorView.theme({
  ".ghost": { color: "var(--model-ink)", whiteSpace: "pre-wrap" },
  ".ghost .sign": { display: "none" },
  ".ghost .rest": { color: "var(--dim)" },
  ".ghost-there": { backgroundColor: "var(--model)" },
  ".ghost-instead": { color: "var(--dim)", textDecoration: "line-through" },
});

/**
 * Return how another text of the story would stand in the place of this one: from where it goes another way, as far as they do not end alike. Of a
 * text that this one goes on from, its last words are shown where they are.
 * @param {Desk} desk @param {Place} place @returns {Landing}
 */
function landingAt({ story, head, text }, { node, at }) {
  const piece = story.pieces(head.node, head.at).find((each) => each.node === node);
  if (piece) return { ...piece, text: "", taken: 0, isThere: true };
  const path = new Set(story.path(head.node));
  const first = story.path(node).find((id) => !path.has(id));
  const other = story.text(node, at);
  const { keep = 0 } = story.nodes.get(first ?? "") ?? {};
  const [same, end] = alike(text, other);
  const from = Math.min(keep, same);
  const behind = Math.min(end, text.length - from, other.length - from);
  const rest = text.length - behind + Math.max(0, text.slice(text.length - behind).search(/\s|$/u)); // whole words
  const words = other.slice(from, other.length - text.length + rest);
  return { from, to: rest, text: words, taken: words.length };
}

/** How a way of a past round would stand in the place of the one that the text has. @param {Desk} desk @param {Ways} ways @returns {Landing} */
function landingOf({ story }, { from, to, now, ways }) {
  const { node, from: begin, to: end } = ways[now];
  const text = story.text(node, end).slice(begin);
  return { from, to, text, taken: text.length };
}

/**
 * Show the next branch of the round at the caret, of which one is in the text, in its place. Returns whether there is one: at the shown cards
 * these are what is shown.
 * @param {Desk} desk @param {1 | -1} way
 */
function flipPast(desk, way) {
  const { ghost, head, manuscript, rounds, story } = desk;
  const caret = manuscript?.caret() ?? 0;
  const gap = rounds?.gap;
  if (ghost?.number !== undefined || rounds?.isCovered || (gap && caret >= gap.at)) return false;
  const ways = waysAt(story, head, caret);
  if (!ways) return false;
  const count = ways.ways.length;
  const now = ((ghost?.ways ?? ways).now + way + count) % count;
  desk.showGhost({ ways: { ...ways, now }, isThere: now === ways.now, moves: true });
  return true;
}

/**
 * Show the next card that has words, in the cards' order, in the text. Returns whether there is one.
 * @param {Desk} desk @param {1 | -1} way
 */
export function flip(desk, way) {
  const { round, ghost } = desk;
  const order = (desk.rounds?.isCovered ? [] : (round?.shown ?? [])).filter((each) => {
    const { text = "", state, foldedUnder } = round?.slots[each] ?? {};
    return text.trim() !== "" && state !== "pruned" && foldedUnder === null;
  });
  if (order.length === 0) return false;
  const now = order.indexOf(ghost?.number ?? -1);
  const next = now < 0 ? (way === 1 ? 0 : -1) : (now + way) % order.length;
  desk.showGhost({ number: /** @type {number} */ (order.at(next)), moves: true });
  return true;
}

/** Keys of the text: cards are shown there without going to them. @param {Desk} desk */
function keysOf(desk) {
  const take = () => {
    const { moves, number = -1, place, ways, isThere } = desk.ghost ?? {};
    if (!moves) return false;
    if (isThere) desk.showGhost(null);
    else if (ways) putAtCaret(desk, ways.ways[ways.now], ways);
    else if (place) desk.openNode(place.node, place.at);
    else desk.take(number);
    return true;
  };
  return Prec.highest(
    keymap.of([
      {
        key: "Alt-ArrowRight",
        mac: "Ctrl-Alt-ArrowRight",
        run: () => flipPast(desk, 1) || flip(desk, 1),
        preventDefault: true,
      },
      {
        key: "Alt-ArrowLeft",
        mac: "Ctrl-Alt-ArrowLeft",
        run: () => flipPast(desk, -1) || flip(desk, -1),
        preventDefault: true,
      },
      { key: "Enter", run: take },
    ]),
  );
}

/** Show the card that the desk says. @param {Desk} desk */
export function showGhost(desk) {
  /** @type {EditorView | null} */
  let view = null;
  /** @type {number | null} where the view was before a ghost moved it */
  let top = null;
  const follower = ViewPlugin.define((made) => {
    view = made;
    return {};
  });
  const landingNow = () => {
    const { number = -1, place, ways, isThere } = desk.ghost ?? {};
    if (ways) return { ...landingOf(desk, ways), isThere };
    return place ? landingAt(desk, place) : (desk.rounds?.gestures.landing(number) ?? null);
  };
  const show = () => {
    if (view === null) return;
    const landing = landingNow();
    const { scrollDOM } = view;
    if (landing && desk.ghost?.moves && (top === null || desk.ghost.place)) {
      top ??= scrollDOM.scrollTop;
      view.dispatch({ effects: EditorView.scrollIntoView(landing.from, { y: "center" }) });
    }
    view.dispatch({ effects: setGhost.of(landing) });
    if (landing !== null || top === null) return;
    scrollDOM.scrollTop = top;
    top = null;
  };
  desk.manuscript?.extend([ghost, follower, LOOK, keysOf(desk)]);
  desk.addEventListener("ghost", show);
  desk.addEventListener("round", () => desk.ghost !== null && show());
  desk.addEventListener("text", (event) => {
    const { slots } = /** @type {CustomEvent} */ (event).detail;
    if (desk.ghost !== null && slots.has(desk.ghost.number ?? -1)) show();
  });
  desk.addEventListener("head", () => {
    top = null; // a take, or typed words, have the view
    desk.showGhost(null);
  });
}
