// <srb-voices>: which other models of the server, or adapters of its one model, write the rounds of a story beside its own.

import { adapterName, MOST_VOICES } from "../desk/voices.js";
import { msg } from "../languages.js";
import { html, nothing } from "../vendor/lit.js";
import { check } from "./fields.js";
import { Part } from "./part.js";

const WORDS = msg`The branches of a round are shared among them in turn, at most ${MOST_VOICES}; each card says which model wrote it.`;

class VoicesPart extends Part {
  constructor() {
    super();
    /** @type {string[]} */
    this.adapters = [];
  }

  listen() {
    this.on("story", () => this.requestUpdate());
    this.on("server", () => this.ask());
    this.ask();
  }

  async ask() {
    const { server, api } = this.desk;
    try {
      this.adapters = server.models ? [] : (await api.get("lora-adapters")).map(adapterName);
    } catch {
      this.adapters = []; // the server is away; its state is told in the banner
    }
    this.requestUpdate();
  }

  /** @param {string} name @param {boolean} isOn */
  set(name, isOn) {
    const { voices } = this.desk.settings;
    this.desk.setSetting("voices", isOn ? [...voices, name] : voices.filter((each) => each !== name));
  }

  render() {
    const { server, settings } = this.desk;
    const { voices } = settings;
    const own = settings.model || server.model;
    const gone = voices.filter((name) => !(server.models ?? this.adapters).includes(name));
    const others = [...(server.models ?? this.adapters), ...gone].filter((name) => name !== own);
    if (!others.length) return nothing;
    return html`<fieldset aria-describedby="voices-words">
      <legend>${msg`Written by ${own}, and also by`}</legend>
      ${others.map((name) => {
        const words = gone.includes(name) ? msg`this server does not have it` : "";
        return check(`voice-${name}`, name, words, voices.includes(name), (isOn) => this.set(name, isOn));
      })}
      <p class="words" id="voices-words">${WORDS}</p>
    </fieldset>`;
  }
}

customElements.define("srb-voices", VoicesPart);
