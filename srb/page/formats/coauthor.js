/**
 * A story as the events of a session of CoAuthor (Lee, Liang, Yang: CoAuthor, CHI 2022), by the names of its published log: lines of JSON.
 *
 * The session is that of the manuscript: the splices of its path in their order, and the rounds that were asked for on it. Put together,
 * the changes of its `textDelta` are the manuscript. What a person types in one go is one event, and where the caret was is not known.
 */
import { requestOf } from "../story/asked.js";
import { origin } from "../story/pen.js";
import { getOrSet } from "../story/wire.js";

/** @import {Story} from "./types.js" */
/** @import {Node, Run} from "../story/types.js" */
/** @typedef {{run: Run, cards: Node[]}} Round */

/** @param {Story} story */
export function writeEvents(story) {
  const session = new Session(story);
  session.write();
  return session.events.map((event, eventNum) => `${JSON.stringify({ ...event, eventNum })}\n`).join("");
}

class Session {
  /** @param {Story} story */
  constructor(story) {
    this.story = story;
    /** @type {Record<string, unknown>[]} */
    this.events = [];
    this.time = 0;
    this.cursor = 0;
    /** What was asked with last. @type {Record<string, any>} */
    this.settings = {};
    /** @type {Round | null} whose cards are shown */
    this.open = null;
    /** Rounds by the nodes that they go on from, and by those of their cards. @type {Map<string, Round[]>} */
    this.asked = new Map();
    /** @type {Map<string, Round>} */
    this.ofCard = new Map();
    for (const round of roundsOf(story)) {
      getOrSet(this.asked, round.run.node, () => []).push(round);
      for (const { id } of round.cards) this.ofCard.set(id, round);
    }
  }

  write() {
    const { head } = this.story;
    const path = this.story.path(head.node).map((id) => /** @type {Node} */ (this.story.nodes.get(id)));
    this.add("system-initialize", "api", path[0]?.made ?? 0);
    this.ask("");
    let length = 0; // of the text so far
    for (const [place, node] of path.entries()) {
      const next = path[place + 1];
      const most = next ? (next.tail === undefined ? (next.keep ?? 0) : Number.POSITIVE_INFINITY) : head.at;
      length = this.splice(node, length, most);
      this.ask(node.id);
    }
  }

  /** Tell of a node's splice in a text of some length, of which the first `most` characters stay; return the length that it leaves.
   * @param {Node} node @param {number} length @param {number} most */
  splice(node, length, most) {
    const { keep = 0, tail = length, made } = node;
    const behind = Math.max(0, Math.min(length - tail, most - keep - node.text.length));
    const insert = node.text.slice(0, Math.max(0, most - keep));
    const [gone, rest] = [Math.min(tail, length) - keep, length - Math.min(tail, length) - behind];
    const source = node.by === "model" ? "api" : "user";
    if (node.by === "model") this.select(node);
    const end = rest > 0 ? [{ retain: behind }, { delete: rest }] : [];
    const ops = [{ retain: keep }, { insert }, { delete: gone }, ...end].filter((op) => Object.values(op)[0]);
    this.cursor = keep + insert.length;
    if (insert || gone + rest > 0)
      this.add(insert ? "text-insert" : "text-delete", source, made, { textDelta: { ops } });
    return keep + insert.length + behind;
  }

  /** Tell of the rounds that go on from a node. @param {string} id */
  ask(id) {
    for (const round of this.asked.get(id) ?? []) {
      const { run, cards } = round;
      this.close(run.made);
      this.settings = { ...run.request, ...requestOf(this.story, run)?.body };
      this.cursor = /** @type {any} */ (run.request).keep ?? run.at;
      this.add("suggestion-get", "user", run.made);
      if (cards.length === 0) {
        this.add("suggestion-fail", "api", run.made);
        continue;
      }
      const originalSuggestions = cards.map(({ text, logprob }) => ({
        original: text,
        trimmed: text.trim(),
        probability: logprob === undefined ? null : Math.exp(logprob),
        source: run.model,
      }));
      const currentSuggestions = originalSuggestions.map((each, index) => ({ index, ...each }));
      this.add("suggestion-open", "api", Math.max(...cards.map(({ made }) => made)), {
        currentSuggestions,
        originalSuggestions,
      });
      this.open = round;
    }
  }

  /** Tell that a card is taken. @param {Node} node of its text */
  select(node) {
    const card = origin(node).node;
    const round = this.ofCard.get(card);
    if (!round) return;
    if (this.open !== round) {
      this.close(node.made);
      this.add("suggestion-reopen", "user", node.made);
    }
    const currentSuggestionIndex = round.cards.findIndex(({ id }) => id === card);
    this.add("suggestion-select", "user", node.made, { currentSuggestionIndex });
    this.open = round;
    this.close(node.made, "api");
  }

  /** @param {number} time @param {string} [source] */
  close(time, source = "user") {
    if (this.open) this.add("suggestion-close", source, time);
    this.open = null;
  }

  /** @param {string} eventName @param {string} eventSource @param {number} time @param {Record<string, unknown>} [more] */
  add(eventName, eventSource, time, more = {}) {
    this.time = Math.max(this.time, time);
    const {
      n = "",
      max_tokens = "",
      temperature = "",
      top_p = "",
      presence_penalty = "",
      frequency_penalty = "",
    } = this.settings;
    this.events.push({
      eventName,
      eventSource,
      eventTimestamp: this.time,
      textDelta: "",
      cursorRange: "",
      currentDoc: "",
      currentCursor: this.cursor,
      currentSuggestions: [],
      currentSuggestionIndex: 0,
      currentHoverIndex: "",
      currentN: String(n),
      currentMaxToken: String(max_tokens),
      currentTemperature: String(temperature),
      currentTopP: String(top_p),
      currentPresencePenalty: String(presence_penalty),
      currentFrequencyPenalty: String(frequency_penalty),
      originalSuggestions: [],
      ...more,
    });
  }
}

/** The rounds of a story in the order in which they were asked for, with the first nodes of their cards. @param {Story} story @returns {Round[]} */
function roundsOf(story) {
  /** @type {Map<string, Round>} */
  const rounds = new Map();
  const runs = [...story.runs.values()].sort((one, other) => one.made - other.made);
  for (const run of runs) if (run.round === undefined) rounds.set(run.id, { run, cards: [] });
  for (const node of story.nodes.values())
    if (node.by === "model" && !node.of) rounds.get(node.run ?? "")?.cards.push(node);
  return [...rounds.values()];
}
