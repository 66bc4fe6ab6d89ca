// A walk over the desk: whatever a person does, in whatever order, each word that was typed is in the manuscript, or the story has it
// and a notice has said so.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/web/page/api.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";
import { exchange, secondWindow } from "./two_desks.js";

const STEPS = 60;
const WORD = /w\d+\./g;

/** One window, and what a person has typed in it and not taken out again. */
class Window {
  constructor(it, random, words) {
    this.it = it;
    this.random = random;
    this.words = words; // counts all words that were typed anywhere
    this.typed = new Set();
  }

  get desk() {
    return this.it.desk;
  }

  shown() {
    return new Set(this.desk.text.match(WORD));
  }

  /** Do what is the person's own: words that go by it are not lost. */
  own(act) {
    const before = this.shown();
    act();
    const after = this.shown();
    for (const word of before) if (!after.has(word)) this.typed.delete(word);
    for (const word of after) this.typed.add(word);
  }

  /** Do what is the desk's: the words that go by it are in the story, and are told of. */
  async desks(what, act) {
    const before = this.shown();
    const said = this.desk.said.length;
    act(); // it may last as long as its stream
    await settled();
    await settled();
    const after = this.shown();
    const lost = [...before].filter((word) => this.typed.has(word) && !after.has(word));
    const notices = this.desk.said.slice(said).filter(({ text }) => text.includes("not in this text"));
    if (lost.length === 0) return;
    assert.equal(notices.length, 1, `${what} took ${lost} out of the text and said nothing`);
    const [{ text, action }] = notices;
    assert.ok(text.includes("…") || text.includes("more word") || lost.every((word) => text.includes(word)), text);
    assert.ok(action, "a way back");
  }

  place() {
    const spaces = [...this.desk.text.matchAll(/ /g)].map(({ index }) => index);
    return this.random.choice([...spaces, this.desk.text.length]);
  }

  // ---- Acts

  type() {
    const at = this.random.chance(2, 3) ? this.desk.text.length : this.place();
    this.words.count += 1;
    this.own(() => this.it.manuscript.type(` w${this.words.count}.`, at));
  }

  takeOut() {
    const [from, to] = [this.place(), this.place()].sort((a, b) => a - b);
    if (to - from < 40) this.own(() => this.it.manuscript.type("", from, to));
  }

  undo() {
    this.own(() => this.desk.undo());
  }

  redo() {
    this.own(() => this.desk.redo());
  }

  pause() {
    this.desk.closeTyped();
  }

  async go() {
    if (this.it.api.refusal) this.desk.go({ n: 3 });
    else await round(this.it, " the fox ran", ", it slept", " far away");
  }

  async grow() {
    const { api, desk } = this.it;
    if (desk.isRunning && api.last.isOpen) api.last.send({ event: "stream", index: this.random.below(3), text: " on" });
  }

  async take() {
    const slots = this.desk.round?.slots ?? [];
    if (!slots.length) return;
    const { number, text } = this.random.choice(slots);
    const at = this.random.chance(1, 3) ? this.random.below(text.length + 1) : null;
    const typed = this.random.choice(["after", "instead"]);
    const isKept = typed === "after" || !this.desk.seam?.typed;
    const before = [...this.shown()].filter((word) => this.typed.has(word));
    await this.desks("a take", () => this.desk.take(number, { at, go: false, typed }));
    if (isKept)
      assert.deepEqual(
        [...this.shown()].filter((word) => before.includes(word)),
        before,
      );
  }

  /** Press what the last notice offers. */
  async answer() {
    const { action } = this.desk.said.at(-1) ?? {};
    if (action && action.label !== "Try again") await this.desks(action.label, action.run);
  }

  async gesture() {
    const slots = this.desk.round?.slots ?? [];
    if (!slots.length) return;
    const { number } = this.random.choice(slots);
    const name = this.random.choice(["prune", "vary", "extend", "refill", "more", "sort", "fold"]);
    const vain = name === "extend" && !this.desk.round.canExtend(this.desk.round.slots[number]);
    if (!vain)
      await this.desks(name, () =>
        this.desk[name]?.(...(["refill", "sort", "fold"].includes(name) ? [] : name === "more" ? [1] : [number])),
      );
  }

  async open() {
    this.desk.rounds.save();
    const ids = [...this.desk.story.nodes.keys()];
    if (!ids.length) return;
    const id = this.random.choice(ids);
    await this.desks("opening", () => this.desk.openNode(id));
  }

  async back() {
    await this.desks("going back", () => this.desk.goBack());
  }

  async choose() {
    const at = this.place();
    await this.desks("another word", () => this.desk.choose(null, at, " rival"));
  }

  async away() {
    this.it.api.refusal = this.it.api.refusal ? null : new ApiError("The server cannot be reached.", 0, "unreachable");
  }

  async join() {
    await this.desks("joining", () => this.desk.rounds.elsewhere.join());
  }

  async show() {
    await this.desks("showing", () => this.desk.rounds.elsewhere.show());
  }

  /** Every word that was typed and not taken out by the person is in the story, and the manuscript is what the desk says. */
  check() {
    const { desk, it } = this;
    assert.equal(it.manuscript.text, desk.text);
    const shown = this.shown();
    const away = [...this.typed].filter((word) => !shown.has(word));
    const texts = away.length ? [...desk.story.nodes.keys()].map((id) => desk.story.text(id)) : [];
    for (const word of away)
      assert.ok(
        texts.some((text) => text.includes(word)),
        `${word} is nowhere`,
      );
  }
}

const ACTS = {
  ...{ type: 12, takeOut: 3, undo: 4, redo: 2, pause: 2, go: 5, grow: 3, take: 8, answer: 3, gesture: 4 },
  ...{ open: 1, back: 1, choose: 1, away: 1, join: 1, show: 1 },
};
const OFTEN = Object.entries(ACTS).flatMap(([name, times]) => Array(times).fill(name));

for (let seed = 1; seed <= 40; seed += 1) {
  test(`no typed word is lost without a word, walk ${seed}`, async () => {
    const random = new Random(seed);
    const words = { count: 0 };
    const one = new Window(await makeDesk(), random, words);
    one.type();
    const windows = [one];
    const acts = [];
    try {
      for (let step = 0; step < STEPS; step += 1) {
        const window = random.choice(windows);
        const act = random.choice(OFTEN);
        acts.push(`${windows.indexOf(window)}.${act}`);
        await window[act]();
        await settled();
        for (const each of windows) each.check();
        if (step === 20) {
          windows.push(new Window(await secondWindow(one.it), random, words));
          windows[1].own(() => {});
        } else if (windows.length === 2 && random.chance(1, 4)) exchange(windows[0].it, windows[1].it);
      }
    } catch (error) {
      error.message += `\nafter ${acts.join(" ")}`;
      throw error;
    }
    for (const { desk } of windows) desk.rounds.leave();
  });
}
