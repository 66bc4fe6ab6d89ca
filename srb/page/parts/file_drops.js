/**
 * Files that are dragged over the page: wherever they are dropped, pictures and sounds go into the manuscript, and others are
 * stories to import. Dragged text is left alone.
 */

import { msg } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";
import { isMedium } from "./picture_files.js";

const DRAGS = /** @type {const} */ (["dragenter", "dragover", "dragleave", "drop"]);

class FileDrops extends Part {
  constructor() {
    super();
    this.hovering = false;
  }

  listen() {
    const options = { capture: true, signal: this.listeners.signal }; // before an editor takes the file's text
    for (const name of DRAGS) addEventListener(name, (event) => this.drag(event), options);
  }

  /** @param {DragEvent} event  from when it comes to when it is dropped or leaves */
  drag(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.stopPropagation();
    event.dataTransfer.dropEffect = "copy";
    const hovering = event.type === "dragover" || event.type === "dragenter";
    if (hovering !== this.hovering && (event.type !== "dragleave" || event.relatedTarget === null)) {
      this.hovering = hovering;
      this.requestUpdate();
    }
    if (event.type !== "drop") return;
    const point = { x: event.clientX, y: event.clientY };
    const folders = [...event.dataTransfer.items]
      .map((item) => item.webkitGetAsEntry())
      .filter((entry) => entry?.isDirectory);
    if (folders.length === 0) this.take([...event.dataTransfer.files], point);
    else this.desk.openDialog("formats", { folders });
  }

  /** @param {File[]} files @param {{x: number, y: number}} point */
  take(files, point) {
    const media = files.filter(isMedium);
    const others = files.filter((file) => !isMedium(file));
    if (media.length) this.desk.openDialog("pictures", { files: media, point });
    if (others.length) this.desk.openDialog("formats", { files: others });
  }

  render() {
    return this.hovering
      ? html`<p>${msg`Drop a picture or sound to put it into the text, or a story to import it`}</p>`
      : nothing;
  }
}

customElements.define("srb-file-drops", FileDrops);
