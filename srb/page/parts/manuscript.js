// <srb-manuscript>: the text that the writer writes, in CodeMirror.
//
// It lives in a shadow root, since only there CodeMirror's styles are allowed by the page's content security policy. The desk
// is told of every change, and answers with the new head.

import { msg } from "../languages.js";
import {
  EditorState,
  EditorView,
  isolateHistory,
  openSearchPanel,
  redo,
  StateEffect,
  Transaction,
  undo,
} from "../vendor/codemirror.js";
import { arrival, arrive } from "./arrival.js";
import { authorship, marksOf, setMarks } from "./authorship.js";
import { moves } from "./motion.js";
import { headAfter, oneHistory, recordAct, runActs, setHead } from "./one_history.js";
import { difference, plain, proseEditor } from "./prose_editor.js";
import { keepReadingPlace, readingPlace } from "./reading_places.js";

/** @typedef {import("./one_history.js").Place} Place */
/** @typedef {import("./authorship.js").Piece} Piece */
/** @typedef {{from: number, to: number, insert: string}} Change   `from`, `to`: in the text before the transaction */

/**
 * The part of the desk that the manuscript needs.
 *
 * @typedef {EventTarget & {
 *   story: {id: string, nodes: Map<string, {tail?: number}>, pieces: (node: string, at?: number) => Piece[], meta: (key: string) => unknown},
 *   settings: Record<string, any>,
 *   edited: (edit: {changes: Change[], target: Place | null, doc: () => string}) => Place,
 * }} ManuscriptDesk
 */

const PAUSE = 600; // ms without a change after which colours and the reading place are brought up to date
const ABOVE = 48; // px above a line that is shown at the view's start
const LEGEND = [
  ["by-model", msg`the model's words`],
  ["by-person", msg`yours`],
  ["by-edit", msg`your edits in its text`],
];

export class Manuscript extends HTMLElement {
  /** @type {ManuscriptDesk | null} */
  desk = null;

  /** @type {Place} */
  head = { node: "", at: 0 };

  #view;
  #editor;
  #story = ""; // id of the story that the text is of
  #pause = 0;
  /** @type {import("../vendor/codemirror.js").Extension[]} */
  #more = [];
  #onSettings = () => this.#applySettings();
  #onLeave = () => this.#keepPlace();
  #isInserted = (/** @type {Piece} */ piece) => this.desk?.story.nodes.get(piece.node)?.tail !== undefined;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open", delegatesFocus: true });
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("manuscript.css", import.meta.url).href;
    const editor = document.createElement("div");
    editor.className = "editor";
    this.#editor = editor;
    root.append(style, editor, legend());
    this.#view = this.#viewOf(this.#stateOf(), root, editor);
    style.addEventListener("load", () => this.#view.requestMeasure());
  }

  connectedCallback() {
    this.desk?.addEventListener("story", this.#onSettings);
    addEventListener("pagehide", this.#onLeave);
    this.#applySettings();
  }

  disconnectedCallback() {
    this.desk?.removeEventListener("story", this.#onSettings);
    removeEventListener("pagehide", this.#onLeave);
    clearTimeout(this.#pause);
  }

  /** The manuscript as it is shown. */
  get text() {
    return this.#view.state.doc.toString();
  }

  /**
   * Show a text with an empty history, at the place where the writer left it.
   *
   * @param {string} text
   * @param {readonly Piece[]} pieces
   * @param {Place} head
   */
  load(text, pieces, head) {
    const story = this.desk?.story.id ?? "";
    if (this.#story !== story) {
      this.#keepPlace();
    }
    this.#story = story;
    this.head = head;
    const { caret, top, into = 0 } = readingPlace(story) ?? { caret: text.length, top: null };
    const within = (/** @type {number} */ at) => Math.min(at, text.length);
    this.#show(this.#stateOf());
    // A state that begins with its text would guess the height of a line wrongly that is too long to be drawn whole, and draw that.
    const whole = { changes: { from: 0, insert: text }, selection: { anchor: within(caret) } };
    this.#view.update([this.#view.state.update({ ...whole, annotations: Transaction.addToHistory.of(false) })]);
    this.#view.dispatch({
      effects: [
        setMarks.of(marksOf(pieces, this.#isInserted)),
        top === null
          ? EditorView.scrollIntoView(text.length, { y: "start" }) // as far up as it goes: to two thirds of the view
          : EditorView.scrollIntoView(within(top), { y: "start", yMargin: -into }),
      ],
    });
  }

  /**
   * Make the document another text and move the head, as one step of the history.
   *
   * @param {{text: string, head: Place, pieces: readonly Piece[], why: string, caret?: number}} wanted
   */
  apply({ text, head, pieces, why, caret: wanted = why === "take" ? text.length : undefined }) {
    const change = difference(this.text, text);
    const caret = wanted ?? (change === null ? null : change.from + change.insert.length);
    const arrives = why === "take" && change !== null && change.insert !== "" && moves();
    this.#view.dispatch({
      ...(change === null ? {} : { changes: change }),
      ...(caret === null ? {} : { selection: { anchor: caret }, scrollIntoView: true }),
      effects: [
        setHead.of(head),
        setMarks.of(marksOf(pieces, this.#isInserted)),
        ...(arrives ? [arrive.of({ from: change.from, to: change.from + change.insert.length })] : []),
      ],
      annotations: [
        why === "undo" ? Transaction.addToHistory.of(false) : isolateHistory.of("full"),
        Transaction.userEvent.of(why),
      ],
    });
  }

  /**
   * Colour the text anew.
   *
   * @param {readonly Piece[]} pieces - of the text as it is shown
   */
  colour(pieces) {
    this.#view.dispatch({ effects: setMarks.of(marksOf(pieces, this.#isInserted)) });
  }

  /** Take the last step back; return whether there was one. */
  undo() {
    return undo(this.#view);
  }

  /** Do the step again that was taken back last; return whether there was one. */
  redo() {
    return redo(this.#view);
  }

  /**
   * Put an act that was done outside of the text into the history.
   *
   * @param {() => void} undoFn - takes the act back
   * @param {() => void} redoFn - does it again
   */
  record(undoFn, redoFn) {
    this.#view.dispatch(recordAct(undoFn, redoFn));
  }

  /** @param {import("../vendor/codemirror.js").Extension} extension */
  extend(extension) {
    this.#more.push(extension);
    this.#view.dispatch({ effects: StateEffect.appendConfig.of(extension) });
  }

  focus() {
    this.#view.focus();
  }

  /** The offset of the caret. */
  caret() {
    return this.#view.state.selection.main.head;
  }

  /** What is selected. */
  get selection() {
    const { from, to } = this.#view.state.selection.main;
    return { from, to };
  }

  /** Whether words stand behind the caret. */
  get isInside() {
    for (const part of this.#view.state.doc.iterRange(this.caret())) {
      if (/\S/u.test(part)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Where the character at an offset is on the screen; null if it is not in view.
   *
   * @param {number} at
   */
  rect(at) {
    const place = this.#view.coordsAtPos(at, 1);
    return place && new DOMRect(place.left, place.top, place.right - place.left, place.bottom - place.top);
  }

  /**
   * Where the lines of a range are on the screen; null if they are not all in view.
   *
   * @param {number} from
   * @param {number} to
   */
  box(from, to) {
    const [first, last] = [this.rect(from), this.rect(Math.max(from, to - 1))];
    const { left, right } = this.#view.contentDOM.getBoundingClientRect();
    return first && last && new DOMRect(left, first.top, right - left, last.bottom - first.top);
  }

  /**
   * Select a range of the text, and show it.
   *
   * @param {number} from
   * @param {number} [to]
   * @param {"nearest" | "start"} [y] - where in the view
   */
  select(from, to = from, y = "nearest") {
    const within = (/** @type {number} */ at) => Math.max(0, Math.min(at, this.#view.state.doc.length));
    const head = within(to);
    const effects = y === "start" ? [EditorView.scrollIntoView(head, { y, yMargin: ABOVE })] : [];
    this.#view.dispatch({ selection: { anchor: within(from), head }, scrollIntoView: true, effects });
  }

  /**
   * Insert a plain text at the caret, in the place of the selection, as if it were pasted.
   *
   * @param {string} text
   */
  insert(text) {
    const replacement = this.#view.state.replaceSelection(plain(text));
    this.#view.dispatch(replacement, { userEvent: "input.paste", scrollIntoView: true });
  }

  /** Open the search panel. */
  find() {
    openSearchPanel(this.#view);
  }

  /**
   * Whether Escape closes the search panel, pressed where this event comes from.
   *
   * @param {Event} event
   */
  wantsEscape(event) {
    return event.composedPath().some((each) => each instanceof HTMLElement && each.classList.contains("cm-search"));
  }

  /**
   * @param {EditorState} state
   * @param {ShadowRoot} root
   * @param {Element} parent
   */
  #viewOf(state, root, parent) {
    const dispatchTransactions = (/** @type {readonly Transaction[]} */ all) => this.#dispatch(all);
    const view = new EditorView({ state, parent, root, dispatchTransactions });
    view.scrollDOM.addEventListener("mousedown", (event) => this.#clickedBeside(event));
    return view;
  }

  /**
   * Show another state. On Android the view is made anew: its EditContext would keep the text of the state before.
   *
   * @param {EditorState} state
   */
  #show(state) {
    const { contentDOM, dom, hasFocus, root } = this.#view;
    if (!("editContext" in contentDOM) || contentDOM.editContext === null) {
      this.#view.setState(state);
      return;
    }
    const parent = /** @type {Element} */ (dom.parentElement);
    this.#view.destroy();
    this.#view = this.#viewOf(state, /** @type {ShadowRoot} */ (root), parent);
    if (hasFocus) {
      this.#view.focus();
    }
  }

  #stateOf() {
    return EditorState.create({
      extensions: [oneHistory(() => this.head), authorship, arrival, proseEditor(), this.#more],
    });
  }

  /** @param {readonly Transaction[]} transactions */
  #dispatch(transactions) {
    for (const transaction of transactions) {
      this.#view.update([transaction]);
      this.#tellDesk(transaction);
      runActs(transaction);
      if (transaction.docChanged || transaction.selection) {
        this.desk?.dispatchEvent(new Event("caret"));
        this.#startPause();
      }
    }
  }

  /** @param {Transaction} transaction */
  #tellDesk(transaction) {
    const target = headAfter(transaction);
    if (this.desk === null || (!transaction.docChanged && target === null)) {
      return;
    }
    /** @type {Change[]} */
    const changes = [];
    transaction.changes.iterChanges((from, to, _fromB, _toB, inserted) => {
      changes.push({ from, to, insert: inserted.toString() });
    });
    this.head = this.desk.edited({ changes, target, doc: () => transaction.newDoc.toString() });
    if (target !== null && !transaction.effects.some((each) => each.is(setMarks))) {
      this.#colourFromStory(); // undo or redo: the changes do not tell whose words came back
    }
  }

  #colourFromStory() {
    if (this.desk !== null && this.head.node !== "") {
      this.colour(this.desk.story.pieces(this.head.node, this.head.at));
    }
  }

  #startPause() {
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      if (this.#view.composing) {
        this.#startPause();
        return;
      }
      this.#colourFromStory();
      this.#keepPlace();
    }, PAUSE);
  }

  #keepPlace() {
    if (this.#story !== "" && this.#view.scrollDOM.clientHeight > 0) {
      keepReadingPlace(this.#story, { caret: this.caret(), ...this.#topOfView() });
    }
  }

  /** The offset of the line at the view's upper edge, and how many px of it lie above; in a long paragraph, of its row there. */
  #topOfView() {
    const edge = this.#view.scrollDOM.getBoundingClientRect().top - this.#view.documentTop;
    const { from, top } = this.#view.lineBlockAtHeight(edge + 1);
    const into = Math.max(0, Math.round(edge - top));
    if (into < this.#view.scrollDOM.clientHeight) {
      return { top: from, into };
    }
    const [{ left }, { top: upper }] = [this.#view.contentDOM, this.#view.scrollDOM].map((each) =>
      each.getBoundingClientRect(),
    );
    return { top: this.#view.posAtCoords({ x: left + 1, y: upper + 1 }, false), into: 0 }; // of a long line only some heights are known
  }

  #applySettings() {
    const { font = "prose", size = 18, measure = 68, authors = false } = this.desk?.settings ?? {};
    this.#editor.classList.toggle("with-authors", authors);
    this.#view.contentDOM.lang = String(this.desk?.story.meta("language") ?? navigator.language); // for the spell check
    this.style.setProperty("--manuscript-font", font === "mono" ? "var(--mono)" : "var(--prose)");
    this.style.setProperty("--manuscript-size", `${Number(size)}px`);
    this.style.setProperty("--manuscript-measure", `${Number(measure)}ch`);
    this.#view.requestMeasure();
  }

  /**
   * A click beside the column of text puts the caret into the line at its height.
   *
   * @param {MouseEvent} event
   */
  #clickedBeside(event) {
    const { scrollDOM } = this.#view;
    if (event.target !== scrollDOM || event.button !== 0 || event.offsetX > scrollDOM.clientWidth) {
      return;
    }
    event.preventDefault();
    const at = this.#view.posAtCoords({ x: event.clientX, y: event.clientY }, false);
    this.#view.dispatch({ selection: { anchor: at } });
    this.focus();
  }
}

/** The meaning of the inks. */
function legend() {
  const line = document.createElement("p");
  line.className = "legend";
  for (const [name = "", words = ""] of LEGEND) {
    const sample = document.createElement("span");
    sample.className = name;
    sample.textContent = words;
    line.append(sample, " ");
  }
  return line;
}

customElements.define("srb-manuscript", Manuscript);
