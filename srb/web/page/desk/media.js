/**
 * The pictures and sounds of the open story: kept by the server, by this browser until the server has them, and read when they
 * are shown or sent.
 */

import { Trouble } from "../keep/server.js";
import { markersOf, withoutMarkers } from "../markers.js";
import { base64, brought, fromBase64, isSound, promptField, typeOf } from "../media.js";
import { sha256 } from "../sha256.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {ReturnType<typeof promptField>} Prompt */

const ID_DIGITS = 32;
const SECTION = "media"; // of the outbox
const ALL = 1e6;
const MOST_FILES = 64; // in one request
const ROOM_FOR_TEXT = 16_384; // bytes of a request beside prompt and files
const UTF8 = 3; // bytes of a UTF-16 unit, at most; JSON escapes few

/** A refusal with what a person can do: `action` as a notice has it. */
export class MediaError extends Error {
  /** @param {string} message @param {import("../desk.js").Action} [action] */
  constructor(message, action) {
    super(message);
    this.action = action;
  }
}

export class Media {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    /** @type {Map<string, Bytes>} of the open story, by id */
    this.known = new Map();
    this.omitted = 0; // first files of the last prompt that were too much for a request
    this.leavesOut = false; // a person continues this story without what the model cannot take
    this.sending = Promise.resolve();
    this.hasUnsent = true; // as far as is known: an earlier page may have left some
    desk.addEventListener("server", () => this.send());
    this.send();
  }

  /** Forget what belongs to the story that was open. */
  forget() {
    this.known.clear();
    this.omitted = 0;
    this.leavesOut = false;
  }

  // ---- What the model takes

  /** Whether the model takes a file. @param {string} type */
  takes(type) {
    const { vision = false, audio = false } = this.desk.server.modalities ?? {};
    return isSound(type) ? audio : vision;
  }

  get takesAny() {
    return this.takes("image/") || this.takes("audio/");
  }

  /** Why the model takes no files: a sentence. */
  get whyNot() {
    if (!this.desk.server.modalities) return "The model is not ready yet: nobody knows whether it takes pictures.";
    return "This model takes text only. For pictures the server is started with the model's projector (setting mmproj).";
  }

  /** Why the model takes no such file: a sentence. @param {string} type */
  whyNotThis(type) {
    return `The model's projector (setting mmproj) takes ${isSound(type) ? "pictures, and no sounds" : "sounds, and no pictures"}.`;
  }

  // ---- Keeping

  /**
   * Keep a file beside a story, and return its id. Resolves when it is kept: by the server or, while that cannot, here.
   * @param {Bytes} bytes @param {import("../story.js").Story} [story] the open one, if nothing else is given
   * @throws {Error} with the end of a sentence that begins with the file's name
   */
  async add(bytes, story = this.desk.story) {
    const id = sha256(bytes).slice(0, ID_DIGITS);
    try {
      if (this.desk.keeper.server.isOn) await this.post(story.id, bytes);
      else await this.keepHere(story.id, id, bytes);
    } catch (error) {
      if (Trouble.of(error).kind === "refused")
        throw new Error(/** @type {Error} */ (error).message.replace(/^Field '[^']*': /, ""));
      await this.keepHere(story.id, id, bytes);
    }
    if (story === this.desk.story) this.known.set(id, bytes);
    return id;
  }

  /** @param {string} story @param {Bytes} bytes */
  post(story, bytes) {
    return this.desk.api.post(`${addressOf(story)}`, { data: base64(bytes) });
  }

  /** @param {string} story @param {string} id @param {Bytes} bytes */
  async keepHere(story, id, bytes) {
    this.hasUnsent = true;
    try {
      await this.desk.keeper.outbox.shelf.change([[story, SECTION, id]], () => bytes);
    } catch (error) {
      throw new Error(`cannot be kept by this browser: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** Send all that this browser keeps and the server lacks. */
  send() {
    this.sending = this.sending
      .then(() => this.sendAll())
      .catch(() => {
        this.hasUnsent = true; // it is tried again when the server is back
      });
    return this.sending;
  }

  async sendAll() {
    const { desk } = this;
    const { outbox, server } = desk.keeper;
    if (!this.hasUnsent || !server.isOn || desk.server.state !== "ready") return;
    this.hasUnsent = false; // what is kept here from now on makes it true again
    for (const story of await outbox.shelf.firsts()) {
      for (const key of await outbox.shelf.keys(story, ALL)) {
        if (key[1] !== SECTION) continue;
        const [bytes] = await outbox.shelf.get([key]);
        if (await this.isTaken(story, bytes)) await outbox.shelf.change([key], () => undefined);
      }
      await outbox.forget(story, {}); // a story of which nothing else is kept
    }
  }

  /** Whether the server takes a file; one that it refuses stays here. @param {string} story @param {Bytes} bytes */
  async isTaken(story, bytes) {
    try {
      await this.post(story, bytes);
      return true;
    } catch (error) {
      const { kind, message } = Trouble.of(error);
      if (kind !== "refused") throw error;
      this.desk.notice(`A picture or sound is kept in this browser only. ${message}`, "error");
      return false;
    }
  }

  // ---- Reading

  /**
   * Return the bytes of a file of the open story, or null if they are nowhere. Throws an ApiError while the server is away.
   * @param {string} id @returns {Promise<Bytes | null>}
   */
  async read(id) {
    const { story, keeper, api } = this.desk;
    const known = this.known.get(id);
    if (known) return known;
    const given = brought.get(story)?.[id];
    if (given) return fromBase64(given.data);
    let [bytes] = await keeper.outbox.shelf.get([[story.id, SECTION, id]]).catch(() => []);
    if (!bytes && keeper.server.isOn) bytes = await found(api.open("GET", `${addressOf(story.id)}/${id}`));
    if (bytes && story === this.desk.story) this.known.set(id, bytes);
    return bytes ?? null;
  }

  // ---- Files of stories

  /**
   * Keep what came with the file of the open story. Return sentences on what is not kept.
   * @param {Record<string, {data: string}>} files by id @returns {Promise<string[]>}
   */
  async takeIn(files) {
    const { story } = this.desk; // another may be opened meanwhile
    const lost = [];
    for (const [id, { data }] of Object.entries(files)) {
      try {
        if ((await this.add(fromBase64(data), story)) !== id)
          throw new Error("has other bytes than those that were exported");
      } catch (error) {
        lost.push(`A picture or sound of the file ${/** @type {Error} */ (error).message}.`);
      }
    }
    if (!lost.length) brought.delete(story);
    return lost;
  }

  /**
   * Return all that texts of the open story name, for its file, and what of it cannot be read now.
   * @param {string[]} [texts] of all nodes, if not given
   * @returns {Promise<{files: Record<string, {type: string, data: string}>, unread: Error[]}>}
   */
  async all(texts = Array.from(this.desk.story.nodes.values(), ({ text }) => text)) {
    const ids = new Set(texts.flatMap((text) => markersOf(text).map(({ id }) => id)));
    /** @type {Record<string, {type: string, data: string}>} */
    const files = {};
    const unread = [];
    for (const id of ids) {
      try {
        const bytes = await this.read(id);
        if (bytes) files[id] = { type: typeOf(bytes), data: base64(bytes) };
      } catch (error) {
        unread.push(/** @type {Error} */ (error));
      }
    }
    return { files, unread };
  }

  // ---- Prompts

  /**
   * Return a prompt whose files are all at hand, without those that are left out: a request takes only so many bytes, and the
   * last files are the nearest to what is written.
   * @param {string} prompt @returns {Promise<string>}
   * @throws {MediaError} if the model cannot take one, or its bytes are nowhere
   */
  async prepared(prompt) {
    const markers = new Map(markersOf(prompt).map((each) => [each.id, each]));
    const out = new Set();
    for (const { id, name } of markers.values()) {
      const bytes = await this.read(id);
      if (bytes && this.takes(typeOf(bytes))) continue;
      if (!this.leavesOut) throw this.refusal(name, bytes);
      out.add(id);
    }
    const sent = out.size ? withoutMarkers(prompt, (name, id) => (out.has(id) ? "" : `![${name}](srb:${id})`)) : prompt;
    return this.withinBody(sent);
  }

  /** Return a prompt without its first files, if all would be more than a request takes. @param {string} prompt */
  withinBody(prompt) {
    const markers = markersOf(prompt);
    const { max_body_bytes: most = Number.POSITIVE_INFINITY } = this.desk.server;
    let left = most - ROOM_FOR_TEXT - UTF8 * prompt.length;
    let count = 0;
    for (const { id } of [...markers].reverse()) {
      left -= Math.ceil(((this.known.get(id)?.length ?? 0) * 4) / 3) + 4;
      if (left < 0 || count === MOST_FILES) break;
      count += 1;
    }
    let omitted = markers.length - count;
    this.say(omitted, most);
    return omitted ? withoutMarkers(prompt, (name, id) => (omitted-- > 0 ? "" : `![${name}](srb:${id})`)) : prompt;
  }

  /** Say once that files are not sent. @param {number} omitted @param {number} most bytes of a request */
  say(omitted, most) {
    if (omitted && !this.omitted) {
      const which = omitted === 1 ? "The first picture is" : `The first ${omitted} pictures are`;
      const limit = `a request takes ${MOST_FILES} of them, and ${Math.floor(most / 2 ** 20)} MB (setting max_body_bytes)`;
      this.desk.notice(`${which} not sent: ${limit}.`);
    }
    this.omitted = omitted;
  }

  /** @param {string} name @param {Bytes | null} bytes */
  refusal(name, bytes) {
    const { story } = this.desk;
    const action = { label: "Leave them out", run: () => story === this.desk.story && this.goWithout() };
    if (!bytes) return new MediaError(`The picture or sound “${name}” is not kept with this story.`, action);
    const kind = isSound(typeOf(bytes)) ? "sounds" : "pictures";
    return new MediaError(`The text has ${kind}, and the model that is loaded takes none.`, action);
  }

  goWithout() {
    this.leavesOut = true;
    return this.desk.go();
  }

  /** The field `prompt` of a request. @param {string} prompt as `prepared` has returned it, perhaps with more text */
  field(prompt) {
    return promptField(prompt, (id) => this.known.get(id));
  }
}

/** @param {string} story */
const addressOf = (story) => `v1/srb/stories/${encodeURIComponent(story)}/media`;

/** @param {Promise<Response>} answer @returns {Promise<Bytes | null>} */
async function found(answer) {
  try {
    return new Uint8Array(await (await answer).arrayBuffer());
  } catch (error) {
    if (/** @type {import("../api.js").ApiError} */ (error).status === 404) return null;
    throw error;
  }
}
