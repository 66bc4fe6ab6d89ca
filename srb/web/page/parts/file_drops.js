/** Files that are dragged over the page: wherever they are dropped, they are stories to import. Dragged text is left alone. */

import { html, nothing } from "../vendor/lit.js";
import { Part } from "./part.js";

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
    if (event.type === "drop") this.desk.openDialog("formats", { files: [...event.dataTransfer.files] });
  }

  render() {
    return this.hovering ? html`<p>Drop a file to import it as a story of its own</p>` : nothing;
  }
}

customElements.define("srb-file-drops", FileDrops);
