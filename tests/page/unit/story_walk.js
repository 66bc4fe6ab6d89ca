/** A walk over a story beside plain strings: the strings say which text each place must have. */
import assert from "node:assert/strict";
import { Story } from "../../../srb/page/story.js";

const isLow = (text, at) => /[\udc00-\udfff]/.test(text.charAt(at));

/** An offset of a text, never inside a character. */
export function offsetIn(random, text) {
  const at = random.below(text.length + 1);
  return isLow(text, at) ? at - 1 : at;
}

export class Walk {
  constructor(random, { story = Story.create(), copies = [] } = {}) {
    this.random = random;
    this.story = story;
    this.copies = copies;
    this.head = { node: "", at: 0 };
    this.text = "";
    /** @type {[{node: string, at: number}, string][]} places whose texts can no longer change */
    this.fixed = [];
    this.running = [];
  }

  step() {
    const often = ["type", "type", "type", "type", "type", "type"];
    this[this.random.choice([...often, "editAnywhere", "branch", "grow", "grow", "goElsewhere", "close", "mark"])]();
    this.check();
  }

  close() {
    this.story.close(this.head.node);
  }

  edit(from, to, insert) {
    this.head = this.story.edit(this.head, from, to, insert);
    this.text = this.text.slice(0, from) + insert + this.text.slice(to);
  }

  type() {
    const end = this.text.length;
    if (this.random.chance(1, 4) && end > 0) this.edit(isLow(this.text, end - 1) ? end - 2 : end - 1, end, "");
    else this.edit(end, end, this.random.words(4));
  }

  editAnywhere() {
    const [from, to] = [offsetIn(this.random, this.text), offsetIn(this.random, this.text)].sort((a, b) => a - b);
    this.edit(from, this.random.choice([from, to]), this.random.words(5));
    if (this.random.chance(1, 2) && this.text.length > 0) {
      const again = offsetIn(this.random, this.text);
      this.edit(again, again, this.random.words(3));
    }
  }

  /** Begin a round at the head, and take a part of one of its branches. */
  branch() {
    const base = this.story.settle(this.head);
    const keep = this.text.trimEnd().length;
    this.story.addRun({
      id: `run${this.story.runs.size}${this.story.id.slice(0, 4)}`,
      node: base.node,
      at: base.at,
      made: 1,
      model: "m",
      request_id: "r",
      seeds: [1],
      request: {},
    });
    const ids = [0, 1, 2].map((slot) => this.story.addModelNode({ parent: base.node, keep, slot, run: "run0" }));
    const branches = ids.map((id) => ({ id, text: this.text.slice(0, keep) }));
    for (const branch of branches) {
      this.running.push(branch);
      this.grow(branch);
    }
    const { id, text } = this.random.choice(branches);
    const at = Math.max(keep, offsetIn(this.random, text));
    this.fixed.push([{ ...base }, this.text], [{ node: id, at }, text.slice(0, at)]);
    this.head = { node: id, at };
    this.text = text.slice(0, at);
  }

  grow(branch = this.random.choice(this.running)) {
    if (branch === undefined) return;
    const more = this.random.words(20);
    this.story.grow(branch.id, this.story.nodes.get(branch.id).text + more);
    branch.text += more;
    assert.equal(this.story.text(branch.id), branch.text);
    if (!this.random.chance(1, 6)) return;
    this.story.end(branch.id, { reason: "eos" }, -1);
    this.running.splice(this.running.indexOf(branch), 1);
    this.fixed.push([{ node: branch.id, at: branch.text.length }, branch.text]);
  }

  goElsewhere() {
    if (this.fixed.length === 0) return;
    this.story.close(this.head.node);
    this.fixed.push([{ ...this.head }, this.text]);
    [this.head, this.text] = this.random.choice(this.fixed);
  }

  mark() {
    this.story.head = this.head;
    if (this.head.node !== "")
      this.story.setMark(this.head.node, this.random.choice(["star", "name", "seen"]), this.random.words(3));
  }

  check() {
    const { head, text, story } = this;
    assert.equal(head.at, text.length);
    assert.equal(story.text(head.node, head.at), text);
    const pieces = story.pieces(head.node, head.at);
    let end = 0;
    for (const { from, to, node, by } of pieces) {
      assert.equal(from, end);
      assert.ok(to > from);
      assert.equal(by, story.nodes.get(node).by);
      end = to;
    }
    assert.equal(end, text.length);
  }

  /** Check all places of which the text can no longer change. */
  checkAll(story = this.story) {
    for (const [place, text] of this.fixed) assert.equal(story.text(place.node, place.at), text);
  }
}
