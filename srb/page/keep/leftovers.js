/**
 * Stories that are not open, and of which the server lacks something: those that were left before it had everything, and those
 * that an earlier page could not save.
 *
 * @import {Outbox} from "./outbox.js"
 * @import {Saver} from "./saver.js"
 */

export class Leftovers {
  /** @type {Map<string, Saver>} */
  #savers = new Map();

  /**
   * @param {Outbox} outbox
   * @param {(id: string) => Saver} newSaver
   */
  constructor(outbox, newSaver) {
    this.outbox = outbox;
    this.newSaver = newSaver;
  }

  /**
   * Take over the saver of a story that is left. Resolves when it has saved, or failed.
   * @param {Saver} saver
   */
  async take(saver) {
    const before = this.#savers.get(saver.id);
    if (before?.isBusy) before.handTo(saver);
    this.#savers.set(saver.id, saver);
    await saver.save();
  }

  /**
   * Resolves when the outbox has all of a story that was left.
   * @param {string} id
   */
  kept(id) {
    return this.#savers.get(id)?.kept;
  }

  /**
   * Send what the outbox has of stories, but for the open one, which sends its own, and those that may only be read.
   * @param {(id: string) => boolean} isLeft  whether a story's parts are left where they are
   */
  async send(isLeft) {
    this.#forgetIdle();
    const kept = await this.outbox.list().catch(() => []); // without an outbox nothing is left over
    for (const { id, deleted } of kept) {
      if (isLeft(id) || deleted !== null || this.#savers.has(id)) continue;
      const wire = await this.outbox.read(id);
      if (wire === null) continue;
      const saver = this.newSaver(id);
      saver.add(wire);
      this.#savers.set(id, saver);
      await saver.save();
    }
    this.#forgetIdle();
  }

  /** Try now all that waits. */
  wake() {
    this.#forgetIdle();
    for (const saver of this.#savers.values()) saver.wake();
  }

  stop() {
    for (const saver of this.#savers.values()) saver.stop();
    this.#savers.clear();
  }

  #forgetIdle() {
    for (const [id, saver] of this.#savers) if (!saver.isBusy) this.#savers.delete(id);
  }
}
