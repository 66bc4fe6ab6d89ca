// A walk of three windows with one story: whoever edits, joins, is killed or has no network, in the end all have one text, and every
// word of everyone is somewhere. Each character is another one, so that all of a text is known by them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Story } from "../../../srb/page/story.js";
import { makeDesk } from "./fake_desk.js";
import { Random } from "./random.js";

const STEPS = 50;
const LETTER = /[\uac00-\ud7a3]/g;
const WALKS = Number(process.env.WALKS ?? 40);

/** A server that has all that was sent, and windows that send and hear. */
class Windows {
  constructor(random) {
    this.random = random;
    this.server = new Story("story");
    this.letter = 0xac00;
    this.clock = 1_800_000_000_000;
    this.takenOut = new Set(); // letters that somebody has typed and taken out again
    this.all = [];
  }

  async open() {
    const it = await makeDesk();
    this.show(it);
    this.all.push(it);
    return it;
  }

  /** Load the page with what the server has, and what this browser has kept. */
  show(it, kept = null) {
    const story = new Story("story", () => (this.clock += 1));
    story.merge(JSON.parse(JSON.stringify(this.server.wire())));
    if (kept) {
      story.merge(kept);
      story.putBack(kept);
    }
    it.desk.setStory(story);
    it.isAway = false;
  }

  words() {
    const letters = Array.from({ length: 1 + this.random.below(3) }, () => String.fromCharCode(this.letter++));
    return this.random.choice(["", " ", " ", "\n\n"]) + letters.join("");
  }

  edit(it) {
    const { text } = it.desk;
    const [from, to] = [this.random.below(text.length + 1), this.random.below(text.length + 1)].sort((a, b) => a - b);
    const end = this.random.chance(1, 2) || to - from > 8 ? from : to;
    it.manuscript.type(this.random.chance(1, 5) ? "" : this.words(), from, end);
    if (this.random.chance(1, 3)) it.desk.closeTyped();
  }

  /** Send what is new, and hear what the others have sent. */
  meet(it) {
    if (it.isAway) return;
    const mine = it.desk.story.takeChanges();
    if (mine) this.server.merge(JSON.parse(JSON.stringify(mine)));
    const news = it.desk.story.merge(JSON.parse(JSON.stringify(this.server.wire())));
    if (news.nodes.size + news.meta.size) it.desk.merged(news);
  }

  join(it, choices = ["mine", "theirs", "both"]) {
    const { elsewhere } = it.desk.rounds;
    elsewhere.join();
    while (elsewhere.question) elsewhere.answer(this.random.choice(choices));
    assert.equal(it.desk.text, it.manuscript.text);
  }

  undo(it) {
    it.desk.undo();
  }

  away(it) {
    it.isAway = !it.isAway;
  }

  /** The browser ends; what was not sent is in its outbox, and nodes that were open stay so. */
  kill(it) {
    if (this.random.chance(1, 2)) it.desk.story.closeAll();
    this.show(it, it.desk.story.takeChanges());
  }

  get isOne() {
    return this.all.every(({ desk }) => desk.text === this.all[0].desk.text && !desk.rounds.elsewhere.isApart);
  }
}

const ACTS = { edit: 8, meet: 8, join: 4, away: 2, kill: 1, undo: 2 };
const OFTEN = Object.entries(ACTS).flatMap(([name, times]) => Array(times).fill(name));

for (let seed = 1; seed <= WALKS; seed += 1) {
  test(`three windows end with one text, walk ${seed}`, async () => {
    const random = new Random(seed);
    const windows = new Windows(random);
    const [first] = [await windows.open()];
    first.manuscript.type("First words, and more.");
    first.desk.closeTyped();
    windows.meet(first);
    await windows.open();
    await windows.open();
    const acts = [];
    try {
      for (let step = 0; step < STEPS; step += 1) {
        const it = random.choice(windows.all);
        const act = random.choice(OFTEN);
        acts.push(`${windows.all.indexOf(it)}.${act}`);
        const before = it.desk.text;
        windows[act](it);
        if (!["edit", "undo"].includes(act)) continue;
        for (const letter of before.match(LETTER) ?? [])
          if (!it.desk.text.includes(letter)) windows.takenOut.add(letter);
      }
      for (const it of windows.all) {
        it.isAway = false;
        it.desk.closeTyped();
      }
      let rounds = 0;
      do {
        for (const it of windows.all) for (const each of [it, it]) windows.meet(each);
        for (const it of windows.all) {
          windows.join(it);
          for (const each of [...windows.all, ...windows.all]) windows.meet(each);
        }
        rounds += 1;
      } while (!windows.isOne && rounds < 6);
      assert.deepEqual(
        windows.all.map(({ desk }) => desk.text),
        Array(3).fill(first.desk.text),
      );
      assert.ok(windows.isOne);
    } catch (error) {
      error.message += `\nafter ${acts.join(" ")}`;
      throw error;
    }
    for (const { desk } of windows.all) {
      const texts = new Set([...desk.story.nodes.values()].flatMap(({ text }) => text.match(LETTER) ?? []));
      for (let code = 0xac00; code < windows.letter; code += 1) {
        const letter = String.fromCharCode(code);
        assert.ok(texts.has(letter) || windows.takenOut.has(letter), `${letter} is nowhere`);
      }
      desk.rounds.leave();
    }
  });
}
