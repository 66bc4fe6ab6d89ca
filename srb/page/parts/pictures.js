/** <srb-pictures>: pictures and sounds that are dropped, pasted or chosen go into the manuscript, where the model takes them. */

import { MediaError } from "../desk/media.js";
import { msg } from "../languages.js";
import { markerFor } from "../media.js";
import { ViewPlugin } from "../vendor/codemirror.js";
import { html } from "../vendor/lit.js";
import { Part } from "./part.js";
import { isMedium, readMedium } from "./picture_files.js";
import { pictureWidgets, readAgain } from "./picture_widgets.js";

/** @typedef {import("./manuscript.js").Manuscript} Editor */
/** @typedef {import("../vendor/codemirror.js").EditorView} EditorView */

/** @typedef {{at: number, isLeft: boolean}} Spot a place in the text, moved along with its changes; left if the caret was moved since */

const ACCEPTED = "image/*,audio/wav,audio/mpeg,audio/flac";

class Pictures extends Part {
  constructor() {
    super();
    /** @type {EditorView | null} */
    this.view = null;
    /** @type {Set<Spot>} for files that are being read */
    this.places = new Set();
    this.isInserting = false;
  }

  listen() {
    const { media } = this;
    const follower = ViewPlugin.define((view) => {
      this.view = view;
      return { update: (update) => this.follow(update) };
    });
    /** @type {Editor} */ (this.desk.manuscript).extend([follower, pictureWidgets((id) => media.read(id))]);
    this.on(
      "dialog",
      ({ name, files, point }) => name === "pictures" && (files ? this.add(files, point) : this.choose()),
    );
    this.on("saved", () => this.readAgain("not loaded"));
    this.on("server", () => this.readAgain("not", true));
    addEventListener("paste", (event) => this.paste(event), { capture: true, signal: this.listeners.signal });
  }

  get media() {
    return /** @type {import("../desk/rounds.js").Rounds} */ (this.desk.rounds).context.media;
  }

  /** @param {import("../vendor/codemirror.js").ViewUpdate} update */
  follow({ changes, docChanged, selectionSet }) {
    for (const place of this.places) {
      place.at = changes.mapPos(place.at, 1);
      place.isLeft ||= (docChanged || selectionSet) && !this.isInserting;
    }
  }

  /**
   * Ask again for pictures that could not be loaded, if any is shown.
   * @param {string} why the beginning of why they are missing @param {boolean} [isAll] also for those that were nowhere
   */
  readAgain(why, isAll = false) {
    const { view } = this;
    if (view?.contentDOM.querySelector(`.picture[data-missing^="${why}"]`))
      view.dispatch({ effects: readAgain.of(isAll) });
  }

  choose() {
    /** @type {HTMLInputElement} */ (this.querySelector("input")).click();
  }

  /** @param {ClipboardEvent} event */
  paste(event) {
    const files = [...(event.clipboardData?.files ?? [])].filter(isMedium);
    if (!files.length || event.clipboardData?.types.includes("text/plain")) return;
    if (!event.composedPath().includes(/** @type {Editor} */ (this.desk.manuscript))) return;
    event.preventDefault();
    event.stopPropagation();
    this.add(files);
  }

  /**
   * Put files into the text, one after the other: where they were dropped, or at the caret.
   * @param {File[]} files @param {{x: number, y: number}} [point]
   */
  async add(files, point) {
    const place = { at: this.placeOf(point), isLeft: false };
    this.places.add(place);
    try {
      for (const file of files) await this.addOne(file, place);
    } finally {
      this.places.delete(place);
    }
  }

  /** @param {File} file @param {Spot} place */
  async addOne(file, place) {
    const { desk, media } = this;
    const { story } = desk;
    try {
      if (!media.takesAny) throw new MediaError(media.whyNot);
      const { bytes, type } = await readMedium(file);
      if (!media.takes(type)) throw new MediaError(media.whyNotThis(type));
      const id = await media.add(bytes, story);
      if (story !== desk.story) throw new Error(msg`is not in the text: another story was opened`);
      this.insert(markerFor(file.name, id), place);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      desk.notice(error instanceof MediaError ? message : msg`“${file.name}” ${message}.`, "error");
    }
  }

  /** @param {{x: number, y: number}} [point] */
  placeOf(point) {
    const view = /** @type {EditorView} */ (this.view);
    const { main } = view.state.selection;
    const { left, right, top, bottom } = view.scrollDOM.getBoundingClientRect();
    const isWithin = point && point.x >= left && point.x <= right && point.y >= top && point.y <= bottom;
    return isWithin ? view.posAtCoords(point, false) : main.to;
  }

  /**
   * Put a marker into the text, and the caret behind it, unless a person has gone on elsewhere while the file was read.
   * @param {string} marker @param {Spot} place
   */
  insert(marker, { at, isLeft }) {
    const view = /** @type {EditorView} */ (this.view);
    const caret = isLeft ? {} : { selection: { anchor: at + marker.length }, scrollIntoView: true };
    this.isInserting = true;
    view.dispatch({ changes: { from: at, insert: marker }, userEvent: "input.drop", ...caret });
    this.isInserting = false;
    if (!isLeft) view.focus();
  }

  render() {
    return html`<input type="file" hidden multiple accept=${ACCEPTED} aria-label=${msg`Pictures and sounds`}
      @change=${(/** @type {any} */ event) => this.chosen(event.target)}>`;
  }

  /** @param {HTMLInputElement} input */
  chosen(input) {
    const files = [...(input.files ?? [])];
    input.value = ""; // so that the same file can be chosen again
    this.add(files);
  }
}

customElements.define("srb-pictures", Pictures);
