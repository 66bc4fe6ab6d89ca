// The base of the parts for which the model writes something beside the text.

import { Part } from "./part.js";

/** A part for which the model writes something that a person may stop. */
export class WritingPart extends Part {
  constructor() {
    super();
    /** @type {AbortController | null} while it writes */
    this.writing = null;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.writing?.abort();
  }

  /** Let it write, and say why it cannot. @param {(rounds: import("../desk/rounds.js").Rounds, signal: AbortSignal) => Promise<unknown>} act */
  async letWrite(act) {
    const writing = new AbortController();
    this.writing = writing;
    this.requestUpdate();
    await this.desk.guard(async () => {
      try {
        await this.desk.withRounds((rounds) => act(rounds, writing.signal));
      } catch (error) {
        if (!writing.signal.aborted) throw error;
      }
    });
    this.writing = null;
  }
}
