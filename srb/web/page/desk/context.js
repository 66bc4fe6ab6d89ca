/** What is sent of the manuscript: its prompt, made by plan or by the model's chat template, and how much of the context it takes. */

import { FIRST_RATE, learnRate, planPrompt } from "../prompt.js";
import { requestBody } from "../request.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {{prompt: string, keep: number}} Prepared */

export class Context {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.rate = FIRST_RATE; // characters per token, learned from the server's answers
    /** @type {import("../prompt.js").Cut | null} */
    this.cut = null;
    /** @type {{basis: unknown[], share: {used: number, limit: number, cut: number}} | null} */
    this.measured = null;
  }

  /** Forget what belongs to the story that was open. */
  forget() {
    this.cut = null;
    this.measured = null;
  }

  /**
   * Return the prompt for a text, and the text's length without the spaces at its end; a promise of them if the server makes it.
   * @param {string} [text] the manuscript, if nothing else is given
   * @returns {Prepared | Promise<Prepared>}
   */
  prepare(text = this.desk.text) {
    const { prompt, template, keep, cut } = this.plan(text);
    if (text === this.desk.text) this.cut = cut;
    if (prompt !== null) return { prompt, keep };
    return this.desk.api.post("apply-template", template).then((said) => ({ prompt: said.prompt, keep }));
  }

  /** @param {string} text */
  plan(text) {
    const { settings, server, story } = this.desk;
    const memory = /** @type {string | undefined} */ (story.meta("memory")) ?? "";
    const note = /** @type {{text: string, depth: number} | undefined} */ (story.meta("note"));
    return planPrompt({ text, memory, note, settings, n_ctx: server.n_ctx || 1 << 30, rate: this.rate, cut: this.cut });
  }

  /** @param {string} prompt @param {number} n */
  body(prompt, n) {
    return requestBody(this.desk.settings, prompt, n, this.desk.server);
  }

  /** @param {string} prompt @param {number | null | undefined} tokens */
  learn(prompt, tokens) {
    if (tokens) this.rate = learnRate(this.rate, prompt.length, tokens);
  }

  /** The share of the context that is taken, in tokens, and the characters at the beginning that are not sent. */
  measure() {
    const basis = this.basis();
    if (!this.measured || basis.some((each, place) => each !== this.measured?.basis[place]))
      this.measured = { basis, share: this.share() };
    return this.measured.share;
  }

  /** All on which the share depends: while none of it has changed, the text is not looked at. */
  basis() {
    const { head, story, settings, server } = this.desk;
    const own = story.nodes.get(head.node)?.text;
    return [
      story,
      head.node,
      head.at,
      own,
      story.meta("memory"),
      story.meta("note"),
      settings,
      server,
      this.rate,
      this.cut,
    ];
  }

  share() {
    const { server, text } = this.desk;
    if (!server.n_ctx) return { used: 0, limit: 0, cut: 0 };
    const { parts, cut } = this.plan(text);
    const used = parts.reduce((sum, part) => sum + (part.kind === "room" ? 0 : part.tokens), 0);
    return { used, limit: server.n_ctx, cut: cut?.characters ?? 0 };
  }
}
