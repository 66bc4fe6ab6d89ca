/** Pictures and sounds that this browser keeps, for all stories, until the server has them. */

import { Trouble } from "../keep/server.js";
import { msg } from "../languages.js";

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

const SECTION = "media"; // of the outbox: bytes
const REFUSED = "media_refused"; // the server's words on bytes that it did not take
const ALL = 1e6;

export class MediaOutbox {
  /** @param {import("../desk.js").Desk} desk @param {(story: string, bytes: Bytes) => Promise<unknown>} post */
  constructor(desk, post) {
    this.desk = desk;
    this.post = post;
    /** @type {Promise<void>} */
    this.sending = Promise.resolve();
    this.hasUnsent = true; // as far as is known: an earlier page may have left some
    this.told = 0; // refusals of which a person has been told
    desk.addEventListener("server", () => this.send());
    this.send();
  }

  get shelf() {
    return this.desk.keeper.outbox.shelf;
  }

  /** Return the bytes of a file if they are kept here. @param {string} story @param {string} id @returns {Promise<Bytes | undefined>} */
  async read(story, id) {
    const [bytes] = await this.shelf.get([[story, SECTION, id]]).catch(() => []);
    return bytes;
  }

  /** @param {string} story @param {string} id @param {Bytes} bytes */
  async keep(story, id, bytes) {
    this.hasUnsent = true;
    try {
      await this.shelf.change([[story, SECTION, id]], () => bytes);
    } catch (error) {
      throw new Error(msg`cannot be kept by this browser: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** Send all that the server lacks and has not refused; with `isAgain` also what it has refused. @param {boolean} [isAgain] */
  send(isAgain = false) {
    this.hasUnsent ||= isAgain;
    this.sending = this.sending
      .then(() => this.sendAll(isAgain))
      .catch(() => {
        this.hasUnsent = true; // it is tried again when the server is back
      });
    return this.sending;
  }

  /** @param {boolean} isAgain */
  async sendAll(isAgain) {
    const { desk, shelf } = this;
    const { outbox, server } = desk.keeper;
    if (!this.hasUnsent || !server.isOn || desk.server.state !== "ready") return;
    this.hasUnsent = false; // what is kept here from now on makes it true again
    if (isAgain) this.told = 0;
    /** @type {string[]} */
    const refusals = [];
    for (const story of await shelf.firsts()) {
      for (const key of await shelf.keys(story, ALL)) {
        if (key[1] !== SECTION) continue;
        const words = await this.sendOne(story, key[2] ?? "", isAgain);
        if (words) refusals.push(words);
      }
      await outbox.forget(story, {}); // a story of which nothing else is kept
    }
    this.tell(refusals);
  }

  /**
   * Send a file. One that the server refuses stays here with the server's words, and is not sent again until a person asks for it.
   * @param {string} story @param {string} id @param {boolean} isAgain @returns {Promise<string>} the words; empty if it was taken
   */
  async sendOne(story, id, isAgain) {
    const keys = [
      [story, SECTION, id],
      [story, REFUSED, id],
    ];
    const [bytes, before] = await this.shelf.get(keys);
    if (!bytes) return ""; // another window has sent it
    if (before && !isAgain) return before;
    let words = "";
    try {
      await this.post(story, bytes);
    } catch (error) {
      const { kind, message } = Trouble.of(error);
      if (kind !== "refused") throw error;
      words = message;
    }
    await this.shelf.change(keys, ([, section], stored) =>
      words ? (section === REFUSED ? words : stored) : undefined,
    );
    return words;
  }

  /** Say what the server has refused, unless it was said already. @param {string[]} refusals */
  tell(refusals) {
    const { length } = refusals;
    if (length <= this.told) return;
    this.told = length;
    const words = refusals.at(-1);
    const sentence =
      length === 1
        ? msg`A picture or sound is kept in this browser only. ${words}`
        : msg`${length} pictures or sounds are kept in this browser only. ${words}`;
    const action = { label: msg`Try again`, run: () => this.send(true) };
    this.desk.notice(sentence, "error", action);
  }
}
