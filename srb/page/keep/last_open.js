/** The id of the story that was open last in this browser. Without storage the newest story is opened instead. */
export class LastOpen {
  /**
   * @param {() => Pick<Storage, "getItem" | "setItem">} storage  throws where storage is switched off
   * @param {string} name
   */
  constructor(storage, name) {
    this.storage = storage;
    this.name = name;
  }

  get id() {
    try {
      return this.storage().getItem(this.name);
    } catch {
      return null;
    }
  }

  /** @param {string} id */
  remember(id) {
    try {
      this.storage().setItem(this.name, id);
    } catch {
      // full or switched off
    }
  }
}
