/** Places that words hold, and the lorebook's versions on them: walks over stories beside lists of characters that carry the places with them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { heldBefore, paragraphAt, placesIn } from "../../../srb/page/desk/held.js";
import { entryOf } from "../../../srb/page/lore/entries.js";
import { entriesAt, FROM, versionsOf } from "../../../srb/page/lore/versions.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { stretchesOf } from "../../../srb/page/story/same.js";
import { newId, Story } from "../../../srb/page/story.js";
import { Random } from "./random.js";

const TREES = 1000;
const STEPS = 24;
const WORDS = ["Mara ", "the lamp ", "fog. ", "\n\n", "\n", "a", "He came.\n\n", "## Nine\n\n", "🦊 ", " "];

/** A text as the oracle has it: its characters, which are objects, and of which text it was made. */
class Text {
  /** @param {(char: any, from: Text) => any} [carry]  from the character of a place in the text before to the one here */
  constructor(chars = [], from = null, carry = (char) => char, node = "") {
    Object.assign(this, { chars, from, carry, node });
  }

  get words() {
    return this.chars.map(({ unit }) => unit).join("");
  }

  /** The text with other characters in the place of some; without `isInside`, nothing follows them. */
  with(from, to, added, isInside) {
    const gone = new Set(this.chars.slice(from, isInside ? to : undefined));
    const behind = isInside ? this.chars.slice(to) : [];
    const carry = (char) => {
      if (!gone.has(char)) return char;
      if (!isInside) return null;
      return char === this.chars[from] && added.length ? added[0] : behind[0];
    };
    return new Text([...this.chars.slice(0, from), ...added, ...behind], this, carry);
  }

  /** Before which character a place stands that was put into a node's text; null if it was never here, or stayed behind. */
  charOf({ node, char }) {
    if (this.node === node) return this.chars.includes(char) ? char : null;
    const before = this.from?.charOf({ node, char }) ?? null;
    return before && this.carry(before);
  }

  /** Where places are: before their characters, or where nobody has carried them here, before the first of their words. */
  found(held) {
    const found = new Map();
    for (const [key, { version, char, chars }] of held) {
      const there = this.charOf({ node: version.node, char }) ?? this.chars.find((each) => chars.has(each));
      const at = there ? this.chars.indexOf(there) : -1;
      if (at >= 0) found.set(key, at);
    }
    return found;
  }
}

const charsOf = (words) => words.split("").map((unit) => ({ unit }));

class Walk {
  constructor(random, { isOpen }) {
    this.random = random;
    this.isOpen = isOpen; // nodes that are typed stay open between two steps, as in the page
    this.story = Story.create();
    this.head = { node: "", at: 0 };
    this.text = new Text();
    /** places whose texts no longer change, with the oracle's */
    this.fixed = [];
    /** by key, with the characters of the words */
    this.held = new Map();
    this.running = [];
  }

  /** An offset that is not inside of a character. */
  offset(least = 0, most = this.text.chars.length) {
    const at = least + this.random.below(most - least + 1);
    return /[\udc00-\udfff]/.test(this.text.chars[at]?.unit ?? "") ? at - 1 : at;
  }

  words() {
    return Array.from({ length: 1 + this.random.below(4) }, () => this.random.choice(WORDS)).join("");
  }

  step() {
    const acts = [
      "type",
      "type",
      "erase",
      "editInside",
      "branch",
      "grow",
      "elsewhere",
      "elsewhere",
      "hold",
      "hold",
      "move",
      "copy",
    ];
    this[this.random.choice(acts)]();
    if (!this.isOpen) this.story.closeAll();
    this.text.node = this.head.node;
    assert.equal(this.story.text(this.head.node, this.head.at), this.text.words);
  }

  edit(from, to, words) {
    const before = this.head.node;
    const isInside = to < this.text.chars.length;
    this.head = this.story.edit(this.head, from, to, words);
    const text = this.text.with(from, to, charsOf(words), isInside);
    const { node: id } = this.head;
    if (id !== before) this.typedOn = { id, text: this.text };
    this.text = id === before && id === this.typedOn?.id ? this.asOne(this.typedOn.text, text.chars) : text;
  }

  /** The text as one change of the one in which its open node was begun: so are words changed that are typed one after the other. */
  asOne(base, chars) {
    const { keep = 0, tail, text } = this.story.nodes.get(this.head.node);
    const to = tail ?? base.chars.length;
    const one = base.with(keep, to, chars.slice(keep, keep + text.length), to < base.chars.length);
    assert.deepEqual(one.chars, chars);
    return one;
  }

  type() {
    const end = this.text.chars.length;
    this.edit(end, end, this.words());
  }

  erase() {
    const end = this.text.chars.length;
    this.edit(this.offset(Math.max(0, end - 30)), end, this.random.chance(1, 2) ? this.words() : "");
  }

  editInside() {
    const [from, to] = [this.offset(), this.offset()].sort((a, b) => a - b);
    if (to < this.text.chars.length) this.edit(from, this.random.choice([from, to]), this.words());
  }

  /** Three cards go on from somewhere in the text: forks, of which one may be taken. */
  branch() {
    const base = this.story.settle(this.head);
    this.keep(base);
    const keep = this.offset();
    const run = newId();
    this.story.addRun({
      id: run,
      node: base.node,
      at: base.at,
      made: 1,
      model: "m",
      request_id: "r",
      seeds: [1],
      request: {},
    });
    const cards = [0, 1, 2].map((slot) => {
      const id = this.story.addModelNode({ parent: base.node, keep, slot, run });
      const card = { id, text: this.text.with(keep, keep, [], false) };
      card.text.node = id;
      this.grow(card);
      return card;
    });
    this.running.push(...cards);
    const { id, text } = this.random.choice(cards);
    [this.head, this.text] = [{ node: id, at: text.chars.length }, text];
  }

  grow(card = this.random.choice(this.running)) {
    if (!card) return;
    const words = this.words();
    this.story.grow(card.id, this.story.nodes.get(card.id).text + words);
    card.text = new Text([...card.text.chars, ...charsOf(words)], card.text, undefined, card.id);
  }

  /** Remember a text: no later act changes it. */
  keep(place = this.story.settle(this.head)) {
    this.fixed.push([place, this.text]);
  }

  elsewhere() {
    if (this.fixed.length === 0) return;
    this.keep();
    [this.head, this.text] = this.random.choice(this.fixed);
  }

  /** Hold a place at some paragraph. */
  hold() {
    const place = this.story.settle(this.head);
    const from = paragraphAt(this.text.words, this.offset());
    assert.equal(from === null, this.text.words.trim() === "");
    this.head = place;
    if (from === null) return;
    const held = heldBefore(this.story, place, from);
    const { words } = this.text;
    assert.ok(
      held.at === 0 || words.slice(words.lastIndexOf("\n", held.at - 1) + 1, held.at).trim() === "",
      "it begins a line",
    );
    assert.match(words.charAt(held.at), /\S/);
    const key = `${FROM}${newId()}`;
    const version = { ...held, entry: this.random.choice(["tom", "mara"]), text: key, made: this.held.size };
    this.story.setMeta(key, version);
    const length = held.on.reduce((sum, { from, to }) => sum + to - from, 0);
    const chars = new Set(this.text.chars.slice(held.at, held.at + length));
    this.held.set(key, { version, chars, char: this.text.chars[held.at] });
  }

  /** Move a stretch of the text, as a chapter is moved. */
  move() {
    const [from, to] = [this.offset(), this.offset()].sort((a, b) => a - b);
    if (from === to) return;
    const act = newId();
    const { story } = this;
    this.head = story.settle(this.head);
    this.keep();
    const moved = this.text.chars.slice(from, to);
    const stretches = stretchesOf(story, this.head, from, to).map((each) => ({ ...each, act }));
    const insert = this.random.choice(["", "\n\n"]);
    const without = story.graft(this.head, from, to, [{ text: insert, by: "person", act }]);
    const rest = this.text.with(from, to, charsOf(insert), to < this.text.chars.length);
    const at = this.random.choice([0, rest.chars.length, from + insert.length]);
    this.head = story.graft(without, at, at, stretches);
    const whole = rest.with(at, at, moved, true);
    const carry = (char) => (moved.includes(char) ? char : rest.carry(char));
    this.text = new Text(whole.chars, this.text, carry);
  }

  /** Put words of another text to the end of this one, as a card of another place is taken. */
  copy() {
    if (this.fixed.length === 0) return;
    const [place, other] = this.random.choice(this.fixed);
    const stretches = stretchesOf(this.story, place, 0, place.at).slice(-2);
    const length = stretches.reduce((sum, { text }) => sum + text.length, 0);
    if (length === 0 || length > 60) return;
    const end = this.text.chars.length;
    const added = other.chars.slice(other.chars.length - length);
    if (added.some((char) => this.text.chars.includes(char))) return;
    this.head = this.story.graft(this.story.settle(this.head), end, end, stretches);
    this.text = this.text.with(end, end, added, false);
  }
}

/** Compare what the story says of a text with what the oracle carried there. */
function check({ story, held }, place, text) {
  const versions = versionsOf(story);
  const places = placesIn(story, place, versions);
  const wanted = text.found(held);
  assert.deepEqual([...places.keys()].sort(), [...wanted.keys()].sort());
  for (const [key, at] of wanted) assert.equal(places.get(key), at);
  const entries = ["tom", "mara"].map((id) => ({ ...entryOf({ text: "from the beginning" }), id }));
  const read = entriesAt(story, entries, versions, place).entries.map(({ id, text: words }) => [id, words]);
  assert.deepEqual(
    read,
    entries.map(({ id }) => {
      const last = [...wanted]
        .filter(([key]) => held.get(key).version.entry === id)
        .sort(([one, a], [other, b]) => b - a || held.get(other).version.made - held.get(one).version.made)[0];
      return [id, last?.[0] ?? "from the beginning"];
    }),
  );
}

test("a place before blanks is held by the word behind them, in a text that has a copy of it as well", () => {
  const story = Story.create();
  const head = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "One.\n\nTwo words. Three."));
  const held = heldBefore(story, head, 4);
  assert.deepEqual([held.at, held.quote], [6, "Two words. Three."]);
  const other = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "Zero. "));
  const copy = story.graft(other, 6, 6, stretchesOf(story, head, 6, 16));
  const places = (place) => [...placesIn(story, place, new Map([["a", held]])).values()];
  assert.deepEqual([places(head), places(copy), places(other)], [[6], [6], []]);
});

test("a text that was joined with another one has the places of both, also where their words were rewritten before", () => {
  const story = Story.create();
  const base = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "One.\n\nTwo.\n\nThree."));
  const more = story.settle(story.edit(base, base.at, base.at, "\n\nFour five."));
  const held = new Map([["a", heldBefore(story, more, 20)]]);
  const theirs = story.settle(story.edit(more, base.at + 2, base.at + 11, "Vier fünf"));
  const act = newId();
  const added = stretchesOf(story, theirs, base.at, theirs.at).map((each) => ({ ...each, act }));
  const mine = story.settle(story.edit(base, 0, 0, "Zero. "));
  const joined = story.join(story.graft(mine, mine.at, mine.at, added), theirs, act);
  assert.equal(story.text(joined.node, joined.at), "Zero. One.\n\nTwo.\n\nThree.\n\nVier fünf.");
  assert.deepEqual([...placesIn(story, joined, held)], [["a", "Zero. One.\n\nTwo.\n\nThree.\n\n".length]]);
  assert.equal(placesIn(story, mine, held).size, 0);
});

test("a story that goes on in a new one has its places by their words", () => {
  const story = Story.create();
  const head = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "One.\n\nTwo words."));
  const held = new Map([["a", heldBefore(story, head, 6)]]);
  const next = Story.create();
  const place = next.edit({ node: "", at: 0 }, 0, 0, "New. One.\n\nTwo words.");
  assert.deepEqual([...placesIn(next, place, held)], [["a", 11]]);
});

test("later texts of two windows become one lorebook, and a file has both", () => {
  const story = Story.create();
  const head = story.settle(story.edit({ node: "", at: 0 }, 0, 0, "One.\n\nTwo."));
  const other = new Story(story.id);
  other.merge(story.wire());
  const later = (text, at) => ({ ...heldBefore(story, head, at), entry: "tom", text, made: 1 });
  story.setMeta(`${FROM}a`, later("scarred", 0));
  other.setMeta(`${FROM}b`, later("dead", 6));
  story.merge(other.wire());
  other.merge(story.wire());
  const tom = [{ ...entryOf({ text: "whole" }), id: "tom" }];
  for (const each of [story, other, storyOf(story.toJSON())]) {
    const read = (at) => entriesAt(each, tom, versionsOf(each), { node: head.node, at }).entries[0].text;
    assert.deepEqual([0, 1, 6, 7].map(read), ["whole", "scarred", "scarred", "dead"]);
  }
});

for (const isOpen of [false, true])
  test(`in ${TREES} trees no text reads a version of a later place, and each reads the last of its own${isOpen ? ", while words are typed" : ""}`, () => {
    let counts = { known: 0, unknown: 0 };
    for (let seed = 0; seed < TREES; seed += 1) {
      const walk = new Walk(new Random(seed + (isOpen ? TREES : 0)), { isOpen });
      try {
        for (let step = 0; step < STEPS; step += 1) walk.step();
        walk.keep();
        for (const [place, text] of walk.fixed) {
          check(walk, place, text);
          const { size } = text.found(walk.held);
          counts = { known: counts.known + size, unknown: counts.unknown + walk.held.size - size };
        }
        const again = storyOf(walk.story.toJSON());
        const [place, text] = walk.fixed.at(-1);
        check({ ...walk, story: again }, place, text);
      } catch (error) {
        error.message = `seed ${seed}: ${error.message}`;
        throw error;
      }
    }
    assert.ok(counts.known > TREES && counts.unknown > TREES, JSON.stringify(counts));
  });
