/** The part of the manuscript that is sent: its prompt, made by plan or by the chat template, and how much of the context it takes. */

import { codePoints, unitsOf } from "../cuts.js";
import { msg } from "../languages.js";
import { markersOf } from "../markers.js";
import { MARK } from "../media.js";
import { beginningsIn } from "../plan.js";
import { FIRST_RATE, forTemplate, learnRate, planPrompt, straightened, trimmedLength } from "../prompt.js";
import { requestBody } from "../request.js";
import { blocksOf, draftOf, fieldsOf, GO_ON, messagesOf, ownWordsIn } from "../tasks.js";
import { beatLines } from "./beats.js";
import { Lorebook } from "./lorebook.js";
import { Media } from "./media.js";
import { summaryFor } from "./summaries.js";
import { planOf } from "./synopses.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../tasks.js").Task} Task */
/** @typedef {import("../round.js").Directing} Directing */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{server: import("./server_watch.js").Server, settings: import("./defaults.js").Settings}} Asked */
/** @typedef {{prompt: string, keep: number, lore: string[], blocks: import("../reading.js").Block[], place?: Directing | null}} Prepared  `lore`: the ids of the
 *   lorebook's entries in the prompt; `blocks`: of which that is made */
/** @typedef {import("../prompt.js").Part} Part */
/** @typedef {{used: number, limit: number, cut: number, parts: Part[]}} Share  what a prompt takes, in tokens; see `Desk.context` */

const MOST_RESTING = 4000; // characters behind a direction that stays where it stood
const LETTERS = 500; // by which an estimated text may have become longer or shorter
const SHARE_OF_PASSAGE = 1 / 4; // of the context: it is read, and written several times
const FIRST_MEDIUM = 576; // tokens of a picture of an unknown model …
const FIRST_SHARE = 1 / 8; // … but of its context no more than this

export class Context {
  /** @param {Desk} desk @param {Asked} [asked] which model is asked, and how; the story's own, if nothing else is given
   * @param {import("./media_outbox.js").MediaOutbox} [outbox] */
  constructor(desk, asked = desk, outbox) {
    this.desk = desk;
    this.asked = asked;
    this.media = new Media(desk, { asked, outbox });
    this.lorebook = new Lorebook(desk);
    this.rate = FIRST_RATE; // characters per token, learned from the server's answers
    /** @type {number | null} tokens of a picture or sound, learned likewise; null before that */
    this.perMedium = null;
    /** @type {import("../prompt.js").Cut | null} */
    this.cut = null;
    /** @type {{all: unknown, place: Place, plan: ReturnType<typeof planOf>} | null} the synopses of the text that was looked at last */
    this.known = null;
    /** @type {{basis: unknown[], share: Share} | null} */
    this.measured = null;
  }

  /** Forget what belongs to the story that was open. */
  forget() {
    this.cut = null;
    this.measured = null;
    this.media.forget();
    this.lorebook.forget();
  }

  /**
   * Return the prompt for a text, with markers of its pictures, and the text's length without the spaces at its end; a promise of
   * them if the server makes it, or pictures are to be read.
   * @param {string} text @param {string} [behind] what follows the branches
   * @param {{isNext?: boolean, passage?: string, task?: Task | null, isDirected?: boolean, shared?: string, of?: Place}} [options]
   *   `isNext`: it is the next round's, and its cut stays for
   *   the rounds after it; `passage`: what stands between the two texts; `isDirected`: branches have directions, `shared`: all the same one;
   *   `of`: the place whose text begins with this one, the manuscript's if nothing is said
   * @returns {Prepared | Promise<Prepared>}
   */
  prepare(text, behind = "", { isNext = false, passage = "", task = null, isDirected = false, shared = "", of } = {}) {
    if (passage && task) return this.revision(text, { passage, task, isDirected });
    const planned = this.plan(text, behind, task, { of, shared });
    const { prompt, template, keep, cut, choice, loreAt, blocks, place } = planned;
    if (isNext) {
      this.cut = cut;
      this.lorebook.rest(choice, text, loreAt);
    }
    const more = { keep, lore: choice.used.map(({ id }) => id), blocks, place };
    if (prompt === null) return this.templated({ ...template, ...(isDirected ? { directions: [""] } : {}) }, more);
    return markersOf(prompt).length ? this.withMedia(prompt, more) : { prompt: this.media.withinBody(prompt), ...more };
  }

  /**
   * Return the prompt for a new passage, by the model's chat template or as a base model takes it.
   * @param {string} before @param {{passage: string, task: Task, isDirected: boolean}} asked @returns {Promise<Prepared>}
   */
  async revision(before, { passage, task, isDirected }) {
    const { settings, server } = this.asked;
    const isChat = server.chat_template === true;
    const most = Math.floor((server.n_ctx || 1 << 30) * this.rate * SHARE_OF_PASSAGE);
    if (passage.length > most)
      throw new Error(
        msg`The selection is too long for this model to write it anew: select at most ${most} characters.`,
      );
    const texts = {
      before,
      passage,
      system: [settings.system, this.memory]
        .map((each) => each.trim())
        .filter(Boolean)
        .join("\n\n"),
    };
    const more = { keep: before.length, lore: [], blocks: blocksOf(task, texts) };
    const prompt = isChat
      ? await this.rendered({ messages: messagesOf(task, texts), ...forTemplate(settings) })
      : draftOf(task, texts);
    const place = ownWordsIn(prompt, task, isChat);
    if (isDirected && !place) throw new Error(msg`The template of this model has no place for words of each card.`);
    return this.withMedia(prompt, { ...more, place });
  }

  /** Have the server make the prompt of a conversation. @param {Record<string, unknown>} template @returns {Promise<string>} */
  async rendered(template) {
    return (await this.desk.api.post("apply-template", template)).prompt;
  }

  /** Have the server make a chat's prompt, and say where directions stand in it.
   * @param {Record<string, unknown>} template @param {Omit<Prepared, "prompt">} more @returns {Promise<Prepared>} */
  async templated(template, more) {
    const { prompt, direction_place: said } = await this.desk.api.post("apply-template", template);
    const place = said && { tail: prompt.length - unitsOf(prompt, said.at), before: said.before, rest: said.rest };
    return this.withMedia(prompt, { ...more, place });
  }

  /**
   * Return the field that puts directions in their place, if that is not the server's own.
   * @param {import("../round.js").Round} round @param {string} given behind the prompt @param {string} voice
   */
  placeField(round, given, voice) {
    const place = round.placeOf(voice);
    const prompt = round.promptOf(voice);
    if (!place || prompt === null) return {};
    const before = this.media.field(prompt.slice(0, prompt.length - place.tail));
    const text = typeof before === "string" ? before : (before.prompt_string.split(MARK).at(-1) ?? ""); // at: in the last part
    const rest = straightened(place.rest + given, this.asked.server.lacks);
    return { direction_place: { at: codePoints(text, text.length), before: place.before, rest } };
  }

  /** Where the texts of a round stop: a chat model's new passage by itself. @param {Task | null} task */
  stopAt(task) {
    const { server, settings } = this.asked;
    const isPassage = task !== null && task.verb !== GO_ON;
    return isPassage && server.chat_template ? "passage" : isPassage ? "paragraph" : settings.stop_at;
  }

  /** @param {string} prompt @param {Omit<Prepared, "prompt">} more @returns {Promise<Prepared>} */
  async withMedia(prompt, more) {
    return { prompt: await this.media.prepared(prompt), ...more };
  }

  get memory() {
    return /** @type {string | undefined} */ (this.desk.story.meta("memory")) ?? "";
  }

  /** @param {string} text @param {string} [behind] @param {Task | null} [task]
   * @param {{of?: Place, shared?: string, isEstimate?: boolean}} [more] */
  plan(text, behind, task, { of = this.desk.head, shared = "", isEstimate = false } = {}) {
    const { story } = this.desk;
    const { settings, server } = this.asked;
    const note = /** @type {import("../prompt.js").Note | undefined} */ (story.meta("note"));
    const n_ctx = server.n_ctx || 1 << 30;
    const { rate, cut, perMedium } = this;
    const each = perMedium ?? Math.min(FIRST_MEDIUM, n_ctx * FIRST_SHARE);
    const unsent = this.media.unsent(text, n_ctx * rate);
    const wish = task ? { text: task.instruction, frame: settings.wish_frame, depth: 1 } : undefined;
    const choice = this.lorebook.choose(text, of, n_ctx, rate);
    const whole = this.planOf({ node: of.node, at: Math.min(of.at, text.length) }, isEstimate);
    // The direction of a beat stays where it stood when its first card was asked for, so that the cards behind it stay known to the server.
    const resting = whole.lines.find(
      ({ kind, text: beat, at }) => kind === "beat" && beat === shared && trimmedLength(text) - at <= MOST_RESTING,
    );
    const planned = planPrompt({
      text,
      behind,
      wish,
      wishFrame: settings.wish_frame,
      directedAt: resting?.at ?? (shared ? -1 : null),
      memory: this.memory,
      plan: { ...whole, lines: whole.lines.filter((line) => line !== resting) },
      summary: summaryFor(story, text),
      note,
      lore: choice.lore,
      settings,
      n_ctx,
      rate,
      perMedium: each,
      unsent,
      cut,
      fill: server.fill,
    });
    return { ...planned, choice };
  }

  /**
   * The plan of a text: in a chat no beats, since its directions are turns of their own. An estimate may have them where they stood some letters ago: to read a book anew costs more than a keystroke may.
   * @param {Place} place @param {boolean} isEstimate
   */
  planOf(place, isEstimate) {
    const { story } = this.desk;
    const { all } = this.lorebook; // other values of the story are another one
    const { known } = this;
    const isNear =
      known?.all === all &&
      Math.abs(known.place.at - place.at) < LETTERS &&
      [place.node, story.nodes.get(place.node)?.parent].includes(known.place.node);
    if (known && isEstimate && isNear) return known.plan;
    const synopses = planOf(story, place);
    const beats = this.asked.settings.mode === "chat" ? [] : beatLines(story, place);
    const lines = beats.length ? [...synopses.lines, ...beats].sort((a, b) => a.at - b.at) : synopses.lines;
    const plan = { ...synopses, lines };
    this.known = { all, place, plan };
    return plan;
  }

  /** @param {string} prompt @param {number} n @param {import("../round.js").Round} round */
  body(prompt, n, { task, passage, directions }) {
    const { story } = this.desk;
    const { settings, server } = this.asked;
    // A cluster's replica keeps the story, also where an edit leaves little of the text as it was.
    /** @type {Record<string, unknown>} */
    const body = { ...requestBody(settings, this.media.field(prompt), n, server), session: story.id };
    const banned = beginningsIn(prompt, settings.wish_frame);
    if (banned.length) body.banned_strings = [...(settings.banned_strings ?? []), ...banned];
    if (!task || !passage) return body;
    const { stop_at: _at, stop_after: _after, ...rest } = body;
    const model = { rate: this.rate, isChat: server.chat_template === true };
    return { ...rest, ...fieldsOf(task, passage, { ...model, isDirected: directions.some(Boolean) }) };
  }

  /** @param {string} prompt @param {number | null | undefined} tokens */
  learn(prompt, tokens) {
    if (!tokens) return;
    const media = markersOf(prompt);
    if (media.length === 0) this.rate = learnRate(this.rate, prompt.length, tokens);
    else {
      const characters = media.reduce((sum, { from, to }) => sum - (to - from), prompt.length);
      this.perMedium = Math.max(1, (tokens - characters / this.rate) / media.length);
    }
  }

  /** The share of the context that is taken, in tokens, and the characters at the beginning that are not sent. */
  measure() {
    const basis = this.basis();
    if (!this.measured || basis.some((each, place) => each !== this.measured?.basis[place]))
      this.measured = { basis, share: this.share() };
    return this.measured.share;
  }

  /** All on which the share depends: while none of it has changed, the text is not looked at. */
  basis() {
    const { head, story, settings, server } = this.desk;
    const { known, nowhere } = this.media;
    const { all: lore, resting } = this.lorebook;
    const own = story.nodes.get(head.node)?.text;
    return [
      story,
      head.node,
      head.at,
      own,
      story.meta("memory"),
      story.meta("note"),
      story.meta("summary"),
      lore,
      resting,
      settings,
      server,
      this.rate,
      this.perMedium,
      this.cut,
      known.size,
      nowhere.size,
    ];
  }

  /** @returns {Share} */
  share() {
    const { server, text } = this.desk;
    if (!server.n_ctx) return { used: 0, limit: 0, cut: 0, parts: [] };
    const { parts, cut } = this.plan(text, "", null, { isEstimate: true });
    const used = parts.reduce((sum, part) => sum + (part.kind === "room" ? 0 : part.tokens), 0);
    return { used, limit: server.n_ctx, cut: cut?.characters ?? 0, parts };
  }
}
