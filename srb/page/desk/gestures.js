/** Gestures on the shown round: what a person does with its cards. */

import { commonLength } from "../compare.js";
import { sentenceAt, trimCut, wordEndAt, wordStartAt } from "../cuts.js";
import { msg } from "../languages.js";
import { markersOf } from "../markers.js";
import { rungFields } from "../moods.js";
import { stretchesOf } from "../story/same.js";
import { between, joined } from "./gap.js";
import { insert, putAtCaret } from "./graft.js";
import { isDivided } from "./live.js";
import { move, quoted } from "./moves.js";
import { isPinned, togglePin } from "./pins.js";
import { likelyTokens } from "./rivals.js";
import { mendedBefore, seamOf } from "./seam.js";

/** @typedef {{from: number, to: number, text: string, taken: number}} Landing   of a card in the text */
/** @typedef {import("../round.js").Round} Round */
/** @typedef {import("../round.js").Plan} Plan */
/** @typedef {import("./live.js").Live} Live */
/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {{at?: number | null, go?: boolean, typed?: import("./seam.js").Choice}} TakeOptions `typed`: where the card goes if a
 *   person has typed where it goes on */

const VARIED = 2; // branches that vary a card
const NO_PROMPT = { needsPrompt: false };

export class Gestures {
  /** @param {import("./rounds.js").Rounds} rounds */
  constructor(rounds) {
    this.rounds = rounds;
    this.desk = rounds.desk;
  }

  /**
   * Take a card into the text as it is now.
   * @param {number} number @param {TakeOptions} [options]
   */
  async take(number, options) {
    const { shown } = this.rounds;
    if (shown) await this.takeFrom(shown, number, this.desk.head, options);
  }

  /** @param {Live} live @param {number} number @param {Place} head the text that the card joins @param {TakeOptions} [options] */
  async takeFrom(live, number, head, { at = null, go = true, typed = this.desk.choice } = {}) {
    const { desk } = this;
    const { passage } = live.round;
    const { from, text } = live.round.taken(number, at);
    const to = from + (passage ? text.trimEnd() : text).length;
    if (from === to) return this.sayEmpty(live, number);
    const seam = seamOf(desk.story, live.round, head);
    live.noteHead(head);
    const { place, caret } = this.placeOf(live, number, { from, to }, head, seam, typed);
    const endOnServer = this.rounds.endShown();
    move(desk, place, "take", caret);
    if (seam.typed && typed === "after")
      desk.notice(msg`The card stands behind what you typed meanwhile: ${quoted(seam.typed)}`, "info", {
        label: msg`In place of it`,
        run: () => this.takeFrom(live, number, head, { at: to, go, typed: "instead" }),
      });
    const going = go && !passage ? this.rounds.go() : this.rounds.follow("take"); // who revises reads on first
    endOnServer();
    desk.flush();
    await going;
  }

  /**
   * Return how a card would stand in the text as it is now: `text` in the place of a range, of which a take would take `taken` characters.
   * @param {number} number @returns {Landing | null}
   */
  landing(number) {
    const { desk } = this;
    const slot = this.rounds.shown?.round.slots[number];
    const gap = this.rounds.gap;
    if (!slot?.text.trim() || !this.rounds.shown || !gap) return null;
    const from = beginOf(desk.text, gap, desk.choice);
    const { from: lead, to } = this.rounds.shown.round.taken(number);
    const own = slot.text.slice(lead);
    const isWhole = from === gap.at && !gap.isCut && lead === 0;
    const text = isWhole
      ? own
      : joined(desk.text.slice(0, from), [{ text: own, by: "model" }])
          .map((each) => each.text)
          .join("");
    const isAll = to >= slot.text.trimEnd().length;
    const taken = isAll ? text.length : Math.max(0, to - lead + text.length - own.length);
    return {
      from,
      to: Math.max(from, gap.to),
      text: text + between(desk.text.slice(0, from), text, desk.text.slice(gap.to)),
      taken,
    };
  }

  /** Say why a card cannot be taken, and what can be done. @param {Live} live @param {number} number */
  sayEmpty({ round }, number) {
    const { desk } = this;
    if (round.slots[number]?.end?.reason !== "eos") return desk.notice(msg`This card has no text yet.`);
    desk.notice(msg`The model would end here, and has written nothing.`, "info", {
      label: msg`Go on anyway`,
      run: () => this.extend(number),
    });
  }

  /**
   * Return the place of the text with a part of a card, and where it ends in it: the card's own place where it
   * joins what it goes on from and nothing stands behind it, else a graft onto the text as it is now.
   * @param {Live} live @param {number} number @param {{from: number, to: number}} part @param {Place} head @param {import("./seam.js").Seam} seam
   * @param {import("./seam.js").Choice} typed
   */
  placeOf(live, number, part, head, seam, typed) {
    const { at, to, isCut } = seam;
    const { story } = this.desk;
    const text = story.text(head.node, head.at);
    const { keep, passage } = live.round;
    const own = live.place(number, part.to);
    const begin = beginOf(text, seam, typed);
    const [before, behind] = [text.slice(0, begin), text.slice(to)];
    const isOwn = behind === "" && begin === keep && before === story.text(own.node, keep);
    if (isOwn && !passage && part.from === 0) return { place: own, caret: own.at };
    const stretches = stretchesOf(story, own, keep + part.from, own.at);
    const isWhole = begin === at && !isCut && !passage && part.from === 0;
    return insert(story, head, { from: begin, to }, isWhole ? stretches : joined(before, stretches));
  }

  /**
   * Put what a take of a card would bring where the caret is, in the place of what is selected there; the cards stay.
   * @param {number} number @param {{from: number, to: number}} [range] where it goes instead
   */
  put(number, range) {
    const { shown } = this.rounds;
    if (!shown) return;
    const { from, to, text } = shown.round.taken(number);
    if (!text.trim()) return this.sayEmpty(shown, number);
    const { node, at } = shown.place(number, to);
    const { keep } = shown.round;
    return putAtCaret(this.desk, { node, from: keep + from, to: at }, range);
  }

  /** Pin what a take of a card would bring, or take it off; returns whether it is pinned now. @param {number} number */
  pin(number) {
    const { shown } = this.rounds;
    if (!shown) return false;
    const { story } = this.desk;
    const { keep } = shown.round;
    const { from, to } = shown.round.taken(number);
    const { mark } = shown.round.slots[number];
    const { node } = shown.place(number, to);
    togglePin(this.desk, node, { at: keep, from: keep + from, to: mark === null ? null : keep + to });
    return isPinned(story, node);
  }

  /** @param {number} number */
  prune(number) {
    return this.withShown((live) => {
      const { id } = live.round;
      const plan = live.round.planPrune(number);
      live.write(number);
      const trail = live.trail(number); // a refill of the slot has another one
      const mark = (/** @type {true | null} */ value) => {
        this.showPruned(id, number, value === true);
        if (trail.last.node === null) return;
        this.desk.story.setMark(trail.last.node, "pruned", value);
        this.desk.changed();
        this.desk.tell("nodes", { ids: new Set([trail.last.node]) });
      };
      mark(true);
      this.desk.record(
        () => mark(null),
        () => mark(true),
      );
      return live.carryOut(plan, this.bodyOf(live));
    }, NO_PROMPT);
  }

  /**
   * Show a card as pruned or not. The history knows its round by id: rounds are large, and one may be made again meanwhile.
   * @param {string} id @param {number} number @param {boolean} isPruned
   */
  showPruned(id, number, isPruned) {
    const live = this.rounds.kept.get(id);
    const slot = live?.round.slots[number];
    if (!live || !slot) return;
    if (isPruned && live.round.canPrune(slot))
      this.desk.guard(() => live.carryOut(live.round.planPrune(number), this.bodyOf(live)));
    if (!isPruned && slot.state === "pruned") live.round.unprune(number);
    this.rounds.round(live, new Set([number]));
  }

  /** Keep a card, and let others come in the place of all others, with new directions. @param {number} number */
  async roll(number) {
    const { shown } = this.rounds;
    const others = shown?.round.slots.filter((slot) => slot.number !== number) ?? [];
    if (!shown || !others.length) return;
    await Promise.all(others.filter((slot) => shown.round.canPrune(slot)).map((slot) => this.prune(slot.number)));
    await this.redirect(
      shown,
      others.filter((slot) => shown.round.canRefill(slot)),
    );
    await this.refill({ isDealt: true });
  }

  /** Deal other directions to cards that are about to get another branch; those that every round has stay.
   * @param {Live} live @param {import("../round.js").Slot[]} slots */
  async redirect({ round }, slots) {
    const { settings, story } = this.desk;
    const kept = round.passage ? [] : settings.directions;
    const open = slots.filter(({ number }) => !kept[number]);
    if (!open.length) return;
    return this.desk.guard(async () => {
      const { deal, deckOf, waysOf } = await import("../deck.js");
      const deck = await (round.passage && round.task ? waysOf : deckOf)(story);
      const moves = deal(deck, open.length, { dealt: round.directions });
      for (const [place, { number }] of open.entries()) round.directions[number] = moves[place];
    });
  }

  /** @param {{isDealt?: boolean}} [options] `isDealt`: the cards have their new directions already */
  async refill({ isDealt = false } = {}) {
    const { shown } = this.rounds;
    const told = shown?.round.slots.filter(
      (slot) => shown.round.directions[slot.number] && shown.round.canRefill(slot),
    );
    if (shown && told?.length && !isDealt) await this.redirect(shown, told);
    return this.withShown((live) => {
      const plans = live.round.voices.flatMap((voice) => live.round.planRefill(voice) ?? []);
      if (!plans.length) return this.desk.notice(msg`No card is empty: prune one first.`);
      return Promise.all(plans.map((plan) => this.carryOutRefill(live, plan)));
    });
  }

  /** @param {Live} live @param {Plan} plan */
  carryOutRefill(live, plan) {
    const again = this.rounds.rungsOf(live.round, plan.slots);
    if (plan.kind === "control" && again) {
      const { branches: told = [] } = /** @type {{branches?: object[]}} */ (plan.body);
      plan.body = {
        branches: again.values.map((value, place) => ({ ...rungFields(again.ladder, value), ...told[place] })),
      };
    }
    return this.carryOut(live, plan);
  }

  /** @param {number} number */
  extend(number) {
    return this.withShown((live) => {
      live.write(number);
      const plan = live.round.planExtend(number, this.desk.settings.max_tokens);
      const trails =
        plan.kind === "request" ? new Map([[number, live.trail(number).fork(plan.given.length)]]) : undefined;
      return this.carryOut(live, plan, trails);
    });
  }

  /** @param {number} number @param {number | null} [at] @param {number} [count] */
  vary(number, at, count = VARIED) {
    return this.withShown((live) =>
      this.fork(live, number, live.round.planVary(number, at ?? live.round.slots[number].mark, count)),
    );
  }

  /** @param {number} [count] */
  more(count = this.desk.settings.n) {
    return this.withShown((live) => {
      const { voices } = live.round;
      const share = (/** @type {number} */ place) => Math.max(1, Math.ceil((count - place) / voices.length));
      return Promise.all(voices.map((voice, place) => this.carryOut(live, live.round.planMore(share(place), voice))));
    });
  }

  /** Try a request again that has failed: read on what the server has begun, or ask once more. @param {Live} live @param {string} key */
  async again(live, key) {
    const { desk, rounds } = this;
    if (live !== rounds.shown) return desk.notice(msg`The cards that this was asked for are not shown any more.`);
    if (live.round.requests.get(key)?.id) return rounds.attach(live);
    return this.withShown(() => {
      const plan = live.round.planAgain(key);
      if (!plan) return desk.notice(msg`The cards that this was asked for have other texts now.`);
      return this.carryOut(live, plan, new Map(plan.slots.map((each) => [each, live.trail(each)])));
    });
  }

  /** @param {number | null} number @param {number} at @param {string} rival */
  choose(number, at, rival) {
    if (number === null) return this.chooseInText(at, rival);
    return this.withShown((live) => this.fork(live, number, live.round.planChoose(number, at, rival)));
  }

  /** Go on from the manuscript's first `at` characters and another word. @param {number} at @param {string} rival */
  async chooseInText(at, rival) {
    const { desk } = this;
    const endOnServer = this.rounds.endShown();
    const head = desk.settle(); // what is behind the word stays in the story
    this.rounds.shown?.noteHead(head);
    move(desk, desk.story.edit(head, at, desk.text.length, rival), "take");
    const going = this.rounds.go();
    endOnServer();
    await going;
  }

  /** Open the list of what could stand in place of the word at the manuscript's caret. */
  askWords() {
    const { text, manuscript } = this.desk;
    if (!manuscript) return;
    const end = wordEndAt(text, manuscript.caret());
    const from = wordStartAt(text, end);
    if (from === end || markersOf(text).some((marker) => marker.from < end && marker.to > from))
      return this.desk.notice(msg`Put the caret at a word: then the words that could stand in its place are shown.`);
    const [at, word] = [trimCut(text, from), text.slice(from, end)];
    const sentence = sentenceAt(text, from);
    const lines = manuscript.box(sentence.from, sentence.to) ?? manuscript.rect(from);
    this.desk.openDialog("alternatives", { number: null, at, word, lines });
  }

  /** @param {number | null} number @param {number} at */
  async alternatives(number, at) {
    const { desk } = this;
    const { context, shown, voices } = this.rounds;
    const likely = (/** @type {string} */ prompt, voice = "") => {
      const { context, asked, fields } = voices.of(voice);
      return likelyTokens(desk.api, context.media.field(prompt), { model: asked.settings.model, ...fields });
    };
    if (number === null || !shown) return likely((await context.prepare(desk.text.slice(0, at))).prompt);
    await this.makeReady(shown);
    const slot = shown.round.slots[number];
    const voice = shown.round.voiceOf(slot);
    return likely(shown.round.promptOf(voice) + slot.text.slice(0, at), voice);
  }

  /** Carry out a plan whose branches begin with a part of a card. @param {Live} live @param {number} number @param {Plan} plan */
  fork(live, number, plan) {
    live.write(number);
    if (plan.kind !== "request") return this.carryOut(live, plan);
    const shared = commonLength(plan.given, live.round.slots[number].text);
    return this.carryOut(live, plan, new Map(plan.slots.map((each) => [each, live.trail(number).fork(shared)])));
  }

  /** Sort by how likely each card is; the model reads those that came without that. */
  sort() {
    const isUntold = this.rounds.shown?.round.slots.some(
      (slot) => slot.state === "ended" && slot.text.trim() && slot.meanLogprob === null,
    );
    const arrange = (/** @type {Round} */ round) => round.sort(round.promptOf() ?? "");
    if (!isUntold) return this.arrange(arrange);
    return this.read({ isOfCards: true }, (round, means) => {
      for (const slot of round.slots) slot.logprob ??= means.get(slot.number) ?? null;
      this.arrange(arrange);
    });
  }

  /** Sort by how likely what follows becomes behind each card. */
  sortByFollowing() {
    return this.read({}, (_round, means) => this.arrange((round) => round.sortBy(means)));
  }

  /**
   * Have the shown cards read for their likelihood, or that of what follows.
   * @param {{isOfCards?: boolean}} options @param {(round: Round, means: Map<number, number>) => void} act if they are still shown then
   */
  read(options, act) {
    const live = this.rounds.shown;
    if (!live) return;
    const reading = this.rounds.beginReading();
    return this.desk.guard(async () => {
      try {
        const { likelihoods } = await import("./following.js");
        const means = await likelihoods(this.rounds, live.round, reading.signal, options);
        if (live === this.rounds.shown) act(live.round, means);
      } catch (error) {
        if (!reading.signal.aborted) throw error;
      }
    });
  }

  /** Sort so that neighbours mean much the same, and say how many really different cards there are. */
  sortByMeaning() {
    return this.compare(({ order }) => {
      const places = new Map(order.map((number, place) => [number, -place]));
      this.arrange((round) => round.sortBy(places));
    });
  }

  /** Let as many cards stand in front as really differ, and the others behind those that they resemble; once more, and all stand in front. */
  groupByMeaning() {
    if (this.rounds.shown?.round.isGrouped) return this.arrange((round) => round.unfoldAll());
    return this.compare(({ groups, order }) => {
      if (groups.length === order.length) this.desk.notice(msg`None of these cards says what another says.`);
      else this.arrange((round) => round.group(this.withMarkedFirst(round, groups)));
    });
  }

  /** Let the cards that differ most stand in front, as many as are wanted; those without words stand behind, too. @param {Live} live */
  chooseCards(live) {
    const { round } = live;
    round.isChosen = true; // what comes of it is said
    return this.desk.guard(async () => {
      const { meaningOf } = await import("./meaning.js");
      round.meaning = await meaningOf(this.desk, round, { n: round.wanted });
      const [first = [], ...others] = this.withMarkedFirst(round, round.meaning.groups);
      const empty = round.slots.filter(({ text }) => !text.trim()).map(({ number }) => number);
      round.group([[...first, ...empty], ...others]);
      this.rounds.round(live, null);
    });
  }

  /** Let cards that a person has marked stand for their groups; one more in a group stands for itself. @param {Round} round @param {number[][]} groups */
  withMarkedFirst({ slots }, groups) {
    const isMarked = (/** @type {number} */ number) => {
      const { mark, node } = slots[number];
      const { star, note } = this.desk.story.mark(node ?? "");
      return mark !== null || star || note;
    };
    return groups.flatMap((group) => {
      const [first = group[0], ...more] = group.filter(isMarked);
      return [
        [first, ...group.filter((number) => number !== first && !more.includes(number))],
        ...more.map((number) => [number]),
      ];
    });
  }

  /**
   * Ask the server how alike the shown cards are, and do something with its answer if they are shown still.
   * @param {(meaning: import("./meaning.js").Meaning) => unknown} act
   */
  compare(act) {
    const live = this.rounds.shown;
    if (!live) return;
    const reading = this.rounds.beginReading();
    return this.desk.guard(async () => {
      try {
        const { meaningOf } = await import("./meaning.js");
        const meaning = await meaningOf(this.desk, live.round, reading);
        live.round.meaning = meaning;
        if (live === this.rounds.shown) act(meaning);
      } catch (error) {
        if (!reading.signal.aborted) throw error;
      }
    });
  }

  fold() {
    this.arrange((round) => round.fold());
  }

  /** Show the cards in the order of their numbers. */
  unsort() {
    this.arrange((round) =>
      round.rearrange({ ...round.arrangement(), order: round.slots.map(({ number }) => number) }),
    );
  }

  /** Change order or folds; undo puts them back. @param {(round: Round) => unknown} change */
  arrange(change) {
    const live = this.rounds.shown;
    if (!live) return;
    const { id } = live.round;
    const before = live.round.arrangement();
    change(live.round);
    const after = live.round.arrangement();
    const put = (/** @type {typeof before} */ arrangement) => {
      const kept = this.rounds.kept.get(id);
      kept?.round.rearrange(arrangement);
      if (kept) this.rounds.round(kept, null);
    };
    this.desk.record(
      () => put(before),
      () => put(after),
    );
    this.rounds.round(live, null);
  }

  /** Change what a card shows. @param {(round: Round) => unknown} change @param {number[]} [numbers] */
  change(change, numbers) {
    if (!this.rounds.shown) return;
    change(this.rounds.shown.round);
    this.rounds.round(this.rounds.shown, numbers ? new Set(numbers) : null);
  }

  /** @param {(live: Live) => unknown} act @param {{needsPrompt: boolean}} [options] */
  withShown(act, { needsPrompt } = { needsPrompt: true }) {
    const live = this.rounds.shown;
    if (!live) return;
    return this.desk.guard(async () => {
      if (needsPrompt) await this.makeReady(live);
      if (live !== this.rounds.shown) return; // the person has gone on meanwhile
      try {
        await act(live);
      } catch (error) {
        if (!isDivided(error)) throw error;
        await act(live); // the round knows now that this takes a request of its own
      }
    });
  }

  /** Make the prompt that further branches of a round read: the text before its cards, as a person has mended it. @param {Live} live */
  async makeReady({ round }) {
    const isDirected = round.directions.some(Boolean);
    const { head, story } = this.desk;
    const mended = mendedBefore(story, round, head);
    const { passage, task, voices } = round;
    await this.rounds.voices.recall(voices);
    if (round.prompts !== null && round.mended === mended && (round.isDirectable || !isDirected)) return;
    const text = story.text(round.base.node, round.base.at);
    const before = mended ?? text.slice(0, round.keep);
    const behind = text.slice(round.until);
    const of = mended === null ? round.base : head;
    const { prompts } = await this.rounds.prepare(voices, { before, behind }, { passage, task, isDirected, of });
    round.read(prompts, mended, isDirected);
  }

  /** @param {Live} live @param {Plan} plan @param {import("./live.js").Live["trails"]} [trails] */
  async carryOut(live, plan, trails) {
    if (plan.kind === "request" && !this.rounds.makeRoom({ live }))
      throw new Error(
        msg`This round writes with as many requests as the browser can read: stop them, or wait for one.`,
      );
    const done = live.carryOut(plan, this.bodyOf(live), trails);
    this.rounds.saveWhileOpen();
    await done;
  }

  /** @param {Live} live @returns {import("./live.js").MakeBody} */
  bodyOf(live) {
    return (plan) => this.rounds.body(live.round, plan);
  }
}

/** Where a card begins in the text. @param {string} text @param {import("./seam.js").Seam} seam @param {import("./seam.js").Choice} choice */
function beginOf(text, { at, to, typed }, choice) {
  const isKept = typed ? choice === "after" : /^\s*\n\s*$/u.test(text.slice(at, to)); // a paragraph that was begun stays
  return isKept ? to : at;
}
