// <srb-settings>: the dialog of a story's settings. Each change applies at once.

import { choose, chosen, LANGUAGES, msg } from "../languages.js";
import { moodsOf } from "../moods.js";
import { rungs, SAMPLERS } from "../sampling.js";
import { html, nothing } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { msgHtml } from "./msg_html.js";
import "./banned_words.js";
import { check, radio, textArea } from "./fields.js";
import "./language.js";
import "./models.js";
import "./number_field.js";
import { NUMBERS } from "./numbers.js";
import { DialogPart } from "./part.js";
import "./presets.js";
import "./voices.js";

/** @typedef {import("../sampling.js").Ladder} Ladder */
/** @typedef {import("../sampling.js").Sampler} Sampler */
/** @typedef {import("./numbers.js").NumberSetting} NumberSetting */

const SECTIONS = /** @type {const} */ ([
  ["branches", msg`Branches`],
  ["words", msg`Choice of words`],
  ["model", msg`Model`],
  ["page", msg`Page`],
]);
const STOPS = /** @type {const} */ ([
  ["", msg`nowhere: only their length ends them`],
  ["word", msg`the end of a word`],
  ["line", msg`the end of a line`],
  ["sentence", msg`the end of a sentence`],
  ["paragraph", msg`the end of a paragraph`],
]);
const FIRST_LADDER = { name: "temperature", from: 0.5, to: 1.2 };
const SYSTEM = { name: "system", label: msg`System prompt`, rows: 4, words: msg`what the model is, and how it writes` };
const INSTRUCTION = { name: "instruction", label: msg`Instruction`, rows: 3, words: msg`what it is asked to do` };
const CHAT_WORDS = msg`through the model's chat template: it is told to write, and the story is its begun answer`;

class Settings extends DialogPart {
  constructor() {
    super("settings");
    /** @type {string} */
    this.section = "branches";
  }

  listen() {
    super.listen();
    this.on(["story", "server", "rounds"], () => this.requestUpdate());
  }

  /** @param {{section?: string}} [detail] */
  async open({ section = this.section } = {}) {
    this.section = section;
    await super.open();
  }

  render() {
    return html`<dialog class="settings" aria-labelledby="settings-title" closedby="any">
      ${dialogHead(this, msg`Settings of this story`)}
      <nav aria-label=${msg`Settings`}>
        ${SECTIONS.map(
          ([name, words]) => html`<button
            aria-current=${name === this.section ? "true" : "false"}
            ?autofocus=${name === this.section}
            @click=${() => {
              this.section = name;
              this.requestUpdate();
            }}
          >${words}</button>`,
        )}
      </nav>
      <div class="section">${this.#section()}</div>
    </dialog>`;
  }

  #section() {
    switch (this.section) {
      case "words":
        return this.#words();
      case "model":
        return this.#model();
      case "page":
        return this.#page();
      default:
        return this.#branches();
    }
  }

  // ---- Sections

  #branches() {
    const { n, stop_at, ladder } = this.desk.settings;
    const most = this.desk.server.max_n ?? 64;
    return html`
      ${this.#number({ ...NUMBERS.n, max: most })}
      ${this.#number({ ...NUMBERS.chosen_from, max: most })} ${this.#number(NUMBERS.max_tokens)}
      <div class="field">
        <label for="setting-stop_at">${msg`Stop at`}</label>
        <select id="setting-stop_at" @change=${this.#setFrom("stop_at")}>
          ${STOPS.map(([value, words]) => html`<option value=${value} ?selected=${value === stop_at}>${words}</option>`)}
        </select>
      </div>
      ${/** @type {string} */ (stop_at) === "" ? nothing : this.#number(NUMBERS.stop_after)}
      ${this.#check("ignore_eos", msg`Never end`, msg`the model may not end the text: branches go on to where they stop`)}
      ${this.#check("let_finish", msg`Let the others finish`, msg`after one is taken; they take the machine's time from the next round`)}
      <fieldset>
        <legend>${msg`Branches that differ`}</legend>
        ${this.#check("blind", msg`Blind`, msg`cards hide their models, their order and how likely they are until one is taken`)}
        ${this.#check("distinct_first", msg`Different beginnings`, msg`no two branches begin with the same word`)}
        ${this.#number(NUMBERS.sibling_penalty)}
        ${check(
          "ladder",
          msg`A ladder`,
          msg`each branch has its own value, from the first to the last`,
          ladder !== null,
          (isOn) => this.#set("ladder", isOn ? FIRST_LADDER : null),
        )}
        ${ladder === null ? nothing : this.#ladder(ladder, n)}
      </fieldset>
      ${this.#number(NUMBERS.seed)}
    `;
  }

  /**
   * @param {Ladder} ladder
   * @param {number} n
   */
  #ladder(ladder, n) {
    const moods = moodsOf(this.desk.server);
    const known = [...SAMPLERS.filter(({ group }) => group === "main"), ...moods];
    const sampler = known.find(({ name }) => name === ladder.name) ?? SAMPLERS[0];
    const end = (
      /** @type {"from" | "to"} */ side,
      /** @type {string} */ label,
      /** @type {string} */ words,
    ) => html`<srb-number
      class="field"
      .of=${`ladder-${side}`}
      .setting=${{ ...sampler, label, words }}
      .value=${ladder[side]}
      @number=${(/** @type {CustomEvent} */ event) => this.#set("ladder", { ...ladder, [side]: event.detail })}
    ></srb-number>`;
    const choose = (/** @type {any} */ event) => {
      const name = event.target.value;
      const { min, max, from = min, to = max } = /** @type {any} */ (known.find((each) => each.name === name));
      this.#set("ladder", name === FIRST_LADDER.name ? FIRST_LADDER : { name, from, to });
    };
    return html`<div class="field">
        <label for="ladder-name">${msg`Ladder of`}</label>
        <select id="ladder-name" @change=${choose}>
          ${known.map(
            ({ name, label }) =>
              html`<option value=${name} ?selected=${name === ladder.name}>${moods.some((mood) => mood.name === name) ? msg`the mood ${label}` : label}</option>`,
          )}
        </select>
      </div>
      ${end("from", msg`From`, msg`${sampler?.label} of the first branch`)}
      ${end("to", msg`To`, msg`${sampler?.label} of the last branch`)}
      <p class="words">${msg`Branches 1 to ${n}: ${rungs(ladder, n).join(", ")}`}</p>`;
  }

  #words() {
    const groups = /** @type {const} */ ([
      ["repetition", msg`Repetition`],
      ["rare", msg`Rarely needed`],
    ]);
    const of = (/** @type {Sampler["group"]} */ wanted) =>
      SAMPLERS.filter(({ group }) => group === wanted).map((sampler) => this.#sampler(sampler));
    return html`
      <srb-presets
        .settings=${this.desk.settings}
        @preset=${(/** @type {CustomEvent} */ event) => {
          for (const [name, value] of event.detail) this.#set(name, value);
        }}
      ></srb-presets>
      <p class="words">${msg`An empty field leaves the value to the server.`}</p>
      ${of("main")}
      ${["banned_strings", "seldom_strings"].map(
        (name) => html`<srb-banned
          class="field tall"
          name=${name}
          .value=${this.desk.settings[name]}
          @banned=${(/** @type {CustomEvent} */ event) => this.#set(name, event.detail)}
        ></srb-banned>`,
      )}
      <p><button type="button" @click=${() => this.desk.openDialog("overused")}>${msg`Find what comes too often`}</button></p>
      ${groups.map(([group, words]) => html`<details><summary>${words}</summary>${of(group)}</details>`)}
    `;
  }

  #model() {
    const { mode, system, instruction } = this.desk.settings;
    const { server } = this.desk;
    const hasNone = server.state === "ready" && server.chat_template === false;
    const set = (/** @type {string} */ name) => (/** @type {string} */ text) => this.#set(name, text);
    return html`
      ${
        server.models
          ? html`<srb-models .desk=${this.desk}></srb-models>`
          : html`<p>${server.model ? msgHtml`The model is <b>${server.model}</b>.` : msg`No model is known yet.`}</p>`
      }
      <srb-voices .desk=${this.desk}></srb-voices>
      <fieldset>
        <legend>${msg`How the story is put to it`}</legend>
        ${this.#radio("mode", "text", msg`Base text`, msg`the model goes on from the text as it stands`)}
        ${this.#radio("mode", "chat", msg`Chat`, CHAT_WORDS, hasNone && mode !== "chat")}
        ${hasNone ? html`<p class="words">${msg`This model has no chat template.`}</p>` : nothing}
      </fieldset>
      ${mode === "chat" ? [textArea(SYSTEM, system, set("system")), textArea(INSTRUCTION, instruction, set("instruction"))] : nothing}
      ${this.#check("logprobs", msg`Probabilities`, msg`shows on the cards how much the model expected its own words`)}
    `;
  }

  #page() {
    const languages = [["", msg`As the browser asks`], ...Object.entries(LANGUAGES)];
    return html`
      <div class="field">
        <label for="page-language">${msg`Language of the page`}</label>
        <select id="page-language" @change=${(/** @type {any} */ event) => this.#speak(event.target.value || null)}>
          ${languages.map(([tag, name]) => html`<option value=${tag} ?selected=${tag === (chosen() ?? "")}>${name}</option>`)}
        </select>
      </div>
      <srb-language class="field" data-place="setting" .desk=${this.desk}></srb-language>
      <fieldset>
        <legend>${msg`Colours`}</legend>
        ${this.#radio("theme", "auto", msg`As the system has them`)} ${this.#radio("theme", "light", msg`Light`)}
        ${this.#radio("theme", "dark", msg`Dark`)}
      </fieldset>
      <fieldset>
        <legend>${msg`Font of the manuscript`}</legend>
        ${this.#radio("font", "prose", msg`Book`, msg`letters of different widths, with serifs`)}
        ${this.#radio("font", "mono", msg`Typewriter`, msg`letters of one width`)}
      </fieldset>
      ${this.#number(NUMBERS.size)} ${this.#number(NUMBERS.measure)}
      ${this.#check("authors", msg`Who wrote what`, msg`the model's words have an ink of their own, your edits among them a line`)}
      ${this.#check("shows_pointed", msg`Cards in the text`, msg`a card that is pointed at for a moment is shown in the text, at its place`)}
      ${this.#check("typographic_quotes", msg`Typographic signs`, msg`typed quotes become those of the story's language, -- becomes a dash, and ... one sign; undo gives the plain ones back`)}
      ${this.#check("writes_first", msg`Write first`, msg`cards stay covered until a sentence of your own stands where they go`)}
      ${this.#check("single_keys", msg`Single keys`, msg`letters and digits act while the focus is in the branches: 3 takes the third`)}
    `;
  }

  /** Load the page again, in another language, when every word of the story is kept. @param {string | null} language */
  async #speak(language) {
    choose(language);
    await this.desk.flush();
    if (this.desk.keeper.isKept) return location.reload();
    this.desk.notice(msg`The page changes its language when it is loaded again: not all of your words are kept yet.`);
  }

  // ---- Fields and changes

  /** @param {NumberSetting | undefined} setting */
  #number(setting) {
    return setting === undefined ? nothing : this.#numberField(setting, null);
  }

  /** @param {Sampler} sampler */
  #sampler(sampler) {
    const fallback = this.desk.server.sampling?.[sampler.name];
    return this.#numberField({ ...sampler, empty: msg`the server's` }, typeof fallback === "number" ? fallback : null);
  }

  /**
   * @param {NumberSetting} setting
   * @param {number | null} fallback
   */
  #numberField(setting, fallback) {
    return html`<srb-number
      class="field"
      .setting=${setting}
      .value=${this.desk.settings[setting.name]}
      .fallback=${fallback}
      @number=${(/** @type {CustomEvent} */ event) => this.#set(setting.name, event.detail)}
    ></srb-number>`;
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {string} words
   */
  #check(name, label, words) {
    return check(name, label, words, this.desk.settings[name], (isOn) => this.#set(name, isOn));
  }

  /**
   * @param {string} name
   * @param {string} value
   * @param {string} label
   * @param {string} [words]
   * @param {boolean} [disabled]
   */
  #radio(name, value, label, words = "", disabled = false) {
    const isChosen = this.desk.settings[name] === value;
    return radio({ name, value, label, words, disabled, isChosen }, () => this.#set(name, value));
  }

  /**
   * @param {string} name
   * @param {unknown} value
   */
  #set(name, value) {
    this.desk.setSetting(name, value);
  }

  /** @param {string} name */
  #setFrom(name) {
    return (/** @type {any} */ event) => this.#set(name, event.target.value);
  }
}

customElements.define("srb-settings", Settings);
