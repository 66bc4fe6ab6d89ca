/**
 * The saving of one story: its parts go to the server, in order and one post at a time, until it has them. A post that fails is sent again, first after a second, at last every half minute.
 *
 * @import {BareNode, Wire} from "../story/types.js"
 * @import {Outbox} from "./outbox.js"
 * @import {Answer, Known, Refused, StoryServer} from "./server.js"
 */
import { absorb, compareNodes, emptyWire, unionOf } from "../story/merge.js";
import { bytesOf, isEmpty, MOST_BYTES, postsOf } from "./posts.js";
import { Safekeeping } from "./safekeeping.js";
import { isMissing, shareOf, Trouble } from "./server.js";

const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** The body of a request that outlives its page may have 64 KB, headers and other such requests included. */
const MOST_LAST_BYTES = 60_000;
/** Posts of a node whose parent the server does not have yet, which another tab may be sending. */
const MOST_TRIES = 5;
const MAY_COME = ["parent_unknown", "parent_open", "beyond"];

/**
 * @typedef {object} Listener
 * @property {(answer: Answer, isOther: boolean) => void} [heard]  an answer with all that this page lacked; `isOther` if it
 *   comes from another file than the one before, or from an older state of it, or if from now on the server takes changes
 * @property {() => void} [told]  the state has changed
 * @property {(ids: string[]) => Wire} [withParents]  nodes as they are now, with those that they stand on
 * @property {() => void} [isAnothers]  the server has no story for this person under the id, and takes none: it is another's
 */

export class Saver {
  /** @type {Known | null} what this page has of the story; null: nothing is asked for */
  known = null;
  /** @type {Trouble | null} why the last post failed */
  trouble = null;
  savedAt = 0;
  /** @type {Map<string, string>} nodes that the server refuses for good, and its sentences */
  stuck = new Map();
  /** @type {Required<Wire>} */
  #pending = emptyWire();
  /** @type {Required<Wire>[]} posts on their way */
  #sending = [];
  /** @type {Promise<void> | null} */
  #saving = null;
  /** @type {Map<string, number>} */
  #tries = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #delay = 0;
  #isStopped = false;

  /**
   * @param {string} id
   * @param {StoryServer} server
   * @param {Outbox} outbox
   * @param {Listener & {now: () => number}} listener
   */
  constructor(id, server, outbox, listener) {
    this.id = id;
    this.server = server;
    this.listener = listener;
    this.safekeeping = new Safekeeping(id, outbox, { now: listener.now, told: () => this.#tell() });
  }

  /** Whether the server has not confirmed everything yet. */
  get isBusy() {
    return this.#sending.length > 0 || !isEmpty(this.#pending);
  }

  /** Whether the story is another's, who gets no changes from here. */
  get isReader() {
    const { access = "write" } = this.known?.share ?? {};
    return access !== "write";
  }

  /** Resolves when the outbox has what it was given, or has failed. */
  get kept() {
    return this.safekeeping.done;
  }

  /**
   * Take a part of the story, which goes to the server with the next save.
   * @param {Wire} wire
   */
  add(wire) {
    absorb(this.#pending, wire);
    this.safekeeping.add(wire);
    if (!this.server.isOn || this.#timer !== undefined) this.safekeeping.put();
  }

  /**
   * Send what there is, unless a failed post waits for its next time; a reader's changes stay in the outbox.
   * @returns {Promise<void>} resolves when the server has confirmed, or failed
   */
  async save() {
    if (!this.server.isOn || this.isReader) return this.#leaveInOutbox();
    if (this.#timer !== undefined) return;
    this.#saving ??= this.#sendAll().finally(() => {
      this.#saving = null;
    });
    return this.#saving;
  }

  /**
   * Take an answer of the server, to a post or to a question.
   * @param {Answer} answer
   * @param {Known} asked  what was known when it was asked
   */
  hear(answer, asked) {
    const isSame = this.known?.server === answer.server;
    const wasReader = this.isReader;
    this.known = {
      server: answer.server,
      seq: isSame ? Math.max(answer.seq, this.known?.seq ?? 0) : answer.seq,
      share: shareOf(answer),
    };
    const isOther = asked.server !== undefined && (asked.server !== answer.server || answer.seq < asked.seq);
    this.listener.heard?.(answer, isOther || (wasReader && !this.isReader));
  }

  /** Send at once, whenever the last post failed. */
  wake() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.save();
  }

  /** Send what there is by a request that outlives the page; its answer matters to nobody. */
  sendLast() {
    this.safekeeping.put();
    const wire = this.#sending.reduce(unionOf, this.#pending);
    if (!this.server.isOn || this.isReader || isEmpty(wire) || bytesOf(wire) > MOST_LAST_BYTES) return;
    this.server.post(this.id, wire, null, { keepalive: true }).catch(() => {}); // the outbox has it
  }

  /**
   * Let another saver of the same story send what is left.
   * @param {Saver} other
   */
  handTo(other) {
    other.add(this.#sending.reduce(unionOf, this.#pending));
    this.stop();
  }

  /** Send nothing more; the outbox keeps what is left. */
  stop() {
    this.#isStopped = true;
    this.safekeeping.put();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pending = emptyWire();
  }

  async #leaveInOutbox() {
    this.#pending = emptyWire();
    this.trouble = null;
    this.safekeeping.put();
    await this.safekeeping.done;
    this.savedAt = this.listener.now();
    this.#tell();
  }

  async #sendAll() {
    while (!isEmpty(this.#pending) && this.#timer === undefined && !this.#isStopped) {
      this.#sending = postsOf(this.#pending);
      this.#pending = emptyWire();
      this.safekeeping.begin();
      this.#tell();
      const saved = emptyWire();
      try {
        while (this.#sending.length > 0) absorb(saved, await this.#sendFirst());
        this.trouble = null;
        this.#delay = 0;
        this.savedAt = this.listener.now();
        this.safekeeping.end(saved);
      } catch (error) {
        this.safekeeping.put();
        this.safekeeping.forget(saved);
        for (const post of this.#sending.splice(0)) absorb(this.#pending, post);
        await this.safekeeping.done; // before anybody reads that this browser keeps it
        this.trouble = Trouble.of(error);
        if (this.trouble.kind === "off") return this.#leaveInOutbox();
        if (isMissing(error)) this.listener.isAnothers?.();
        if (this.trouble.kind === "refused") break;
        this.#wait();
      }
    }
    this.#tell();
  }

  /** @returns {Promise<Wire>} what the server has now */
  async #sendFirst() {
    const [post] = /** @type {[Required<Wire>]} */ (this.#sending);
    /** @type {Refused[]} */
    let refused = [];
    const isFile = bytesOf(post) > MOST_BYTES * 1.02 && !isEmpty({ nodes: post.nodes });
    if (isFile)
      await this.server.postFile(this.id, post.nodes); // a large node has a post of its own: see `postsOf`
    else {
      const { known } = this;
      const answer = await this.server.post(this.id, post, known);
      refused = answer.refused ?? [];
      if (known !== null) this.hear(answer, known);
      refused = refused.filter(({ node }) => !isSettled(post.nodes[node], answer.nodes?.[node]));
    }
    this.#sending.shift();
    const kept = new Set(refused.map(({ node }) => node));
    const stored = { ...post, nodes: Object.fromEntries(Object.entries(post.nodes).filter(([id]) => !kept.has(id))) };
    for (const id of Object.keys(stored.nodes)) {
      this.stuck.delete(id);
      this.#tries.delete(id);
    }
    this.#sendAgain(refused, post);
    return stored;
  }

  /**
   * Send refused nodes again with their parents, since another tab may know these; give up after some times.
   * @param {Refused[]} refused
   * @param {Required<Wire>} post
   */
  #sendAgain(refused, post) {
    const again = [];
    let waits = false;
    for (const { node, reason, message } of refused) {
      const tries = (this.#tries.get(node) ?? 0) + 1;
      this.#tries.set(node, tries);
      if (!MAY_COME.includes(reason) || tries > MOST_TRIES) this.stuck.set(node, message);
      else again.push(node);
      waits ||= tries > 1;
    }
    if (refused.length > 0)
      this.safekeeping.put(
        only(
          post,
          refused.map(({ node }) => node),
        ),
      );
    if (again.length === 0) return;
    this.add(this.listener.withParents?.(again) ?? only(post, again));
    if (waits) this.#wait();
  }

  /** Save again later. */
  #wait() {
    if (this.#isStopped) return;
    this.#delay = Math.min(LAST_RETRY, this.#delay === 0 ? FIRST_RETRY : this.#delay * 2);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.wake(), this.#delay);
  }

  #tell() {
    this.listener.told?.();
  }
}

/**
 * @param {BareNode | undefined} ours
 * @param {BareNode | undefined} theirs
 * @returns {boolean} whether the server has a version that is at least as late as the one that it refused
 */
const isSettled = (ours, theirs) => ours !== undefined && theirs !== undefined && compareNodes(ours, theirs) <= 0;

/**
 * @param {Required<Wire>} post
 * @param {string[]} ids
 * @returns {Wire} these nodes of it
 */
const only = ({ nodes }, ids) => ({
  nodes: Object.fromEntries(ids.map((id) => [id, /** @type {BareNode} */ (nodes[id])])),
});
