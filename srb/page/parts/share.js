// <srb-share>: the dialog that shares a story with names of the server's keys: to read it, or to change its text.

import { msg } from "../languages.js";
import { html, live } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { msgHtml } from "./msg_html.js";
import { DialogPart } from "./part.js";

/** @typedef {"read" | "write"} Access */
/** @typedef {{owner: string, shares: Record<string, Access>}} Shares */

const MAY = /** @type {const} */ ([
  ["read", msg`may read`],
  ["write", msg`may read and write`],
]);
const HINT = msg`The name of somebody’s key for this server. Who may write changes the text; only you can share the story, or put it into the bin.`;
const LONGEST_NAME = 64;

class Share extends DialogPart {
  constructor() {
    super("share");
    this.story = { id: "", title: "" };
    /** @type {Shares | null} null until they are read */
    this.known = null;
    this.error = ""; // why they cannot be read
    this.fault = ""; // of the name that was written
    /** @type {{name: string, message: string} | null} a name whose access could not be changed */
    this.refused = null;
    this.said = "";
  }

  /** @param {{id?: string, title?: string}} detail  of a story; the open one by default */
  async open({ id = this.desk.story.id, title = this.desk.title } = {}) {
    Object.assign(this, { story: { id, title }, known: null, error: "", fault: "", refused: null, said: "" });
    await super.open();
    try {
      if (id === this.desk.story.id) await this.desk.flush();
      this.known = await this.desk.api.get(this.route);
    } catch (error) {
      const { status, message } = /** @type {import("../api.js").ApiError} */ (error);
      this.error = status === 404 ? msg`The server has nothing of this story yet. Write a word first.` : message;
    }
    await this.redraw();
    this.querySelector("input")?.focus();
  }

  get route() {
    return `v1/srb/stories/${encodeURIComponent(this.story.id)}/shares`;
  }

  redraw() {
    this.requestUpdate();
    return this.updateComplete;
  }

  /** @param {string} name @param {Access | "none"} access */
  async give(name, access) {
    this.known = await this.desk.api.post(this.route, { name, access });
    if (access === "none") this.said = msg`${name} has no access any more.`;
    else this.said = access === "read" ? msg`${name} may read it now.` : msg`${name} may read and write it now.`;
  }

  /** Share with the name that was written. @param {SubmitEvent} event */
  async add(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const data = new FormData(form);
    const name = String(data.get("name") ?? "").trim();
    Object.assign(this, { fault: "", refused: null, said: "" });
    if (name === "") this.fault = msg`Write the name of a key.`;
    else if (name === this.known?.owner) this.fault = msg`That is your own name.`;
    else {
      try {
        await this.give(name, /** @type {Access} */ (data.get("access")));
        form.reset();
      } catch (error) {
        const { body, message } = /** @type {import("../api.js").ApiError} */ (error);
        this.fault = body?.error?.param === "name" ? msg`This server has no key with the name “${name}”.` : message;
      }
    }
    await this.redraw();
    this.querySelector("input")?.focus();
  }

  /** Change the access of a name, or take it away. @param {string} name @param {Access | "none"} access */
  async change(name, access) {
    Object.assign(this, { fault: "", refused: null, said: "" });
    try {
      await this.give(name, access);
    } catch (error) {
      this.refused = { name, message: /** @type {Error} */ (error).message };
    }
    await this.redraw();
    if (access === "none" && !this.refused) this.querySelector("input")?.focus(); // its button is gone
  }

  render() {
    const { known, error, story } = this;
    return html`<dialog aria-labelledby="share-title" closedby="any">
      ${dialogHead(this, msgHtml`Share <span dir="auto">“${story.title || msg`Untitled`}”</span>`)}
      ${error ? html`<p class="error" role="alert">${error}</p>` : known === null ? html`<p>${msg`The names are read …`}</p>` : this.names(known)}
      <p class="hidden-words" role="status">${this.said}</p>
    </dialog>`;
  }

  /** @param {Shares} known */
  names({ owner, shares }) {
    const { person } = this.desk.keeper;
    const names = Object.entries(shares);
    if (owner !== person) return html`<p>${rightOf(owner, shares[person])}</p>`;
    return html`
      ${names.length ? html`<ul aria-label=${msg`Shared with`}>${names.map(([name, access]) => this.row(name, access))}</ul>` : html`<p class="empty">${msg`You share it with nobody.`}</p>`}
      <form novalidate @submit=${(/** @type {SubmitEvent} */ event) => this.add(event)}>
        <label>${msg`Name`} <input name="name" maxlength=${LONGEST_NAME} autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto"
          aria-invalid=${this.fault ? "true" : "false"} aria-describedby=${this.fault ? "share-fault" : "share-hint"}></label>
        <select name="access" aria-label=${msg`What the name may do`}>${options("read")}</select>
        <button class="main">${msg`Share`}</button>
        ${this.fault ? html`<p id="share-fault" class="error" role="alert">${this.fault}</p>` : null}
      </form>
      <p id="share-hint" class="hint">${HINT}</p>`;
  }

  /** @param {string} name @param {Access} access */
  row(name, access) {
    const fault = this.refused?.name === name ? this.refused.message : "";
    return html`<li>
      <span class="name" dir="auto">${name}</span>
      <select aria-label=${msg`What ${name} may do`} .value=${live(access)} aria-invalid=${fault ? "true" : "false"}
        @change=${(/** @type {any} */ event) => this.change(name, event.target.value)}>${options(access)}</select>
      <button aria-label=${msg`Share it with ${name} no longer`} @click=${() => this.change(name, "none")}>${msg`Take away`}</button>
      ${fault ? html`<p class="error" role="alert">${fault}</p>` : null}
    </li>`;
  }
}

/** What a person may do with another's story. @param {string} owner @param {Access | undefined} access */
function rightOf(owner, access) {
  const whose = owner ? msg`${owner}’s` : msg`another’s`;
  if (access === "read") return msg`This story is ${whose}, and you may read. Only its owner shares it.`;
  if (access === "write") return msg`This story is ${whose}, and you may read and write. Only its owner shares it.`;
  return msg`This story is ${whose}, and you may not open it. Only its owner shares it.`;
}

/** @param {Access} now */
const options = (now) =>
  MAY.map(([value, words]) => html`<option value=${value} ?selected=${value === now}>${words}</option>`);

customElements.define("srb-share", Share);
