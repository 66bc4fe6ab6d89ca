/**
 * The keeping of stories. The server's file is the truth; what it does not have yet is in this browser's outbox, and other tabs
 * and machines hear of it. A server that keeps no stories leaves them in the outbox.
 *
 * @import {Api} from "./api.js"
 * @import {Answer, Known, Room} from "./keep/server.js"
 * @import {Channel} from "./keep/tabs.js"
 * @import {Entry} from "./keep/listing.js"
 * @import {Facts} from "./keep/standing.js"
 * @import {Shelf} from "./keep/shelf.js"
 * @import {News} from "./story/types.js"
 */

import { DEFAULTS, settingsOf } from "./desk/defaults.js";
import { describe, isEntry } from "./keep/describe.js";
import { LastOpen } from "./keep/last_open.js";
import { Leftovers } from "./keep/leftovers.js";
import { Listing } from "./keep/listing.js";
import { Outbox } from "./keep/outbox.js";
import { Saver } from "./keep/saver.js";
import { isMissing, StoryServer, shareOf, Trouble } from "./keep/server.js";
import { IdbShelf, MemoryShelf } from "./keep/shelf.js";
import { messageOf, stateOf, whereKept } from "./keep/standing.js";
import { openChannel, Tabs } from "./keep/tabs.js";
import { msg } from "./languages.js";
import { withParents } from "./story/wire.js";
import { newId, Story } from "./story.js";

const PAUSE = 1000;
const POLL = 3000;
const TRIES = 15; // to load a story that is on its way
const PATIENCE = 10_000; // ms that a person waits at the start for a list of stories
/** While a person types, words are counted this often at most: the count reads the whole text. */
const DESCRIBE = 10_000;
const ONLY_A_PART = msg`This browser has only a part of the story, and keeps it until the server has it.`;

/**
 * Events: state; merged, with News, after the open story has got changes from elsewhere; binned, when it was put into the bin;
 * crowded, with a Room, with each answer while it is nearly full; apart, with the `owner` as far as that is known, when it became
 * a story of this person's own, since the one that it was is not shared any more.
 */
export class Keeper extends EventTarget {
  /** @type {Story | null} the open story */
  story = null;
  /** @type {Saver | null} */
  #saver = null;
  /** @type {WeakMap<Story, Known>} what the server had of a story when it was loaded */
  #loaded = new WeakMap();
  /** @type {WeakSet<Story>} stories of which the server or the outbox has something */
  #kept = new WeakSet();
  /** The settings with which the open story was opened: a new one has the looks of the one before. */
  #begun = { ...DEFAULTS };
  /** @type {WeakSet<Story>} stories that were opened without what the server has of them */
  #parts = new WeakSet();
  /** @type {WeakMap<Story, {id: string, owner: string}>} of a story that takes another's place: which one it was, and whose */
  #instead = new WeakMap();
  #unread = "";
  #describedAt = 0;
  #isDescribed = true;
  #toldLast = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #saveTimer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #describeTimer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pollTimer;

  /**
   * @param {object} options
   * @param {Pick<Api, "get" | "post" | "send" | "base">} options.api
   * @param {Shelf} [options.shelf]
   * @param {Channel | null} [options.channel]
   * @param {Pick<Storage, "getItem" | "setItem">} [options.storage]
   * @param {() => boolean} [options.isHidden]
   * @param {() => number} [options.now]
   * @param {number} [options.patience] ms
   */
  constructor({ api, shelf, channel, storage, isHidden = () => document.hidden, now = Date.now, patience = PATIENCE }) {
    super();
    this.name = `srb.stories:${new URL(api.base).pathname}`; // a proxy may have several servers at one origin
    this.server = new StoryServer(api);
    this.outbox = new Outbox(
      shelf ?? (globalThis.indexedDB === undefined ? new MemoryShelf() : new IdbShelf(this.name)),
    );
    this.listing = new Listing(this.server, this.outbox, now);
    this.tabs = new Tabs(channel === undefined ? openChannel(this.name) : channel, (id, wire) => {
      if (this.story?.id === id) this.#announce(this.story.merge(wire)); // that tab saves it
    });
    this.leftovers = new Leftovers(this.outbox, (id) => this.#newSaver(id));
    this.lastOpen = new LastOpen(() => storage ?? localStorage, this.name);
    this.isHidden = isHidden;
    this.patience = patience;
    this.now = now;
  }

  // ---- The state, as a person sees it

  get state() {
    return stateOf(this.#facts);
  }

  /** The name of the page's key, as far as the server has told it; "" without one. */
  get person() {
    return this.listing.person;
  }

  /** A sentence about the state, "" if all is well. */
  get message() {
    return messageOf(this.#facts);
  }

  /** When everything was saved last, or 0. */
  get at() {
    return this.#saver?.savedAt ?? 0;
  }

  /** Whether the server or this browser keeps what was flushed, so that the page can be loaded again. */
  get isKept() {
    const { state } = this;
    return state === "reader" ? this.#facts.keepsHere : state !== "failed";
  }

  /** Where stories are kept: one sentence. */
  get where() {
    return whereKept(this.server.isOn, this.#facts.keepsHere, new URL(this.server.api.base).host);
  }

  /** @returns {Facts} */
  get #facts() {
    const saver = this.#saver;
    const isPutting = !this.server.isOn && Boolean(saver?.safekeeping.isPutting);
    return {
      isOn: this.server.isOn,
      keepsHere: this.outbox.shelf.lasts && !saver?.safekeeping.fault,
      isUnsaved:
        this.#isWorthSaving &&
        (this.#saveTimer !== undefined || Boolean(saver?.isBusy) || isPutting || Boolean(this.story?.changed)),
      trouble: saver?.trouble ?? null,
      unread: this.#unread,
      stuck: saver?.stuck ?? new Map(),
      share: saver?.known?.share,
    };
  }

  /** A story that was only begun is no entry of the list; one that is kept stays one, also when a setting is put back. */
  get #isWorthSaving() {
    return this.story !== null && (this.#kept.has(this.story) || isEntry(this.story, this.#begun));
  }

  #tell() {
    const detail = { state: this.state, at: this.at, message: this.message };
    if (JSON.stringify(detail) === this.#toldLast) return;
    this.#toldLast = JSON.stringify(detail);
    this.dispatchEvent(new CustomEvent("state", { detail }));
  }

  // ---- Opening

  /**
   * Return the story that was open last in this browser, or else the newest; null without any, for a person with a name, and if the server does not tell its
   * stories in time: a person can write before it does. Of a server that cannot read them, what this browser keeps takes their
   * place. Send what was left unsent.
   * @returns {Promise<Story | null>}
   */
  async openLast() {
    let story = null;
    try {
      const { stories, fault, person } = await Promise.race([this.listing.read(false), silence(this.patience)]);
      const last = this.lastOpen.id;
      const newest = person === "" ? stories[0] : undefined; // which may be one that another person shares
      const { id } = stories.find((each) => each.id === last) ?? newest ?? {};
      this.#noteUnread(fault);
      if (last !== null && id !== last && this.lastOpen.isComing) story = await this.#arriving(last);
      if (story === null && id !== undefined) story = await this.load(id);
    } catch (error) {
      this.#noteUnread(/** @type {Error} */ (error).message);
    }
    this.#sendLeftovers(story?.id);
    return story;
  }

  /** Load a story as soon as it is there; null if it does not come. @param {string} id */
  async #arriving(id) {
    /** @returns {Promise<null>} */
    const wait = () => new Promise((done) => setTimeout(done, PAUSE / 5, null));
    let story = null;
    for (let left = TRIES; left && !story; left -= 1) story = await this.load(id).catch(wait);
    return story;
  }

  /**
   * Read a story from the server and the outbox.
   * @param {string} id
   * @returns {Promise<Story>}
   * @throws {Error} with a sentence
   */
  async load(id) {
    await Promise.all([this.#saver?.kept, this.leftovers.kept(id)]);
    const [{ answer, fault, isGone }, kept] = await Promise.all([
      this.#read(id),
      this.outbox.read(id).catch(() => null),
    ]);
    if (answer === null && kept === null) throw new Error(fault || msg`This story is not there any more.`);
    const story = new Story(id);
    if (answer !== null) {
      story.merge(answer);
      const { seq, server, room } = answer;
      this.#loaded.set(story, { seq, server, room, share: shareOf(answer) });
    }
    if (kept !== null) {
      story.merge(kept);
      story.putBack(kept);
    }
    if (isGone && kept !== null && !story.isWhole) {
      const words = (await import("./keep/orphans.js")).storyOfOrphans(kept);
      this.#instead.set(words, { id, owner: "" });
      return words;
    }
    if (fault !== "" && !isReadable(story)) throw new Error(`${fault} ${ONLY_A_PART}`);
    if (fault !== "") this.#parts.add(story);
    this.#unread = fault;
    this.#kept.add(story);
    return story;
  }

  /**
   * @param {string} id
   * @returns {Promise<{answer: Answer | null, fault: string, isGone: boolean}>} null if the server does not have it: `isGone`, or cannot read it: `fault`
   */
  async #read(id) {
    try {
      return { answer: this.server.isOn ? await this.server.read(id) : null, fault: "", isGone: false };
    } catch (error) {
      const { kind, message } = Trouble.of(error);
      const isGone = isMissing(error);
      return { answer: null, fault: kind === "off" || isGone ? "" : message, isGone };
    }
  }

  /** @param {string} fault why the server's stories cannot be read, or "" */
  #noteUnread(fault) {
    this.#unread = fault;
    this.#tell();
  }

  /**
   * Keep a story from now on; changes that it has are saved.
   * @param {Story} story
   */
  open(story) {
    this.#leaveStory();
    const saver = this.#newSaver(story.id, {
      heard: (answer, isOther) => this.#hear(story, answer, isOther),
      withParents: (ids) => withParents(story, ids),
      isAnothers: () => this.#setApart(story),
    });
    saver.known = this.#loaded.get(story) ?? { seq: 0 };
    this.story = story;
    this.#begun = settingsOf(story);
    this.#saver = saver;
    this.#describedAt = 0;
    this.#isDescribed = true;
    if (this.#isWorthSaving) this.lastOpen.remember(story.id);
    if (story.changed) this.changed();
    this.#noteRoom(saver.known.room);
    if (this.#instead.has(story)) this.#takePlace(story, saver);
    this.#tell();
    this.#pollLater();
  }

  /**
   * Go on in a story of this person's own that has all of the open one, which is another's and shared no more.
   * @param {Story} story
   */
  #setApart(story) {
    const saver = this.#saver;
    if (saver === null || story !== this.story) return;
    this.#stopTimers();
    saver.stop();
    this.#instead.set(story, { id: story.id, owner: saver.known?.share?.owner ?? "" });
    this.#loaded.delete(story);
    this.#saver = null;
    story.id = newId();
    this.open(story);
  }

  /**
   * Keep all of a story that takes another's place, and forget what this browser has of that one.
   * @param {Story} story @param {Saver} saver
   */
  async #takePlace(story, saver) {
    const { id, owner } = /** @type {{id: string, owner: string}} */ (this.#instead.get(story));
    this.#instead.delete(story);
    this.#kept.add(story);
    this.lastOpen.remember(story.id);
    story.takeChanges();
    saver.add(story.wire());
    await saver.save();
    saver.safekeeping.put();
    await saver.kept;
    if (this.story === story) this.dispatchEvent(new CustomEvent("apart", { detail: { owner } }));
    if (!saver.safekeeping.fault) await this.outbox.remove(id).catch(() => {}); // it is told of again when it is opened
  }

  /** Leave the open story; the server still gets what it lacks. */
  #leaveStory() {
    this.#stopTimers();
    const { story } = this;
    const saver = this.#saver;
    if (story === null || saver === null) return;
    story.closeAll();
    this.#describe();
    if (this.#isWorthSaving) saver.add(story.takeChanges() ?? {});
    this.#saver = null;
    if (saver.isBusy) this.leftovers.take(saver);
  }

  /**
   * @param {string} id
   * @param {Partial<import("./keep/saver.js").Listener>} [listener]
   */
  #newSaver(id, listener) {
    const told = () => {
      if (saver.savedAt > 0 && saver.trouble === null) this.#unread = ""; // the server can be read again
      this.#tell();
    };
    const saver = new Saver(id, this.server, this.outbox, { now: this.now, told, ...listener });
    return saver;
  }

  /** @param {string | undefined} open */
  async #sendLeftovers(open) {
    if (this.server.isOn) await this.leftovers.send((id) => id === open || this.listing.toRead.has(id));
  }

  // ---- Saving

  /** Note that the open story has changed; it is saved within a second. */
  changed() {
    this.#saveTimer ??= setTimeout(() => this.#flush(), PAUSE);
    this.#isDescribed = false;
    this.#tell();
  }

  /**
   * Save now. Resolves when the server has confirmed, or has failed.
   * @param {{keepalive?: boolean}} [options]  `keepalive`: the page may be closing
   */
  async flush({ keepalive = false } = {}) {
    if (keepalive) this.story?.closeAll();
    this.#describe();
    const flushed = this.#flush();
    const saver = this.#saver;
    if (keepalive && saver !== null) {
      if (saver.isBusy && saver.known?.server === undefined) this.lastOpen.remember(saver.id, true);
      saver.sendLast();
    }
    await flushed;
  }

  /** Let no flush be due. */
  #stopTimers() {
    clearTimeout(this.#saveTimer);
    clearTimeout(this.#describeTimer);
    this.#saveTimer = this.#describeTimer = undefined;
  }

  async #flush() {
    this.#stopTimers();
    const { story } = this;
    const saver = this.#saver;
    if (story === null || saver === null) return;
    const until = this.#describedAt + DESCRIBE - this.now();
    if (until <= 0) this.#describe();
    // Without it the title of who stops typing stayed behind the words until the story was left.
    else if (!this.#isDescribed) this.#describeTimer = setTimeout(() => this.#flush(), until);
    const wire = this.#isWorthSaving ? story.takeChanges() : null;
    if (wire !== null) {
      saver.add(wire);
      this.#kept.add(story);
      this.tabs.tell(story.id, wire);
      this.lastOpen.remember(story.id);
    }
    this.#tell();
    if (!saver.isBusy) return;
    await saver.save();
    await saver.kept;
  }

  /** Bring title and words up to date, unless the server may have a title that was given. */
  #describe() {
    if (this.#isDescribed || this.story === null || !this.#isWorthSaving || this.#saver?.isReader) return;
    if (this.#parts.has(this.story) && this.#saver?.known?.server === undefined) return;
    this.#describedAt = this.now();
    this.#isDescribed = true;
    if (describe(this.story)) this.#announce({ nodes: new Set(), marks: new Set(), meta: new Set(["title"]) });
  }

  /** Try now all that waits: the server is there again, or the page is shown again. */
  async wake() {
    if (!this.server.isOn) await this.#askAgain();
    this.leftovers.wake();
    await this.#saver?.wake();
    await this.#poll();
    if (this.story !== null) await this.#sendLeftovers(this.story.id); // before one is open, it is not known which may be sent
  }

  /** Ask whether the server keeps stories by now; if so, it gets what this browser has kept. */
  async #askAgain() {
    await this.server.list().catch(() => {}); // it still does not, or is away
    if (this.server.isOn && this.story !== null && this.#isWorthSaving) this.#saver?.add(this.story.wire());
  }

  // ---- Hearing of others

  /**
   * @param {Story} story
   * @param {Answer} answer
   * @param {boolean} isOther  the server's file is another one: a backup, or an older state
   */
  #hear(story, answer, isOther) {
    const news = story.merge(answer);
    if (story !== this.story) return;
    if (isOther) this.#saver?.add(story.wire());
    this.#tell();
    if (answer.deleted !== undefined) this.dispatchEvent(new CustomEvent("binned"));
    this.#noteRoom(answer.room);
    this.#announce(news);
  }

  /** @param {Room | undefined} room */
  #noteRoom(room) {
    if (room) this.dispatchEvent(new CustomEvent("crowded", { detail: room }));
  }

  /** @param {News} news */
  #announce(news) {
    if (news.nodes.size + news.marks.size + news.meta.size > 0)
      this.dispatchEvent(new CustomEvent("merged", { detail: news }));
  }

  #pollLater() {
    clearTimeout(this.#pollTimer);
    this.#pollTimer = setTimeout(() => this.#poll(), POLL);
  }

  /** Ask for what others have written in the open story. */
  async #poll() {
    clearTimeout(this.#pollTimer);
    const saver = this.#saver;
    try {
      if (saver?.known?.server !== undefined && this.server.isOn && !this.isHidden()) {
        const { known } = saver;
        const answer = await this.server.read(saver.id, known);
        if (answer !== null) saver.hear(answer, known);
        await saver.save();
      }
    } catch (error) {
      if (isMissing(error) && saver !== null && saver === this.#saver) this.#missing(saver);
    } finally {
      if (this.story !== null) this.#pollLater();
    }
  }

  /** Send the open story whole, of which the server has nothing any more; another's is shared with this person no more. @param {Saver} saver */
  #missing(saver) {
    if (saver.known?.share) return this.#setApart(/** @type {Story} */ (this.story));
    saver.known = { seq: 0 };
    saver.add(/** @type {Story} */ (this.story).wire());
    saver.save();
  }

  /** Keep nothing any more. What is unsaved stays in the outbox. */
  close() {
    this.#stopTimers();
    clearTimeout(this.#pollTimer);
    this.#saver?.stop();
    this.leftovers.stop();
    this.#saver = null;
    this.story = null;
    this.tabs.channel?.close();
  }

  // ---- The list

  /**
   * Return all stories, or those in the bin, the last changed first, where they are kept, and a sentence, or "", on why those
   * of the server are not among them.
   * @param {{binned?: boolean}} [options]
   * @returns {Promise<{stories: Entry[], where: string, fault: string}>}
   */
  async list({ binned = false } = {}) {
    const { stories, fault } = await this.listing.read(binned);
    this.#noteUnread(fault);
    return { stories, where: this.where, fault };
  }

  /** Put a story into the bin, where it stays for a month. @param {string} id */
  async remove(id) {
    if (id === this.story?.id) await this.flush();
    await this.listing.setBinned(id, true);
  }

  /** Give a story that is not open a title. @param {string} id @param {string} title */
  async rename(id, title) {
    const saver = this.#newSaver(id);
    saver.add({ meta: { title: { value: title, changed: this.now() } } });
    await this.leftovers.take(saver);
    await saver.kept;
  }

  /** Take a story out of the bin. @param {string} id */
  async restore(id) {
    await this.listing.setBinned(id, false);
  }
}

/** Whether a story can be shown without what the server has of it. @param {Story} story */
const isReadable = (story) => story.isWhole && story.nodes.size > 0;

/**
 * Reject after so many ms.
 * @param {number} wait
 * @returns {Promise<never>}
 */
const silence = (wait) =>
  new Promise((_, fail) => setTimeout(() => fail(new Error(msg`The server does not answer.`)), wait));
