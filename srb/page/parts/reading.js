// <srb-reading>: all that the model reads, word for word, coloured by where it comes from. Text of a model or a file is shown as it stands.

import { readingOfNext, readingOfShown } from "../desk/readings.js";
import { msg, NUMBER } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { msgHtml } from "./msg_html.js";
import { DialogPart } from "./part.js";
import "./summary.js";

/** @typedef {import("../desk/readings.js").Reading} Reading */

const NAMES = {
  memory: msg`Memory`,
  lore: msg`Lorebook`,
  plan: msg`Plan`,
  summary: msg`Summary`,
  text: msg`Text`,
  note: msg`Note`,
  instruction: msg`Instruction`,
  template: msg`Template`,
};
const REMADE = msg`Made again from the story: the words before the cards as they stand, with memory, note and settings as they are now.`;
const PAUSE = 400; // ms after which what was typed into the summary is read anew: each time a prompt is made

class ReadingDialog extends DialogPart {
  constructor() {
    super("reading");
    this.isNext = true;
    this.voice = "";
    /** @type {Reading | null} */
    this.reading = null;
  }

  listen() {
    super.listen();
    this.on("story", () => this.dialog?.open && this.isNext && this.readLater());
  }

  readLater() {
    this.later(PAUSE, () => this.isNext && this.read(true, this.voice));
  }

  /** @param {{isNext?: boolean}} [detail] */
  async open({ isNext = true } = {}) {
    await this.read(isNext || !this.desk.round, this.voice);
    await super.open();
  }

  /** @param {boolean} isNext @param {string} voice */
  async read(isNext, voice) {
    this.isNext = isNext;
    this.voice = voice;
    await this.desk.guard(async () => {
      this.reading = await this.desk.withRounds((rounds) => (isNext ? readingOfNext : readingOfShown)(rounds, voice));
    });
    this.requestUpdate();
  }

  render() {
    const { desk, isNext, reading } = this;
    return html`<dialog aria-labelledby="reading-title" closedby="any">
      ${dialogHead(this, msg`What the model reads`)}
      <div class="choices">
        <button aria-pressed=${isNext} @click=${() => this.read(true, this.voice)}>${msg`Next round`}</button>
        <button aria-pressed=${!isNext} ?disabled=${!desk.round} @click=${() => this.read(false, this.voice)}>${msg`Round beside the text`}</button>
        ${reading && reading.voices.length > 1 ? this.models(reading) : nothing}
      </div>
      ${isNext ? html`<srb-summary .desk=${desk}></srb-summary>` : nothing}
      ${reading ? words(reading) : html`<p>${msg`It cannot be shown now.`}</p>`}
    </dialog>`;
  }

  /** @param {Reading} reading */
  models({ voices, voice }) {
    return html`<label>${msg`Model`}
      <select @change=${(/** @type {any} */ event) => this.read(this.isNext, event.target.value)}>
        ${voices.map((name) => html`<option ?selected=${name === voice}>${name}</option>`)}
      </select></label>`;
  }
}

/** @param {Reading} reading */
function words({ stretches, isRemade }) {
  const kinds = /** @type {(keyof typeof NAMES)[]} */ (Object.keys(NAMES));
  const sizes = new Map(kinds.map((kind) => [kind, 0]));
  for (const { origin, text } of stretches) sizes.set(origin, (sizes.get(origin) ?? 0) + text.length);
  const origins = kinds
    .filter((kind) => sizes.get(kind))
    .map(
      (kind) =>
        html`<span class="origin" data-origin=${kind}>${NAMES[kind]}</span> ${NUMBER.format(sizes.get(kind) ?? 0)} `,
    );
  return html`<p class="origins">${msgHtml`${origins} characters`}</p>
    ${isRemade ? html`<p class="words">${REMADE}</p>` : nothing}
    <div class="reading" role="document" tabindex="0" aria-label=${msg`Prompt`} dir="auto">${stretches.map(
      ({ origin, text }) =>
        html`${origin === "text" ? nothing : html`<span class="origin" data-origin=${origin}>${NAMES[origin]}</span>`}<span data-origin=${origin}>${text}</span>`,
    )}</div>`;
}

customElements.define("srb-reading", ReadingDialog);
