/** The manuscript's panel for find and replace: one row, with the number of places, of which the scroll bar shows ticks. */

import { msg, NUMBER } from "../languages.js";
import {
  closeSearchPanel,
  findNext,
  findPrevious,
  getSearchQuery,
  replaceAll,
  replaceNext,
  runScopeHandlers,
  SearchQuery,
  search,
  setSearchQuery,
} from "../vendor/codemirror.js";
import { html, ifDefined, render } from "../vendor/lit.js";
import { icon } from "./icons.js";

const MOST = 9_999; // places that are counted: more would say nothing
const SLICE = 8; // ms of counting at once, so that no key waits for it
const PAUSE = 150; // ms without a change of the text before it is counted again
const TICK = 2; // px

class FindPanel {
  top = true;
  /** @type {number[]} beginnings of all places */
  #places = [];
  #isCounted = false;
  #isReplacing = false;
  #timer = 0;
  #ticks = document.createElement("canvas");

  /** @param {import("../vendor/codemirror.js").EditorView} view */
  constructor(view) {
    this.view = view;
    this.query = getSearchQuery(view.state);
    this.dom = document.createElement("div");
    this.dom.className = "cm-search";
    this.dom.setAttribute("role", "search");
    this.dom.addEventListener("keydown", (event) => this.#keydown(event));
    this.#ticks.className = "ticks";
    this.#ticks.setAttribute("aria-hidden", "true");
    this.#render();
  }

  mount() {
    this.view.dom.append(this.#ticks);
    this.#field("search").select();
    this.#count();
  }

  destroy() {
    clearTimeout(this.#timer);
    this.#ticks.remove();
  }

  /** @param {import("../vendor/codemirror.js").ViewUpdate} update */
  update(update) {
    const asked = update.transactions.flatMap((each) => each.effects).filter((effect) => effect.is(setSearchQuery));
    const query = asked.at(-1)?.value;
    if (query && !query.eq(this.query)) {
      this.query = query;
      this.#count();
    } else if (update.docChanged) {
      this.#places = this.#places.map((at) => update.changes.mapPos(at, 1));
      this.#countAfter(PAUSE);
    } else if (update.geometryChanged) {
      this.#draw();
    }
    if (query || update.docChanged || update.selectionSet) this.#render();
  }

  // ---- Counting

  #count() {
    this.#places = [];
    this.#countAfter(0);
  }

  /** @param {number} pause */
  #countAfter(pause) {
    clearTimeout(this.#timer);
    this.#isCounted = false;
    const places = this.query.valid ? this.#found() : [].values();
    this.#timer = window.setTimeout(() => this.#countOn(places, []), pause);
  }

  *#found() {
    const cursor = this.query.getCursor(this.view.state);
    for (let next = cursor.next(); !next.done; next = cursor.next()) yield next.value.from;
  }

  /** Go on counting for a moment. @param {Iterator<number>} places @param {number[]} found */
  #countOn(places, found) {
    const until = performance.now() + SLICE;
    let next = places.next();
    for (; !next.done && found.length < MOST && performance.now() < until; next = places.next()) found.push(next.value);
    if (!next.done && found.length < MOST) {
      found.push(next.value);
      this.#timer = window.setTimeout(() => this.#countOn(places, found));
      return;
    }
    this.#places = found;
    this.#isCounted = true;
    this.#render();
    this.#draw();
  }

  /** Which place is selected, of how many. */
  #said() {
    const { query, view } = this;
    if (!query.search) return "";
    if (!query.valid) return msg`no pattern`;
    if (!this.#places.length) return this.#isCounted ? msg`not there` : "";
    const all = this.#places.length < MOST ? NUMBER.format(this.#places.length) : `${NUMBER.format(MOST)}+`;
    const { from, empty } = view.state.selection.main;
    const place = empty ? -1 : this.#places.indexOf(from);
    return place < 0 ? all : msg`${NUMBER.format(place + 1)} of ${all}`;
  }

  /** Draw a tick beside the text for each place, where the scroll bar is. */
  #draw() {
    this.view.requestMeasure({
      key: this,
      read: (view) => {
        const { clientHeight, scrollHeight, offsetTop } = view.scrollDOM;
        const top = view.documentPadding.top;
        const tops = this.#places.map((at) => ((top + view.lineBlockAt(at).top) / scrollHeight) * clientHeight);
        return { height: clientHeight, offsetTop, tops: new Set(tops.map(Math.round)) };
      },
      write: ({ height, offsetTop, tops }) => {
        const canvas = this.#ticks;
        canvas.style.top = `${offsetTop}px`;
        canvas.width = 6;
        canvas.height = height;
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
        context.fillStyle = getComputedStyle(canvas).color;
        for (const y of tops) context.fillRect(0, Math.min(y, height - TICK), 6, TICK);
      },
    });
  }

  // ---- What a person does

  /** @param {{[name: string]: string | boolean}} changes */
  #ask(changes) {
    const { search: words, replace, caseSensitive, regexp, wholeWord } = this.query;
    const query = new SearchQuery({ search: words, replace, caseSensitive, regexp, wholeWord, ...changes });
    if (!query.eq(this.query)) this.view.dispatch({ effects: setSearchQuery.of(query) });
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    const { name } = /** @type {HTMLInputElement} */ (event.target);
    const isEnter = event.key === "Enter" && !event.isComposing;
    const run = isEnter && { search: event.shiftKey ? findPrevious : findNext, replace: replaceNext }[name];
    if (run ? run(this.view) || true : runScopeHandlers(this.view, event, "search-panel")) event.preventDefault();
  }

  #toggleReplacing() {
    this.#isReplacing = !this.#isReplacing;
    this.#render();
    const name = this.#isReplacing ? "replace" : "search";
    this.#field(name).focus();
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.dom.querySelector(`input[name=${name}]`));
  }

  // ---- Looks

  #render() {
    const { view, query } = this;
    const said = this.#said();
    render(
      html`<input name="search" main-field="true" autocomplete="off" aria-label=${msg`Find`} placeholder=${msg`Find`}
          aria-invalid=${query.search && !query.valid ? "true" : "false"} .value=${query.search}
          @input=${(/** @type {Event} */ event) => this.#ask({ search: valueOf(event) })} />
        <output>${said}</output>
        ${button("prev", msg`Previous place`, icon("up"), () => findPrevious(view))}
        ${button("next", msg`Next place`, icon("down"), () => findNext(view))}
        ${this.#option("case", msg`Match capitals`, "Aa", "caseSensitive")}
        ${this.#option("word", msg`Whole words`, "“ab”", "wholeWord")}
        ${this.#option("re", msg`Regular expression`, ".*", "regexp")}
        ${button("replacing", msg`Replace`, icon("swap"), () => this.#toggleReplacing(), this.#isReplacing)}
        ${button("done", msg`Close`, icon("prune"), () => closeSearchPanel(view))}
        ${this.#isReplacing ? this.#replacing() : ""}`,
      this.dom,
    );
  }

  #replacing() {
    const { view, query } = this;
    return html`<span class="replacing">
      <input name="replace" autocomplete="off" aria-label=${msg`Replace with`} placeholder=${msg`Replace with`} .value=${query.replace}
        @input=${(/** @type {Event} */ event) => this.#ask({ replace: valueOf(event) })} />
      <button type="button" name="replace-one" @click=${() => replaceNext(view)}>${msg`Replace`}</button>
      <button type="button" name="replaceAll" @click=${() => replaceAll(view)}>${msg`Replace all`}</button>
    </span>`;
  }

  /** @param {string} name @param {string} words @param {string} sign @param {"caseSensitive" | "wholeWord" | "regexp"} key */
  #option(name, words, sign, key) {
    return button(name, words, sign, () => this.#ask({ [key]: !this.query[key] }), this.query[key]);
  }
}

/** @param {Event} event */
function valueOf(event) {
  return /** @type {HTMLInputElement} */ (event.target).value;
}

/**
 * A button with a sign; one that is on or off says so.
 *
 * @param {string} name @param {string} words @param {unknown} sign @param {() => void} act @param {boolean} [isOn]
 */
function button(name, words, sign, act, isOn) {
  return html`<button type="button" name=${name} title=${words} aria-label=${words} aria-pressed=${ifDefined(isOn)}
    @click=${act}>${sign}</button>`;
}

/** The panel as an extension of the editor. */
export const findPanel = search({ createPanel: (view) => new FindPanel(view) });
