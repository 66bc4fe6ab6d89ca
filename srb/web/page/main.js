// The page's beginning: shows the desk once its modules are loaded.

import { html, LitElement } from "./vendor/lit.js";

/** The desk: manuscript, branches and outline. */
class Desk extends LitElement {
  /** Light DOM, so that labels and ids work across parts. */
  createRenderRoot() {
    return this;
  }

  render() {
    return html`<h1>SRB</h1>`;
  }
}

customElements.define("srb-desk", Desk);
document.querySelector("#desk")?.append(new Desk());
