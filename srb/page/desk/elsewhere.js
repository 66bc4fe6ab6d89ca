/** The text of the open story in another window or on another machine: what it has that the manuscript lacks, and how both become one. */

import { countWords } from "../keep/describe.js";
import { msg } from "../languages.js";
import { isGlued, isMadeFrom, pastOf, segmentsOf } from "../story/join.js";
import { Characters, stretchesOf } from "../story/same.js";
import { newId } from "../story.js";
import { move, wayTo } from "./moves.js";
import { forgetContinued } from "./seam.js";

/** @typedef {import("../story/types.js").Place} Place */
/** @typedef {import("../story/types.js").Stretch} Stretch */
/** @typedef {"mine" | "theirs" | "both"} Choice */

const KEPT = "srb.left"; // where this window was when its page was left: in another one the story may have gone on since

export class Elsewhere {
  /** @param {import("./rounds.js").Rounds} rounds */
  constructor(rounds) {
    this.rounds = rounds;
    this.desk = rounds.desk;
    /** @type {Place | null} where the story goes on elsewhere, as far as is known */
    this.place = null;
    this.isOwn = false; // whether these are the words of this window, as it was before a reload
    this.who = ""; // the name of the other person who has written them; "" if that is not known
    /** @type {{head?: Place, place?: Place, text?: string, there?: string, words: number, isApart: boolean}} what is said of two texts */
    this.known = { words: 0, isApart: false };
    /** @type {{mine: string, theirs: string} | null} two changes at one place, of which a person is asked which one stays */
    this.question = null;
    /** @type {Map<string, Choice>} what was answered, by both texts */
    this.answers = new Map();
  }

  /** A story was opened. */
  begin() {
    const { story, head } = this.desk;
    const left = takeLeft(story.id);
    const isOther = story.isPlace(left) && (left.node !== head.node || left.at !== head.at);
    this.forget();
    this.place = isOther ? { node: left.node, at: left.at } : null;
    this.isOwn = isOther;
    if (isOther) this.desk.tell("elsewhere");
  }

  forget() {
    this.question = null;
    this.answers.clear();
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
    const { story, head } = this.desk;
    if (nodes.size) forgetContinued();
    const said = meta.has("head") ? /** @type {any} */ (story.meta("head")) : null;
    const isHead = story.isPlace(said);
    const place = isHead ? { node: said.node, at: said.at } : this.latest(nodes);
    if (place === null || (this.isOwn && this.words > 0)) return;
    if (isHead && isJoinedFrom(story, place, head)) return this.follow(place);
    if (this.isApart && !this.isApartFrom(place)) return; // a third window may be behind
    this.place = place;
    this.isOwn = false;
    this.who = said?.who && said.who !== story.person ? said.who : "";
    this.forget();
    this.desk.tell("elsewhere");
  }

  /** Another window has joined this one's text with its own: this window goes on in the same text. @param {Place} place */
  follow(place) {
    const { desk } = this;
    const { head } = desk;
    this.go(place, msg`The texts of two windows were joined in the other one.`, head);
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

  /**
   * Whether the story goes on elsewhere in another text, of which the manuscript was not made; or, after a reload, whether this
   * window had another text.
   * @param {Place} place
   */
  isApartFrom(place) {
    const { story, text } = this.desk;
    return story.isPlace(place) && story.text(place.node, place.at) !== text && (this.isOwn || !this.hasAll(place));
  }

  /** Whether the manuscript was made from all of another text. @param {Place} place */
  hasAll(place) {
    return isMadeFrom(this.desk.story.nodes, this.desk.head, place);
  }

  /** What is to be said of the other text. */
  get state() {
    const { place, desk } = this;
    if (place === null || !desk.story.isPlace(place)) return { words: 0, isApart: false };
    const { head, story, text } = desk;
    const there = story.text(place.node, place.at);
    const known = this.known;
    if (known.head !== head || known.place !== place || known.text !== text || known.there !== there) {
      const isApart = this.isApartFrom(place);
      const lacking = isApart ? this.lacking(place) : [];
      const words = lacking.reduce((sum, { from, to }) => sum + countWords(there.slice(from, to)), 0);
      this.known = { head, place, text, there, words, isApart };
    }
    return this.known;
  }

  /** How many words the manuscript lacks that the story has elsewhere; 0 if it has all. */
  get words() {
    return this.state.words;
  }

  get isApart() {
    return this.state.isApart;
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
    if (words === 0) return msg`The text has the changes of the other window.`;
    if (this.isOwn)
      return words === 1 ? msg`The text has your 1 word again.` : msg`The text has your ${words} words again.`;
    return words === 1
      ? msg`The text has the 1 word of the other window.`
      : msg`The text has the ${words} words of the other window.`;
  }

  /** Answer the question which of two changes stays. @param {Choice} choice */
  answer(choice) {
    if (this.question) this.answers.set(keyOf(this.question), choice);
    this.join();
  }

  /** Make the manuscript and the other text one; ask first which of two changes at one place stays. */
  join() {
    const { desk, words } = this;
    if (this.place === null || !this.isApart || this.hasAll(this.place)) {
      this.place = null;
      this.forget();
      return desk.tell("elsewhere");
    }
    desk.closeTyped();
    const { story, head, text } = desk;
    const place = story.settle(this.place); // another window may be typing there
    if (isMadeFrom(story.nodes, place, head)) return this.go(place, this.sentenceOf(words), head);
    const segments = segmentsOf(story, head, place);
    const other = story.text(place.node, place.at);
    const asked = segments.find(
      (each) => each.kept === "conflict" && !this.answers.has(keyOf(textsOf(each, text, other))),
    );
    this.question = asked ? textsOf(asked, text, other) : null;
    if (asked) {
      desk.manuscript?.select(asked.mine.from, asked.mine.to);
      return desk.tell("elsewhere");
    }
    const joined = this.joinedTo(segments, place);
    const said = this.sentenceOf(words);
    this.place = place;
    this.isOwn = false;
    this.go(joined, said, head);
  }

  /**
   * Write the joined text into the story, and return its place.
   * @param {import("../story/join.js").Segment[]} segments @param {Place} place of the other text @returns {Place}
   */
  joinedTo(segments, place) {
    const { story, head, text } = this.desk;
    const other = story.text(place.node, place.at);
    const act = newId();
    let after = head;
    for (const segment of [...segments].reverse()) {
      const { mine, theirs, isMineFirst } = segment;
      const isAsked = segment.kept === "conflict";
      const kept = isAsked ? this.answers.get(keyOf(textsOf(segment, text, other))) : segment.kept;
      const brought = () => stretchesOf(story, place, theirs.from, theirs.to);
      const put = (/** @type {number} */ from, /** @type {number} */ to, /** @type {Stretch[]} */ stretches) => {
        after = story.graft(
          after,
          from,
          to,
          stretches.map((each) => ({ ...each, act })),
        );
      };
      const [first, last] = isMineFirst ? [text, other] : [other, text];
      const [before, behind] = isMineFirst ? [mine, theirs] : [theirs, mine];
      const needsSpace = isGlued(first.slice(before.from, before.to), last.slice(behind.from, behind.to));
      const space = needsSpace ? [{ text: " ", by: /** @type {const} */ ("person") }] : [];
      if (kept === "theirs") put(mine.from, mine.to, brought());
      else if (kept === "neither") put(mine.from, mine.to, []);
      else if (kept === "both" && isMineFirst) put(mine.to, mine.to, [...space, ...brought()]);
      else if (kept === "both") put(mine.from, mine.from, [...brought(), ...space]);
    }
    return story.join(after, place, act);
  }

  /** Let the manuscript be a text that has both. @param {Place} place @param {string} said @param {Place} head before */
  go(place, said, head) {
    const { desk } = this;
    const caret = desk.manuscript?.caret();
    const to = caret === undefined ? undefined : this.moved(caret, place);
    this.forget();
    const loss = move(desk, place, "take", to);
    if (!this.rounds.shown) this.rounds.follow("take"); // cards that are shown stay, as when the words were typed here
    desk.tell("elsewhere");
    if (!loss) desk.notice(said, "info", wayTo(desk, head, caret));
  }

  /** Where a place of the manuscript is in another text. @param {number} at @param {Place} place */
  moved(at, { node, at: end }) {
    const { head, story } = this.desk;
    const before = new Characters(story.nodes, story.pieces(head.node, Math.min(at, head.at)));
    return before.endIn(story.pieces(node, end)).at;
  }
}

/** Both texts of a conflict. @param {import("../story/join.js").Segment} segment @param {string} mine @param {string} theirs */
const textsOf = (segment, mine, theirs) => ({
  mine: mine.slice(segment.mine.from, segment.mine.to),
  theirs: theirs.slice(segment.theirs.from, segment.theirs.to),
});

/** @param {{mine: string, theirs: string}} texts */
const keyOf = ({ mine, theirs }) => JSON.stringify([mine, theirs]);

/**
 * Whether a text was made by joining another one with what was written elsewhere.
 * @param {import("../story.js").Story} story @param {Place} place @param {Place} other
 */
function isJoinedFrom({ nodes }, place, other) {
  if (!isMadeFrom(nodes, place, other) || isMadeFrom(nodes, other, place)) return false;
  const past = pastOf(nodes, other);
  return [...pastOf(nodes, place).keys()].some((id) => !past.has(id) && nodes.get(id)?.joined !== undefined);
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
