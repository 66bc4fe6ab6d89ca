/**
 * The other tabs of this browser, which hear of changes before the server has them.
 *
 * @import {Wire} from "../story/types.js"
 *
 * @typedef {Pick<BroadcastChannel, "postMessage" | "addEventListener" | "close">} Channel
 */
import { isRecord } from "../story/check.js";

export class Tabs {
  /**
   * @param {Channel | null} channel  null in a browser without
   * @param {(story: string, wire: Wire) => void} heard
   */
  constructor(channel, heard) {
    this.channel = channel;
    channel?.addEventListener("message", (event) => {
      const { data } = /** @type {MessageEvent} */ (event);
      if (isRecord(data) && typeof data.story === "string" && isRecord(data.wire)) heard(data.story, data.wire);
    });
  }

  /**
   * @param {string} story
   * @param {Wire} wire
   */
  tell(story, wire) {
    this.channel?.postMessage({ story, wire });
  }
}

/**
 * @param {string} name
 * @returns {Channel | null}
 */
export const openChannel = (name) => (globalThis.BroadcastChannel === undefined ? null : new BroadcastChannel(name));
