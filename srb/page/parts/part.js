/** The bases of the page's parts: elements in the document itself, so that labels and ids work, which follow the desk. */

import { LitElement } from "../vendor/lit.js";

/** @typedef {import("../desk.js").Desk} Desk */

/** A part has its `desk` before it is put into the document. */
export class Part extends LitElement {
  constructor() {
    super();
    /** @type {Desk} */
    this.desk = /** @type {any} */ (null);
    this.timer = 0; // of what is done later
    this.listeners = new AbortController();
  }

  createRenderRoot() {
    return this;
  }

  connectedCallback() {
    super.connectedCallback();
    this.listeners = new AbortController();
    this.listen();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.listeners.abort();
  }

  /** Begin to listen, each time that the part is put into the document. */
  listen() {}

  /**
   * Listen to topics of the desk for as long as the part is in the document; `act` gets the event's detail.
   * @param {string | readonly string[]} topics @param {(detail: any) => unknown} act
   */
  on(topics, act) {
    const { signal } = this.listeners;
    for (const topic of [topics].flat())
      this.desk.addEventListener(topic, (event) => act(/** @type {CustomEvent} */ (event).detail ?? {}), { signal });
  }

  /**
   * Draw the part anew after so many ms, or do something else: once for all that is said until then.
   * @param {number} pause @param {() => unknown} [act]
   */
  later(pause, act = () => this.requestUpdate()) {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      act();
    }, pause);
  }
}

/** A part that is a dialog, which the desk opens by its name. */
export class DialogPart extends Part {
  /** @param {string} dialogName */
  constructor(dialogName) {
    super();
    this.dialogName = dialogName;
  }

  listen() {
    this.on("dialog", ({ name, ...detail }) => name === this.dialogName && this.open(detail));
  }

  get dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  /** Show the dialog. @param {Record<string, any>} [_detail] what the desk says beside its name */
  async open(_detail) {
    this.requestUpdate();
    await this.updateComplete;
    this.showModal();
  }

  /** Show it. One without a field that asks for the focus gives it to its heading: the way out would be the loudest thing in it. */
  showModal() {
    this.appear();
    const heading = this.dialog.querySelector("h2");
    if (!heading || !document.activeElement?.matches("dialog .close")) return;
    heading.tabIndex = -1;
    heading.focus();
  }

  appear() {
    if (!this.dialog.open) this.dialog.showModal();
  }

  close() {
    this.dialog.close();
  }
}
