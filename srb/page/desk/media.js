/**
 * The pictures and sounds of the open story: kept by the server, by this browser until the server has them, and read when they
 * are shown or sent.
 */

import { ApiError } from "../api.js";
import { Trouble } from "../keep/server.js";
import { msg } from "../languages.js";
import { markersOf, withoutMarkers } from "../markers.js";
import { base64, brought, fromBase64, isSound, promptField, typeOf } from "../media.js";
import { straightened } from "../prompt.js";
import { sha256 } from "../sha256.js";
import { MediaOutbox } from "./media_outbox.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {ReturnType<typeof promptField>} Prompt */

const ID_DIGITS = 32;
const MOST_FILES = 64; // in one request
const ROOM_FOR_TEXT = 16_384; // bytes of a request beside prompt and files
const UTF8 = 3; // bytes of a UTF-16 unit, at most; JSON escapes few
const PATIENCE = 30_000; // ms after which a silent server counts as away …
const BYTES_PER_MS = 50; // … and what a slow network carries meanwhile
const LONGEST = 200_000; // ms for an answer that has begun

/** A refusal with what a person can do: `action` as a notice has it. */
export class MediaError extends Error {
  /** @param {string} message @param {import("../desk.js").Action} [action] */
  constructor(message, action) {
    super(message);
    this.action = action;
  }
}

export class Media {
  /** @param {Desk} desk @param {{patience?: number, asked?: import("./context.js").Asked, outbox?: MediaOutbox}} [options]
   *   `patience`: ms; `asked`: which model is asked */
  constructor(desk, { patience = PATIENCE, asked = desk, outbox } = {}) {
    this.desk = desk;
    this.asked = asked;
    this.patience = patience;
    /** @type {Map<string, Bytes>} of the open story, by id */
    this.known = new Map();
    this.omitted = 0; // first files of the last prompt that were too much for a request
    this.leavesOut = false; // a person continues this story without what the model cannot take
    /** @type {Set<string>} ids of the open story's files that are nowhere, as far as was seen */
    this.nowhere = new Set();
    this.outbox = outbox ?? new MediaOutbox(desk, (story, bytes) => this.post(story, bytes));
  }

  /** Forget what belongs to the story that was open. */
  forget() {
    this.known.clear();
    this.nowhere.clear();
    this.omitted = 0;
    this.leavesOut = false;
  }

  // ---- What the model takes

  /** Whether the model takes a file. @param {string} type */
  takes(type) {
    const { vision = false, audio = false } = this.asked.server.modalities ?? {};
    return isSound(type) ? audio : vision;
  }

  /** Whether the model is known to take no such file: one that is not loaded may take it. @param {string} type */
  takesNone(type) {
    return Boolean(this.asked.server.modalities) && !this.takes(type);
  }

  get takesAny() {
    return this.takes("image/") || this.takes("audio/");
  }

  /** Why the model takes no files: a sentence. */
  get whyNot() {
    if (!this.asked.server.modalities) return msg`The model is not ready yet: nobody knows whether it takes pictures.`;
    return msg`This model takes text only. For pictures the server is started with the model's projector (setting mmproj).`;
  }

  /** Why the model takes no such file: a sentence. @param {string} type */
  whyNotThis(type) {
    return isSound(type)
      ? msg`The model's projector (setting mmproj) takes pictures, and no sounds.`
      : msg`The model's projector (setting mmproj) takes sounds, and no pictures.`;
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
      else await this.outbox.keep(story.id, id, bytes);
    } catch (error) {
      if (Trouble.of(error).kind === "refused")
        throw new Error(/** @type {Error} */ (error).message.replace(/^Field '[^']*': /, ""));
      await this.outbox.keep(story.id, id, bytes);
    }
    if (story === this.desk.story) this.known.set(id, bytes);
    return id;
  }

  /** Keep all that was read for the open story, which has got another id. */
  keepAgain() {
    return Promise.all(Array.from(this.known.values(), (bytes) => this.add(bytes)));
  }

  /** @param {string} story @param {Bytes} bytes */
  post(story, bytes) {
    const wait = this.patience + bytes.length / BYTES_PER_MS;
    return inTime(wait, (signal) => this.desk.api.post(addressOf(story), { data: base64(bytes) }, { signal }));
  }

  /** Send what this browser keeps and the server lacks. */
  send() {
    return this.outbox.send();
  }

  // ---- Reading

  /**
   * Return the bytes of a file of the open story, or null if they are nowhere. Throws an ApiError while the server is away.
   * @param {string} id @returns {Promise<Bytes | null>}
   */
  async read(id) {
    const { story, keeper } = this.desk;
    const known = this.known.get(id);
    if (known) return known;
    const given = brought.get(story)?.[id];
    if (given) return fromBase64(given.data);
    const bytes =
      (await this.outbox.read(story.id, id)) ?? (keeper.server.isOn ? await this.fetch(story.id, id) : null);
    if (bytes && story === this.desk.story) this.known.set(id, bytes);
    return bytes;
  }

  /** @param {string} story @param {string} id @returns {Promise<Bytes | null>} null if the server has no such file */
  async fetch(story, id) {
    try {
      return await inTime(this.patience, async (signal, prolong) => {
        const answer = await this.desk.api.open("GET", `${addressOf(story)}/${id}`, undefined, { signal });
        prolong(LONGEST);
        return new Uint8Array(await answer.arrayBuffer());
      });
    } catch (error) {
      if (/** @type {ApiError} */ (error).status === 404) return null;
      throw error;
    }
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
          throw new Error(msg`has other bytes than those that were exported`);
      } catch (error) {
        lost.push(msg`A picture or sound of the file ${/** @type {Error} */ (error).message}.`);
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
      if (!bytes) this.nowhere.add(id);
      if (bytes && !this.takesNone(typeOf(bytes))) continue;
      if (!this.leavesOut) throw this.refusal(name, bytes);
      out.add(id);
    }
    const sent = out.size ? withoutMarkers(prompt, (name, id) => (out.has(id) ? "" : `![${name}](srb:${id})`)) : prompt;
    return this.withinBody(sent);
  }

  /** Return a prompt without its first files, if all would be more than a request takes. @param {string} prompt */
  withinBody(prompt) {
    const markers = markersOf(prompt);
    let omitted = markers.length - this.fitting(markers, prompt.length);
    this.say(omitted);
    return omitted ? withoutMarkers(prompt, (name, id) => (omitted-- > 0 ? "" : `![${name}](srb:${id})`)) : prompt;
  }

  /** The most bytes of a request. */
  get mostBytes() {
    return this.asked.server.max_body_bytes ?? Number.POSITIVE_INFINITY;
  }

  /** Return how many of the last files a request takes. @param {import("../markers.js").Marker[]} markers @param {number} length of its text */
  fitting(markers, length) {
    let left = this.mostBytes - ROOM_FOR_TEXT - UTF8 * length;
    let count = 0;
    for (const { id } of [...markers].reverse()) {
      left -= Math.ceil(((this.known.get(id)?.length ?? 0) * 4) / 3) + 4;
      if (left < 0 || count === MOST_FILES) break;
      count += 1;
    }
    return count;
  }

  /**
   * Return where the markers of a text begin whose files are not sent, as far as is known: the model cannot take them, or a request
   * takes no more.
   * @param {string} text @param {number} length characters of it that are sent at most
   */
  unsent(text, length) {
    const markers = markersOf(text);
    const isOut = (/** @type {{id: string}} */ { id }) => this.cannotBeSent(id);
    const wanted = markers.filter((each) => !isOut(each));
    const omitted = wanted.slice(0, wanted.length - this.fitting(wanted, Math.min(length, text.length)));
    return new Set([...markers.filter(isOut), ...omitted].map(({ from }) => from));
  }

  /** Whether the model cannot take a file, or its bytes are nowhere. @param {string} id */
  cannotBeSent(id) {
    const bytes = this.known.get(id);
    return bytes ? this.takesNone(typeOf(bytes)) : this.nowhere.has(id);
  }

  /** Say once that files are not sent. @param {number} omitted */
  say(omitted) {
    if (omitted && !this.omitted) {
      const most = Math.floor(this.mostBytes / 2 ** 20);
      this.desk.notice(
        omitted === 1
          ? msg`The first picture is not sent: a request takes ${MOST_FILES} of them, and ${most} MB (setting max_body_bytes).`
          : msg`The first ${omitted} pictures are not sent: a request takes ${MOST_FILES} of them, and ${most} MB (setting max_body_bytes).`,
      );
    }
    this.omitted = omitted;
  }

  /** @param {string} name @param {Bytes | null} bytes */
  refusal(name, bytes) {
    const { story } = this.desk;
    const action = { label: msg`Leave them out`, run: () => story === this.desk.story && this.goWithout() };
    if (!bytes) return new MediaError(msg`The picture or sound “${name}” is not kept with this story.`, action);
    const fault = isSound(typeOf(bytes))
      ? msg`The text has sounds, and the model that is loaded takes none.`
      : msg`The text has pictures, and the model that is loaded takes none.`;
    return new MediaError(fault, action);
  }

  goWithout() {
    this.leavesOut = true;
    return this.desk.go();
  }

  /** The field `prompt` of a request. @param {string} prompt as `prepared` has returned it, perhaps with more text */
  field(prompt) {
    return promptField(straightened(prompt, this.asked.server.lacks), (id) => this.known.get(id));
  }
}

/** @param {string} story */
const addressOf = (story) => `v1/srb/stories/${encodeURIComponent(story)}/media`;

/**
 * Return what is asked for, or throw an ApiError if it takes longer than `wait` ms.
 * @template T
 * @param {number} wait @param {(signal: AbortSignal, prolong: (wait: number) => void) => Promise<T>} ask @returns {Promise<T>}
 */
async function inTime(wait, ask) {
  const controller = new AbortController();
  const { signal } = controller;
  let timer = setTimeout(end, wait);
  function end() {
    controller.abort(new ApiError(msg`The server does not answer.`, 0, "silent"));
  }
  try {
    return await ask(signal, (longer) => {
      clearTimeout(timer);
      timer = setTimeout(end, longer);
    });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}
