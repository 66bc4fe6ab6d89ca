// A walk over the desk: whatever a person does, in whatever order and in two windows, each character that was typed is in the
// manuscript, or the story has it and a notice has said so. Each character is another one, so that all of a text is known by them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { Story } from "../../../srb/page/story.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";
import { exchange, secondWindow } from "./two_desks.js";

const STEPS = 60;

const TYPED = /[\uac00-\ud7a3]/g; // a person's characters
const LETTER = /[\u4e00-\u9fff\uac00-\ud7a3]/g; // and a model's
const AWAY = new ApiError("The server cannot be reached.", 0, "unreachable");

const typedIn = (text) => new Set(text.match(TYPED));
const lettersIn = (text) => (text.match(LETTER) ?? []).join("");
const without = (some, others) => [...some].filter((each) => !others.has(each));

/** Words that were never there before. */
class Words {
  constructor(random) {
    this.random = random;
    this.areTwice = false; // whether a letter stands for two characters: a window has typed it again
    this.shownIn = new Map(); // the windows that have shown a letter
    this.persons = 0xac00;
    this.models = 0x4e00;
  }

  /** Letters that more than one window has shown: one of them may have taken them out. */
  get shownTwice() {
    return new Set([...this.shownIn].filter(([, windows]) => windows.size > 1).map(([letter]) => letter));
  }

  typed() {
    const letters = Array.from({ length: 1 + this.random.below(4) }, () => String.fromCharCode(this.persons++));
    return this.random.choice(["", " ", " ", " ", "\n\n"]) + letters.join("");
  }

  written() {
    const letters = Array.from({ length: 1 + this.random.below(6) }, () => String.fromCharCode(this.models++));
    return this.random.choice([" ", " ", "", "\n"]) + letters.join(this.random.choice(["", " "]));
  }
}

/** One window, and what a person does in it. */
class Window {
  constructor(it, random, words) {
    this.it = it;
    this.random = random;
    this.words = words;
    this.known = typedIn(it.desk.text); // characters that were shown here and not taken out by the person
    this.continued = new Map(); // the texts before and behind a round's cards, and between the two, by its id
    this.fresh = new Set(); // characters typed since the windows had the changes of each other, if nothing else was done
    this.kept = new Map(); // the window's sessionStorage
  }

  get desk() {
    return this.it.desk;
  }

  get text() {
    return this.desk.text;
  }

  isActive() {
    const { kept } = this;
    const sessionStorage = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => kept.set(key, value),
      removeItem: (key) => kept.delete(key),
    };
    Object.defineProperty(globalThis, "sessionStorage", { value: sessionStorage, configurable: true });
  }

  /** Do what takes out only what the person takes out; return what went. */
  own(act) {
    const before = typedIn(this.text);
    act();
    for (const each of typedIn(this.text)) this.known.add(each);
    return without(before, typedIn(this.text));
  }

  /** Do what is the desk's: of the characters that go by it, one notice tells, and leads back. */
  async desks(what, act) {
    const before = this.text;
    const said = this.desk.said.length;
    this.fresh.clear();
    act(); // it may last as long as its stream
    await settled();
    await settled();
    const lost = without(typedIn(before), typedIn(this.text));
    for (const each of typedIn(this.text)) this.known.add(each);
    const notices = this.desk.said.slice(said).filter(({ text }) => text.includes("not in this text"));
    if (lost.length === 0 && this.words.areTwice) return; // the other one is told of
    assert.equal(notices.length, lost.length ? 1 : 0, `${what} took “${lost}” out: ${JSON.stringify(notices)}`);
    if (lost.length === 0) return;
    const [{ text, action }] = notices;
    const named = typedIn(text);
    if (!/…|more word/.test(text)) assert.deepEqual(without(lost, named), [], text); // else it names the first of them
    if (this.random.chance(1, 2)) return;
    action.run();
    await settled();
    assert.equal(this.text, before, `${what}: “${action.label}” leads back`);
  }

  place() {
    return this.random.below(this.text.length + 1);
  }

  // ---- Acts of a person's own

  type() {
    const at = this.random.chance(1, 2) ? this.text.length : this.place();
    const before = typedIn(this.text);
    this.own(() => this.it.manuscript.type(this.words.typed(), at));
    for (const each of without(typedIn(this.text), before)) this.fresh.add(each);
  }

  takeOut() {
    const [from, to] = [this.place(), this.place()].sort((a, b) => a - b);
    if (to - from <= 12) this.cut(from, to);
  }

  /** Take out some of the last words, which may still be those that are being typed. */
  amend() {
    const to = Math.max(0, this.text.length - this.random.below(3));
    this.cut(Math.max(0, to - 1 - this.random.below(3)), to);
  }

  cut(from, to) {
    this.fresh.clear();
    for (const each of this.own(() => this.it.manuscript.type("", from, to))) this.known.delete(each);
  }

  /** All that a step of undo could change. */
  get state() {
    const { story, round: shown } = this.desk;
    const pruned = [...story.nodes.keys()].filter((id) => story.mark(id).pruned);
    return { text: this.text, pruned: pruned.sort(), cards: shown?.id, ...shown?.arrangement() };
  }

  /** What each step changes. */
  get steps() {
    return `${this.it.manuscript.done.length} ${this.desk.head.node} ${this.desk.head.at}`;
  }

  /** Undo or redo; return whether there was a step. The text of a place that the other window has rewritten is typed again. */
  step(which) {
    const { steps } = this;
    const { done, undone } = this.it.manuscript;
    const place = (which === "undo" ? done : undone).at(-1)?.head;
    this.fresh.clear();
    for (const each of this.own(() => this.desk[which]())) this.known.delete(each);
    this.words.areTwice ||= place !== undefined && this.desk.head !== place;
    return this.steps !== steps;
  }

  undo() {
    this.step("undo");
  }

  redo() {
    this.step("redo");
  }

  /** Undo some steps and do them again: each text comes back. */
  undoAndRedo() {
    const texts = [this.text];
    while (texts.length < 5 && this.step("undo")) texts.push(this.text);
    for (const text of texts.reverse()) {
      assert.equal(this.text, text, "redo leads where undo came from");
      if (text !== texts.at(-1) || texts.length > 1) this.step("redo");
    }
  }

  pause() {
    this.desk.closeTyped();
  }

  // ---- Acts of the desk

  async go() {
    const { text } = this;
    if (this.random.chance(1, 3)) this.it.manuscript.select(this.place());
    if (this.random.chance(1, 4)) return this.revise();
    if (this.it.api.refusal) this.desk.go({ n: 3 });
    else {
      await round(this.it, ...Array.from({ length: 3 }, () => this.words.written()));
      this.it.api.last.isBegun = true;
    }
    await settled();
    if (!this.it.api.refusal) {
      const { id, keep, until } = this.desk.round;
      this.continued.set(id, [text.slice(0, keep), text.slice(until), text.slice(keep, until)]);
    }
    assert.equal(this.text, text);
  }

  /** Have a passage written anew. */
  async revise() {
    const { text } = this;
    const { manuscript, desk, api } = this.it;
    manuscript.select(...[this.place(), this.place()].sort((a, b) => a - b));
    const go = desk.go;
    desk.go = (options) => go.call(desk, { ...options, task: { verb: "shorter", instruction: "Shorter." } });
    try {
      if (api.refusal) desk.go({ n: 3 });
      else await round(this.it, ...Array.from({ length: 3 }, () => this.words.written()));
    } finally {
      desk.go = go;
    }
    await settled();
    if (api.refusal) return;
    api.last.isBegun = true;
    const { id, keep, until } = desk.round;
    this.continued.set(id, [text.slice(0, keep), text.slice(until), text.slice(keep, until)]);
    assert.equal(this.text, text);
  }

  /** Let the last request write. */
  async grow() {
    const { api, desk } = this.it;
    const { last } = api;
    if (!desk.round || !last?.isOpen) return;
    const { text } = this;
    if (!last.isBegun) {
      last.isBegun = true;
      const count = last.body?.n ?? 1;
      const seeds = Array(count).fill(7);
      last.send({ event: "start", id: `joined-${api.streams.length}`, count, seeds, prompt_tokens: 6 });
    }
    last.send({ event: "stream", index: this.random.below(last.body?.n ?? 3), text: this.words.written() });
    assert.equal(this.text, text, "cards that grow change no text");
  }

  async lose() {
    const { api } = this.it;
    if (api.last?.isOpen) api.last.lose();
  }

  /** Take a card: the text is the one that was there up to where the card goes, and the card. */
  async take({ isUndone = false } = {}) {
    const { desk, random } = this;
    const slots = desk.round?.slots ?? [];
    if (!slots.length) return;
    const { number, text } = random.choice(slots);
    const at = random.chance(1, 3) ? random.below(text.length + 1) : null;
    const typed = random.choice(["after", "instead"]);
    const card = desk.round.taken(number, at).text;
    const before = this.state;
    const wanted = this.gaps(typed).map(([start, end]) => lettersIn(start + card + end));
    await this.desks("a take", () => desk.take(number, { at, go: false, typed }));
    if (!card || this.text === before.text) return;
    const isWanted = this.words.areTwice || wanted.includes(lettersIn(this.text));
    assert.ok(isWanted, `“${card}” ${typed} “${before.text}”: “${this.text}”`);
    if (!isUndone) return;
    const after = this.text;
    this.step("undo");
    assert.equal(this.text, before.text, "one undo has what was there before a take");
    assert.notEqual(desk.round, null, "with cards");
    this.step("redo");
    assert.equal(this.text, after);
  }

  /** What may stand before a card and behind it: one text each, if what the card goes on from, and leads to, is in the text; else a
   * blank that is left of that, which is known by no other than the product, may be the end, or the beginning. */
  gaps(typed) {
    const { text } = this;
    const { id, base, keep, until } = this.desk.round;
    const whole = this.desk.story.text(base.node, base.at);
    const kept = this.continued.get(id) ?? [whole.slice(0, keep), whole.slice(until), whole.slice(keep, until)];
    const [before, behind, passage] = kept;
    const letters = new Set(lettersIn(before));
    const at = [...text].findLastIndex((each) => letters.has(each)) + 1;
    const isSure = text[at - 1] === before.at(-1) && at > 0;
    const blanks = Array.from(text, (each, index) => (each.trim() ? 0 : index + 1)).filter((end) => end > at);
    const ends = isSure ? [at] : [at, ...blanks, text.length];
    return ends.flatMap((end) => {
      return this.beginnings(behind, end).map((to) => {
        const added = without(typedIn(text.slice(end, to)), typedIn(passage));
        const isBehind = added.length > 0 && typed === "after";
        return [text.slice(0, isBehind ? to : end), text.slice(to)];
      });
    });
  }

  /** Where the text behind a card may begin, from an offset on. */
  beginnings(behind, least) {
    const { text } = this;
    if (behind === "") return [text.length];
    const letters = new Set(lettersIn(behind));
    const found = [...text].findIndex((each, index) => index >= least && letters.has(each));
    const to = found < 0 ? text.length : found;
    const blanks = Array.from(text, (each, index) => (each.trim() ? -1 : index));
    return [to, ...blanks.filter((index) => index >= least && index < to)];
  }

  takeAndUndo() {
    return this.take({ isUndone: true });
  }

  /** Press what the last notice offers. */
  async answer() {
    const { action } = this.desk.said.at(-1) ?? {};
    if (action?.label === "Redo")
      this.own(action.run); // a step of the person's own
    else if (action && action.label !== "Try again") await this.desks(action.label, action.run);
  }

  async gesture() {
    const { desk, random, text } = this;
    const slots = desk.round?.slots ?? [];
    if (!slots.length) return;
    const { number } = random.choice(slots);
    const name = random.choice(["prune", "vary", "extend", "refill", "more", "sort", "fold"]);
    if (name === "extend" && !desk.round.canExtend(desk.round.slots[number])) return;
    const before = this.state;
    const isKept = ["prune", "sort", "fold"].includes(name) && desk.round.slots[number].state !== "pruned";
    const steps = this.steps;
    const given = { refill: [], sort: [], fold: [], more: [1] }[name] ?? [number];
    await this.desks(name, () => desk[name](...given));
    assert.equal(this.text, text, `${name} changes no text`);
    if (!isKept || this.steps === steps || random.chance(1, 2)) return;
    const after = this.state;
    this.step("undo");
    assert.deepEqual(this.state, before, `undo of ${name}`);
    this.step("redo");
    assert.deepEqual(this.state, after, `redo of ${name}`);
  }

  async open() {
    const { desk } = this;
    desk.rounds.save();
    const ids = [...desk.story.nodes.keys()];
    if (!ids.length) return;
    const id = this.random.choice(ids);
    await this.desks("opening", () => desk.openNode(id));
  }

  async back() {
    await this.desks("going back", () => this.desk.goBack());
  }

  async choose() {
    const at = this.place();
    const before = this.text;
    const rival = this.words.typed(); // chosen by a person
    const wanted = lettersIn(before.slice(0, at) + rival);
    await this.desks("another word", () => this.desk.choose(null, at, rival));
    if (this.text !== before) assert.equal(lettersIn(this.text), wanted);
  }

  async away() {
    this.it.api.refusal = this.it.api.refusal ? null : AWAY;
  }

  async join() {
    const { elsewhere } = this.desk.rounds;
    const { place, isApart } = elsewhere;
    const theirs = isApart ? this.desk.story.text(place.node, place.at) : "";
    const before = lettersIn(this.text);
    let joined = "";
    await this.desks("joining", () => {
      elsewhere.join();
      while (elsewhere.question) elsewhere.answer("both");
      assert.equal(elsewhere.isApart, false);
      joined = lettersIn(this.text);
    });
    const after = new Set(joined);
    const gone = without(lettersIn(before + theirs), after).filter(
      (each) => !before.includes(each) || !theirs.includes(each),
    );
    assert.deepEqual(without(gone, this.words.shownTwice), [], "what only one had ever shown is in the joined text");
    const isOnce = (letter) => [before, joined].every((text) => text.indexOf(letter) === text.lastIndexOf(letter));
    const own = [...before].filter((letter) => after.has(letter) && isOnce(letter));
    assert.deepEqual(
      [...joined].filter((letter) => own.includes(letter)),
      own,
      "this text in its order",
    );
  }

  async show() {
    await this.desks("showing", () => this.desk.rounds.elsewhere.show());
  }

  /** Read the page anew: the text is there, or this window knows what it has not. */
  async reload() {
    const { desk } = this;
    const before = typedIn(this.text);
    this.fresh.clear();
    desk.leave();
    clearInterval(desk.hidden);
    desk.setStory(desk.story);
    await settled();
    const lost = without(before, typedIn(this.text));
    const { elsewhere } = desk.rounds;
    if (lost.length) assert.ok(elsewhere.isOwn && elsewhere.words > 0, `${lost} is not told of`);
    for (const each of typedIn(this.text)) this.known.add(each);
  }

  /** All that was typed is in the story as it is saved, and the manuscript shows what the desk says. */
  check() {
    const { desk, it } = this;
    assert.equal(it.manuscript.text, desk.text);
    assert.equal(it.manuscript.head.node, desk.head.node);
    for (const letter of lettersIn(this.text))
      this.words.shownIn.set(letter, (this.words.shownIn.get(letter) ?? new Set()).add(this));
    const away = without(this.known, typedIn(this.text));
    const kept = new Story(desk.story.id);
    kept.merge(JSON.parse(JSON.stringify(desk.story.wire())));
    const texts = new Set([...kept.nodes.values()].flatMap(({ text }) => [...typedIn(text)]));
    assert.deepEqual(without(away, texts), [], "are nowhere");
    assert.equal(kept.text(desk.head.node, desk.head.at), desk.text);
  }
}

/**
 * Bring two windows the changes of each other: neither text changes, unless the other window has joined both, and each is told of
 * what the other has typed.
 */
function meet(one, two) {
  const texts = [one.text, two.text];
  const heads = [one.desk.head, two.desk.head];
  exchange(one.it, two.it);
  one.words.areTwice ||= heads.some((head, which) => head !== [one, two][which].desk.head); // what was shown was typed again
  const isJoined = texts.some((text, which) => text !== [one, two][which].text);
  if (isJoined) assert.equal(one.text, two.text);
  for (const [here, there] of [
    [one, two],
    [two, one],
  ]) {
    const lacking = without(there.fresh, typedIn(here.text));
    if (lacking.length) assert.ok(here.desk.rounds.elsewhere.words > 0, `nothing is said of ${lacking}`);
    there.fresh.clear();
  }
}

/** One window shows words that are being typed in the other, which takes some of them out again. */
async function lookOver(one, two, random) {
  const acts = [random.choice(["show", "reload"]), ...(random.chance(1, 2) ? ["back"] : [])];
  two.isActive();
  two.type();
  meet(one, two);
  one.isActive();
  for (const act of acts) await one[act]();
  await settled();
  two.isActive();
  two.amend();
  meet(one, two);
  return acts;
}

const ACTS = {
  ...{ type: 12, takeOut: 3, undo: 3, redo: 2, undoAndRedo: 2, pause: 2, go: 5, grow: 4, take: 6, takeAndUndo: 3 },
  ...{ amend: 2, answer: 3, gesture: 5, open: 1, back: 1, choose: 1, away: 1, lose: 1, join: 1, show: 1, reload: 1 },
};
const OFTEN = Object.entries(ACTS).flatMap(([name, times]) => Array(times).fill(name));

const WALKS = Number(process.env.WALKS ?? 40); // WALKS=300 for a long one

for (let seed = 1; seed <= WALKS; seed += 1) {
  test(`no typed character is lost without a word, walk ${seed}`, async () => {
    const random = new Random(seed);
    const words = new Words(random);
    const windows = [new Window(await makeDesk(), random, words)];
    windows[0].type();
    const acts = [];
    try {
      for (let step = 0; step < STEPS; step += 1) {
        const window = random.choice(windows);
        const act = random.choice(OFTEN);
        acts.push(`${windows.indexOf(window)}.${act}`);
        window.isActive();
        await window[act]();
        await settled();
        for (const each of windows) each.check();
        if (step === 20) {
          windows.push(new Window(await secondWindow(windows[0].it), random, words));
          windows[0].fresh.clear();
        } else if (windows.length === 2 && random.chance(1, 4)) {
          if (random.chance(1, 2)) meet(...windows);
          else acts.push(`lookOver ${await lookOver(...random.shuffled(windows), random)}`);
          for (const each of windows) each.check();
        }
      }
    } catch (error) {
      error.message += `\nafter ${acts.join(" ")}`;
      throw error;
    }
    for (const { desk } of windows) desk.rounds.leave();
  });
}
