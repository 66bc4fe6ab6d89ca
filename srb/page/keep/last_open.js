/** The id of the story that was open last in this browser. Without storage the newest story is opened instead. */

const COMING = " "; // behind an id

export class LastOpen {
  /**
   * @param {() => Pick<Storage, "getItem" | "setItem">} storage  throws where storage is switched off
   * @param {string} name
   */
  constructor(storage, name) {
    this.storage = storage;
    this.name = name;
  }

  get #kept() {
    try {
      return this.storage().getItem(this.name);
    } catch {
      return null;
    }
  }

  get id() {
    return this.#kept?.trim() ?? null;
  }

  /** Whether the server had nothing of it when its page was closed: the first words may still be on their way. */
  get isComing() {
    return this.#kept?.endsWith(COMING);
  }

  /** @param {string} id @param {boolean} [isComing] */
  remember(id, isComing) {
    try {
      this.storage().setItem(this.name, isComing ? id + COMING : id);
    } catch {
      // full or switched off
    }
  }
}
