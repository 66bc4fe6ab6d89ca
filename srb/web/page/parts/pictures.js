/** <srb-pictures>: pictures and sounds that are dropped, pasted or chosen go into the manuscript, where the model takes them. */

import { MediaError } from "../desk/media.js";
import { markerFor } from "../media.js";
import { ViewPlugin } from "../vendor/codemirror.js";
import { html } from "../vendor/lit.js";
import { Part } from "./part.js";
import { isMedium, readMedium } from "./picture_files.js";
import { pictureWidgets, readAgain } from "./picture_widgets.js";

/** @typedef {import("./manuscript.js").Manuscript} Editor */
/** @typedef {import("../vendor/codemirror.js").EditorView} EditorView */

const ACCEPTED = "image/*,audio/wav,audio/mpeg,audio/flac";

class Pictures extends Part {
  constructor() {
    super();
    /** @type {EditorView | null} */
    this.view = null;
    /** @type {Set<{at: number}>} places in the text for files that are being read, moved along with its changes */
    this.places = new Set();
  }

  listen() {
    const { media } = this;
    const follower = ViewPlugin.define((view) => {
      this.view = view;
      return { update: ({ changes }) => this.move(changes) };
    });
    /** @type {Editor} */ (this.desk.manuscript).extend([follower, pictureWidgets((id) => media.read(id))]);
    this.on(
      "dialog",
      ({ name, files, point }) => name === "pictures" && (files ? this.add(files, point) : this.choose()),
    );
    this.on(["server", "saved"], () => this.readAgain());
    addEventListener("paste", (event) => this.paste(event), { capture: true, signal: this.listeners.signal });
  }

  get media() {
    return /** @type {import("../desk/rounds.js").Rounds} */ (this.desk.rounds).context.media;
  }

  /** @param {import("../vendor/codemirror.js").ChangeDesc} changes */
  move(changes) {
    for (const place of this.places) place.at = changes.mapPos(place.at, 1);
  }

  /** Ask again for pictures that could not be loaded. */
  readAgain() {
    const { view } = this;
    if (view?.contentDOM.querySelector('.picture[aria-label^="Picture, not"]'))
      view.dispatch({ effects: readAgain.of(null) });
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
    const place = { at: this.placeOf(point) };
    this.places.add(place);
    try {
      for (const file of files) await this.addOne(file, place);
    } finally {
      this.places.delete(place);
    }
  }

  /** @param {File} file @param {{at: number}} place */
  async addOne(file, place) {
    const { desk, media } = this;
    const { story } = desk;
    try {
      if (!media.takesAny) throw new MediaError(media.whyNot);
      const { bytes, type } = await readMedium(file);
      if (!media.takes(type)) throw new MediaError(media.whyNotThis(type));
      const id = await media.add(bytes);
      if (story === desk.story) this.insert(markerFor(file.name, id), place.at);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      desk.notice(error instanceof MediaError ? message : `“${file.name}” ${message}.`, "error");
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

  /** @param {string} marker @param {number} at */
  insert(marker, at) {
    const view = /** @type {EditorView} */ (this.view);
    view.dispatch({
      changes: { from: at, insert: marker },
      selection: { anchor: at + marker.length },
      userEvent: "input.drop",
      scrollIntoView: true,
    });
    view.focus();
  }

  render() {
    return html`<input type="file" hidden multiple accept=${ACCEPTED} aria-label="Pictures and sounds"
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
