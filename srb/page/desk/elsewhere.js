/** The text of the open story in another window or on another machine: what it has that the manuscript lacks, and how both become one. */

import { countWords } from "../keep/describe.js";
import { msg } from "../languages.js";
import { Characters, stretchesOf } from "../story/same.js";
import { joined } from "./gap.js";
import { move, wayTo } from "./moves.js";
import { forgetContinued } from "./seam.js";

/** @typedef {import("../story/types.js").Place} Place */

const KEPT = "srb.left"; // where this window was when its page was left: in another one the story may have gone on since

export class Elsewhere {
  /** @param {import("./rounds.js").Rounds} rounds */
  constructor(rounds) {
    this.rounds = rounds;
    this.desk = rounds.desk;
    /** @type {Place | null} where the story goes on elsewhere, as far as is known */
    this.place = null;
    this.isOwn = false; // whether these are the words of this window, as it was before a reload
  }

  /** A story was opened. */
  begin() {
    const { story, head } = this.desk;
    const left = takeLeft(story.id);
    const isOther = story.isPlace(left) && (left.node !== head.node || left.at !== head.at);
    this.place = isOther ? { node: left.node, at: left.at } : null;
    this.isOwn = isOther;
    if (isOther) this.desk.tell("elsewhere");
  }

  /** The page is left: after a reload this window knows its own words. */
  leave() {
    const { story, head } = this.desk;
    try {
      sessionStorage.setItem(KEPT, JSON.stringify({ story: story.id, ...head }));
    } catch {
      // full or switched off: the outline has the words
    }
  }

  /** @param {import("../story/types.js").News} news of another window */
  hear({ nodes, meta }) {
    const { story } = this.desk;
    if (nodes.size) forgetContinued();
    const head = meta.has("head") ? story.meta("head") : null;
    const place = story.isPlace(head) ? { ...head } : this.latest(nodes);
    if (place === null || (this.isOwn && this.words > 0)) return;
    this.place = place;
    this.isOwn = false;
    this.desk.tell("elsewhere");
  }

  /** The end of the text that a person has typed last in some nodes. @param {Set<string>} ids @returns {Place | null} */
  latest(ids) {
    const { story } = this.desk;
    let [time, place] = [0, /** @type {Place | null} */ (null)];
    for (const id of ids) {
      const node = story.nodes.get(id);
      if (node?.by !== "person" || (node.changed ?? node.made) < time) continue;
      [time, place] = [node.changed ?? node.made, { node: id, at: story.length(id) }];
    }
    return place;
  }

  /** How many words the manuscript lacks that the story has elsewhere; 0 if it has all. */
  get words() {
    const { place, desk } = this;
    if (place === null || !desk.story.isPlace(place)) return 0;
    const text = desk.story.text(place.node, place.at);
    return this.lacking(place).reduce((sum, { from, to }) => sum + countWords(text.slice(from, to)), 0);
  }

  /** The ranges of a place's text that the manuscript lacks. @param {Place} place */
  lacking({ node, at }) {
    const { head, story } = this.desk;
    return new Characters(story.nodes, story.pieces(head.node, head.at)).lackedBy(story.pieces(node, at));
  }

  /** Make the other text the manuscript. */
  show() {
    if (this.place) this.rounds.visit(this.place);
  }

  /** @param {number} words that the manuscript has got */
  sentenceOf(words) {
    if (this.isOwn)
      return words === 1 ? msg`The text has your 1 word again.` : msg`The text has your ${words} words again.`;
    return words === 1
      ? msg`The text has the 1 word of the other window.`
      : msg`The text has the ${words} words of the other window.`;
  }

  /** Put what the other text has more into the manuscript, each stretch behind the words that it follows there. */
  join() {
    const { desk, place, words } = this;
    const { story, head } = desk;
    if (place === null || words === 0) return;
    desk.closeTyped();
    const mine = story.pieces(head.node, head.at);
    const theirs = new Characters(story.nodes, story.pieces(place.node, place.at));
    const onlyMine = theirs.lackedBy(mine);
    const text = desk.text;
    let after = head;
    for (const { from, to } of this.lacking(place).reverse()) {
      let { at } = new Characters(story.nodes, story.pieces(place.node, from)).endIn(mine);
      for (const own of onlyMine) if (own.from === at) at = own.to;
      const stretches = stretchesOf(story, place, from, to);
      after = story.graft(after, at, at, joined(text.slice(0, at), stretches));
    }
    move(desk, after, "take");
    if (!this.rounds.shown) this.rounds.follow("take"); // cards that are shown stay, as when the words were typed here
    desk.notice(this.sentenceOf(words), "info", wayTo(desk, head));
  }
}

/** Return where this window was when its page was left, once. @param {string} story the open one's id @returns {any} */
function takeLeft(story) {
  try {
    const left = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    sessionStorage.removeItem(KEPT);
    return left?.story === story ? left : null;
  } catch {
    return null;
  }
}
