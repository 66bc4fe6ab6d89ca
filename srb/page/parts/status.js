/** The banner that says why nothing can be written, and the one polite status line of the page. */

import { quoted } from "../desk/moves.js";
import { msg } from "../languages.js";
import { html } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { msgHtml } from "./msg_html.js";
import { DialogPart, Part } from "./part.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{text: string, kind: string, action?: {label: string, run: () => void}, about?: string}} Notice */

const QUIET = 3000; // ms between two announcements of the status line
const NOTICE = 8000; // ms that a notice without an action is shown

/** One sentence for each state of the server in which the model does not answer, with a way out. */
class Banner extends Part {
  constructor() {
    super();
    /** @type {Notice | null} */
    this.notice = null;
    this.wasAway = false;
    this.timer = 0;
    this.story = ""; // id of the one that is open
    this.read = ""; // the message, and the story, of which it was closed
    /** @type {HTMLElement | null} where the focus came from */
    this.from = null;
  }

  listen() {
    this.addEventListener("focusin", ({ relatedTarget }) => {
      if (relatedTarget instanceof HTMLElement && !this.contains(relatedTarget)) this.from = relatedTarget;
    });
    this.on("server", () => this.serverChanged());
    this.on("round", () => this.desk.server.status === "unloaded" && this.requestUpdate());
    this.on(["saved", "elsewhere", "head"], () => this.requestUpdate());
    this.on("notice", (notice) => this.show(notice));
    this.on("story", () => this.storyChanged());
    this.on("withdrawn", ({ about }) => this.notice?.about === about && this.dismiss());
  }

  /** What a request could not do while the server was away can be tried again when it is back. */
  serverChanged() {
    const isReady = this.desk.server.state === "ready";
    if (isReady && this.wasAway && this.notice?.action)
      this.notice = { ...this.notice, text: msg`The server is back.` };
    this.wasAway = !isReady;
    this.requestUpdate();
  }

  /** A notice is about the story in which it came. */
  storyChanged() {
    const { id } = this.desk.story;
    if (this.story && this.story !== id && this.notice) this.dismiss();
    this.story = id;
  }

  /** @param {Notice} notice */
  show(notice) {
    this.story = this.desk.story.id;
    this.notice = notice;
    clearTimeout(this.timer);
    if (notice.kind !== "error") this.timer = window.setTimeout(() => this.dismiss(), NOTICE);
    this.requestUpdate();
  }

  dismiss() {
    this.notice = null;
    this.requestUpdate();
  }

  /** Give the focus back: the button that was pressed goes with its message, and the next key is for the text or the cards. */
  giveBack() {
    if (!this.contains(document.activeElement)) return;
    if (this.from?.isConnected) this.from.focus();
    else this.desk.manuscript?.focus();
  }

  render() {
    const { desk, notice } = this;
    const isGone = desk.server.state === "gone";
    const isSaid = isGone || desk.server.state === "key" || ["saved", "saving"].includes(desk.saved.state);
    const kept = isSaid ? "" : desk.saved.message;
    const isSame = isGone && notice?.action !== undefined; // the reason of the failure is said already
    return html`
      ${this.server()}
      ${this.elsewhere()}
      ${kept && !this.isReading ? html`<p class="kept" role="status"><span>${kept}</span>${this.ownCopy()}</p>` : null}
      ${
        notice
          ? html`<p class=${notice.kind} role=${notice.kind === "error" ? "alert" : "status"}><span>${isSame ? msg`No branch could be continued.` : notice.text}</span>
        ${
          notice.action
            ? html`<button @click=${() => {
                this.giveBack();
                this.dismiss();
                notice.action?.run();
              }}>${notice.action.label}</button>`
            : null
        }
        ${closeButton(() => {
          this.giveBack();
          this.dismiss();
        }, msg`Close this message`)}</p>`
          : null
      }`;
  }

  /** Whether it was said that another's story is only to be read, and the message was closed. */
  get isReading() {
    return this.desk.saved.state === "reader" && this.read === this.desk.saved.message + this.desk.story.id;
  }

  /** What can be done where a story takes no changes. */
  ownCopy() {
    const { desk } = this;
    if (desk.saved.state !== "reader") return null;
    const copy = () => {
      this.giveBack();
      return desk.guard(async () => (await import("../desk/own_copy.js")).goOnInOwnCopy(desk));
    };
    return html`<button @click=${copy}>${msg`Make a copy of my own`}</button>
      ${closeButton(() => {
        this.giveBack();
        this.read = desk.saved.message + desk.story.id;
        this.requestUpdate();
      }, msg`Close this message`)}`;
  }

  /** What the story has in another window; while both become one, which of two changes stays. */
  elsewhere() {
    const { desk } = this;
    const { elsewhere } = desk.rounds ?? {};
    if (!elsewhere?.isApart) return null;
    const { question } = elsewhere;
    const button = (/** @type {string} */ label, /** @type {() => void} */ run) =>
      html`<button @click=${() => {
        this.giveBack();
        run();
      }}>${label}</button>`;
    return html`<p class="elsewhere" role="status"><span>${question ? questionOf(question) : elsewhereSentence(elsewhere)}</span>
      ${
        question
          ? html`<span class="choices">${button(msg`Keep mine`, () => elsewhere.answer("mine"))}
            ${button(msg`Keep theirs`, () => elsewhere.answer("theirs"))} ${button(msg`Keep both`, () => elsewhere.answer("both"))}</span>`
          : html`${button(msg`Show`, () => elsewhere.show())} ${button(msg`Join`, () => elsewhere.join())}`
      }</p>`;
  }

  /** The sentence about a server that is not ready, and what a person can do. Loading ends by itself. */
  server() {
    const { desk } = this;
    const { state, percent } = desk.server;
    const sentence = serverSentence(desk.server, desk.isRunning);
    if (!sentence) return null;
    const button = this.wayOut();
    const waits = ["loading", "restarting", "ready"].includes(state);
    const progress =
      percent === null
        ? null
        : html`<span class="percent" aria-hidden="true">${percent} %</span>
            <progress max="100" value=${percent} aria-label=${msg`Part of the model that is loaded`}></progress>`;
    return html`<p class="server" data-state=${state} role="alert"><span>${sentence}</span>${waits ? progress : button}</p>`;
  }

  wayOut() {
    const { desk } = this;
    const { state, models = [] } = desk.server;
    if (state === "key") return html`<button @click=${() => desk.askKey()}>${msg`Enter the key`}</button>`;
    const choose = () => desk.openDialog("settings", { section: "model" });
    const other = html`<button @click=${choose}>${msg`Choose another model`}</button>`;
    if (state === "missing") return other;
    return html`${state === "failed" && models.length > 1 ? other : null}
      <button @click=${() => desk.checkServer()}>${msg`Try again`}</button>`;
  }
}

/** @param {{words: number, isOwn: boolean, who: string}} elsewhere */
function elsewhereSentence({ words, isOwn, who }) {
  if (words === 0) return msg`The text was changed in another window.`;
  if (isOwn && words === 1) return msg`Your 1 word of this window is in the outline: another window wrote last.`;
  if (isOwn) return msg`Your ${words} words of this window are in the outline: another window wrote last.`;
  if (who) return words === 1 ? msg`${who} has written 1 word more.` : msg`${who} has written ${words} words more.`;
  return words === 1
    ? msg`This story goes on in another window: 1 word.`
    : msg`This story goes on in another window: ${words} words.`;
}

/** @param {{mine: string, theirs: string}} texts */
function questionOf({ mine, theirs }) {
  if (!mine.trim()) return msg`This place was taken out here, and is ${quoted(theirs)} in the other window.`;
  if (!theirs.trim()) return msg`This place is ${quoted(mine)} here, and was taken out in the other window.`;
  return msg`This place is ${quoted(mine)} here, and ${quoted(theirs)} in the other window.`;
}

/** @param {Desk["server"]} server @param {boolean} isAwaited whether a round waits for the model */
function serverSentence({ state, message, model, models = [], status }, isAwaited) {
  switch (state) {
    case "ready":
      return status === "unloaded" && isAwaited ? msg`${model} is loaded as soon as there is room for it.` : "";
    case "missing":
      return msg`This server has no model “${model}”, which this story asks for.`;
    case "loading":
      if (!message) return ""; // nothing is known yet
      return model
        ? msg`The model ${model} is being loaded. You can write meanwhile.`
        : msg`The model is being loaded. You can write meanwhile.`;
    case "restarting":
      return msg`The engine stopped and is being started again. Your text is kept.`;
    case "gone":
      return msg`The server cannot be reached. Write on: this browser keeps your text and sends it when the server is back.`;
    case "key":
      return msg`The server asks for its API key. Until then this browser keeps your text.`;
    case "failed":
      if (models.length > 1) return msg`${model} cannot be loaded: ${message}`;
      return msg`No text can be continued until this is mended and the server is started again: ${message || msg`the engine does not answer`}`;
    default:
      return "";
  }
}

/** What a screen reader hears: a line at most every three seconds. */
class Status extends Part {
  constructor() {
    super();
    this.said = "";
  }

  listen() {
    this.on("round", () => this.later(QUIET, () => this.say()));
  }

  say() {
    this.said = sentenceOf(this.desk.round);
    this.requestUpdate();
  }

  render() {
    return html`<p class="hidden-words" role="status">${this.said}</p>`;
  }
}

/** The round in a sentence, for those who do not see the cards. @param {import("../round.js").Round | null} round */
function sentenceOf(round) {
  if (!round) return "";
  if (round.state === "asking") return msg`The branches are asked for.`;
  if (round.state === "reading") return msg`The model reads the text.`;
  const running = round.slots.filter((slot) => slot.isLive).length;
  return msg`${running} running, ${round.counts.ended} ended.`;
}

/** The question for the API key: one dialog, whose answer is a promise. */
class KeyDialog extends DialogPart {
  constructor() {
    super("key");
    this.message = "";
    /** @type {((answer: {key: string, remember: boolean} | null) => void) | null} */
    this.answer = null;
  }

  /** @param {string} message @returns {Promise<{key: string, remember: boolean} | null>} */
  async ask(message) {
    this.message = message;
    await this.open();
    return new Promise((resolve) => {
      this.answer = resolve;
    });
  }

  render() {
    const field = html`<input name="key" type="password" autocomplete="current-password" required>`;
    return html`<dialog aria-labelledby="key-title" @close=${() => this.give(null)}>
      <form method="dialog" @submit=${(/** @type {SubmitEvent} */ event) => this.submit(event)}>
        <h2 id="key-title">${msg`API key`}</h2>
        <p>${this.message || msg`This server answers only with its API key.`} ${msg`It stays in this tab, and is sent to this server only.`}</p>
        <p><label>${msgHtml`Key ${field}`}</label></p>
        <p><label><input name="remember" type="checkbox"> ${msg`Remember it in this browser`}</label></p>
        <p><button class="main">${msg`Go on`}</button>
          <button type="button" @click=${() => this.close()}>${msg`Cancel`}</button></p>
      </form>
    </dialog>`;
  }

  /** @param {SubmitEvent} event */
  submit(event) {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const data = new FormData(form);
    this.give({ key: String(data.get("key") ?? "").trim(), remember: data.has("remember") });
    form.reset();
  }

  /** @param {{key: string, remember: boolean} | null} answer */
  give(answer) {
    this.answer?.(answer);
    this.answer = null;
  }
}

customElements.define("srb-banner", Banner);
customElements.define("srb-status", Status);
customElements.define("srb-key", KeyDialog);
