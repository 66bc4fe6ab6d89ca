// <srb-manuscript>: the text that the writer writes, in CodeMirror.
//
// It lives in a shadow root, since only there CodeMirror's styles are allowed by the page's content security policy. The desk
// is told of every change, and answers with the new head.

import {
  closeSearchPanel, Compartment, dropCursor, EditorState, EditorView, highlightSpecialChars, historyKeymap, isolateHistory,
  keymap, openSearchPanel, placeholder, redo, search, searchKeymap, Transaction, undo,
} from "../vendor/codemirror.js";
import { authorship, marksOf, setMarks } from "./authorship.js";
import { headAfter, oneHistory, recordAct, runActs, setHead } from "./one_history.js";
import { proseKeymap } from "./prose_keymap.js";
import { keepReadingPlace, readingPlace } from "./reading_places.js";

/** @typedef {import("./one_history.js").Place} Place */
/** @typedef {import("./authorship.js").Piece} Piece */
/** @typedef {{from: number, to: number, insert: string}} Change   in the text before the transaction, in order */

/**
 * The part of the desk that the manuscript needs.
 *
 * @typedef {EventTarget & {
 *   story: {id: string, nodes: Map<string, {tail?: number}>, pieces: (node: string, at?: number) => Piece[]},
 *   settings: Record<string, any>,
 *   edited: (edit: {changes: Change[], target: Place | null, doc: () => string}) => Place,
 * }} ManuscriptDesk
 */

const HINT = "Write how your story begins.\nThen Continue (Ctrl+Enter): the model goes on, in several versions at once.\n"
  + "Take the one you like, and write on.";
const PAUSE = 600; // ms without a change after which colours and the reading place are brought up to date
const FONTS = new Set(["prose", "mono"]);

/** Characters that would change how others are shown, in addition to CodeMirror's: embeddings and isolates of direction. */
const DIRECTIONS = /[\u202a-\u202c\u2068]/g;

const CONTENT = {
  "aria-label": "Manuscript",
  spellcheck: "true",
  autocorrect: "on",
  autocapitalize: "sentences",
  writingsuggestions: "false",
  dir: "auto",
};

export class Manuscript extends HTMLElement {
  /** @type {ManuscriptDesk | null} */
  desk = null;

  /** @type {Place} */
  head = { node: "", at: 0 };

  #view;
  #story = ""; // id of the story that the text is of
  #pause = 0;
  #look = new Compartment();
  #onSettings = () => this.#applySettings();
  #onLeave = () => this.#keepPlace();

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open", delegatesFocus: true });
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("manuscript.css", import.meta.url).href;
    const editor = document.createElement("div");
    editor.className = "editor";
    root.append(style, editor, legend());
    this.#view = new EditorView({
      state: this.#stateOf(""),
      parent: editor,
      root,
      dispatchTransactions: (transactions) => transactions.forEach((each) => this.#dispatched(each)),
    });
    this.#view.scrollDOM.addEventListener("mousedown", (event) => this.#clickedBeside(event));
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
    this.#keepPlace();
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
    this.#keepPlace();
    this.#story = this.desk?.story.id ?? "";
    this.head = head;
    const place = readingPlace(this.#story);
    const length = text.length;
    this.#view.setState(this.#stateOf(text, Math.min(place?.caret ?? length, length)));
    const effects = [setMarks.of(marksOf(pieces, this.#isInserted))];
    const at = place === null ? EditorView.scrollIntoView(length) : EditorView.scrollIntoView(Math.min(place.top, length), { y: "start" });
    this.#view.dispatch({ effects: [...effects, at] });
  }

  /**
   * Make the document another text and move the head, as one step of the history.
   *
   * @param {{text: string, head: Place, pieces: readonly Piece[], why: string}} wanted
   */
  apply({ text, head, pieces, why }) {
    const change = difference(this.text, text);
    const caret = why === "take" ? { selection: { anchor: text.length }, scrollIntoView: true } : {};
    this.#view.dispatch({
      changes: change ?? [],
      effects: [setHead.of(head), setMarks.of(marksOf(pieces, this.#isInserted))],
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of(why)],
      ...caret,
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

  undo() {
    return undo(this.#view);
  }

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

  /** The history's step before this one does not grow any more: later typing is a step of its own. */
  closeStep() {
    this.#view.dispatch({ annotations: isolateHistory.of("full") });
  }

  focus() {
    this.#view.focus();
  }

  /** The offset of the caret. */
  caret() {
    return this.#view.state.selection.main.head;
  }

  /**
   * Select a range of the text, and show it.
   *
   * @param {number} from
   * @param {number} [to]
   */
  select(from, to = from) {
    const within = (/** @type {number} */ at) => Math.max(0, Math.min(at, this.#view.state.doc.length));
    this.#view.dispatch({ selection: { anchor: within(from), head: within(to) }, scrollIntoView: true });
  }

  /**
   * Insert a plain text at the caret, in the place of the selection, as if it were typed.
   *
   * @param {string} text
   */
  insert(text) {
    this.#view.dispatch(this.#view.state.replaceSelection(plain(text)), { userEvent: "input", scrollIntoView: true });
  }

  /** Open the search panel. */
  find() {
    openSearchPanel(this.#view);
  }

  /**
   * Whether Escape, pressed in this event's place, closes the search panel.
   *
   * @param {Event} event
   */
  wantsEscape(event) {
    return event.composedPath().some((each) => each instanceof HTMLElement && each.classList.contains("cm-search"));
  }

  /**
   * @param {string} text
   * @param {number} [caret]
   */
  #stateOf(text, caret = 0) {
    return EditorState.create({
      doc: text,
      selection: { anchor: caret },
      extensions: [
        EditorState.lineSeparator.of("\n"), // any other character is part of a line: offsets are those of the story
        oneHistory(() => this.head),
        authorship,
        EditorView.lineWrapping,
        EditorView.perLineTextDirection.of(true),
        EditorView.contentAttributes.of(CONTENT),
        EditorView.clipboardInputFilter.of(plain),
        EditorView.domEventHandlers({ drop: (event) => this.#droppedFiles(event) }),
        highlightSpecialChars({ addSpecialChars: DIRECTIONS }),
        dropCursor(),
        placeholder(HINT),
        search({ top: true }),
        keymap.of([...proseKeymap, ...historyKeymap, ...SEARCH_KEYS]),
        this.#look.of([]),
      ],
    });
  }

  /** @param {Transaction} transaction */
  #dispatched(transaction) {
    this.#view.update([transaction]);
    const target = headAfter(transaction);
    if (transaction.docChanged || target !== null) {
      this.#tellDesk(transaction, target);
    }
    runActs(transaction);
    if (transaction.docChanged || transaction.selection) {
      this.#startPause();
    }
  }

  /**
   * @param {Transaction} transaction
   * @param {Place | null} target
   */
  #tellDesk(transaction, target) {
    if (this.desk === null) {
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

  #isInserted = (/** @type {Piece} */ piece) => this.desk?.story.nodes.get(piece.node)?.tail !== undefined;

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
    if (this.#story !== "") {
      const { scrollDOM, documentTop } = this.#view;
      const top = this.#view.lineBlockAtHeight(scrollDOM.getBoundingClientRect().top - documentTop).from;
      keepReadingPlace(this.#story, { caret: this.caret(), top });
    }
  }

  #applySettings() {
    const { font = "prose", size = 18, measure = 68 } = this.desk?.settings ?? {};
    this.style.setProperty("--manuscript-font", `var(--${FONTS.has(font) ? font : "prose"})`);
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
    if (event.target !== this.#view.scrollDOM || event.button !== 0 || event.offsetX > this.#view.scrollDOM.clientWidth) {
      return;
    }
    event.preventDefault();
    this.#view.dispatch({ selection: { anchor: this.#view.posAtCoords({ x: event.clientX, y: event.clientY }, false) } });
    this.focus();
  }

  /**
   * Dropped files are stories to import, not text: whoever listens for "files" gets them.
   *
   * @param {DragEvent} event
   */
  #droppedFiles(event) {
    const files = event.dataTransfer?.files;
    if (!files?.length) {
      return false;
    }
    event.preventDefault();
    this.dispatchEvent(new CustomEvent("files", { detail: { files: [...files] }, bubbles: true, composed: true }));
    return true;
  }
}

/** Of the search's keys those for text; Escape belongs to the page, except in the panel. */
const SEARCH_KEYS = [
  ...searchKeymap.filter((binding) => ["Mod-f", "F3", "Mod-g"].includes(binding.key ?? "")),
  { key: "Escape", run: closeSearchPanel, scope: "search-panel" },
];

/**
 * Return a text with line ends as the story has them.
 *
 * @param {string} text
 */
function plain(text) {
  return text.replace(/\r\n?/g, "\n");
}

/**
 * Return the change that makes one text of another, between what they share at both ends; null if they are the same.
 *
 * @param {string} before
 * @param {string} after
 */
export function difference(before, after) {
  if (before === after) {
    return null;
  }
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before.charCodeAt(start) === after.charCodeAt(start)) {
    start += 1;
  }
  let end = 0;
  while (end < most - start && before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)) {
    end += 1;
  }
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}

/** The meaning of the colours. */
function legend() {
  const list = document.createElement("p");
  list.className = "legend";
  for (const [name, words] of [["by-model", "the model's words"], ["by-person", "yours"], ["by-edit", "your edits in its text"]]) {
    const sample = document.createElement("span");
    sample.className = name;
    sample.textContent = words;
    list.append(sample, " ");
  }
  return list;
}

customElements.define("srb-manuscript", Manuscript);
