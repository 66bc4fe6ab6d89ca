/** The manuscript's changes, followed into the story: typed words extend an open node, which a pause closes. */

/** @typedef {import("../story/types.js").Place} Place */
/**
 * @typedef {object} Edit
 * @property {{from: number, to: number, insert: string}[]} changes in offsets of the text before
 * @property {Place | null} target the place that the change leads to, if one was recorded
 * @property {() => string} doc the text after it
 */
/**
 * @typedef {HTMLElement & {
 *   load: (text: string, pieces: any[], head: Place) => void,
 *   apply: (change: {text: string, head: Place, pieces: any[], why: string, caret?: number}) => void,
 *   colour: (pieces: any[]) => void,
 *   insert: (text: string) => void, select: (from: number, to?: number, y?: "nearest" | "start") => void,
 *   record: (undo: () => void, redo: () => void) => void,
 *   text: string, undo: () => boolean, redo: () => boolean, caret: () => number, isInside: boolean, selection: {from: number, to: number}, extend: (extension: any) => void, rect: (at: number) => DOMRect | null,
 *   box: (from: number, to: number) => DOMRect | null, head: Place,
 * }} Manuscript
 */

const PAUSE = 2000; // ms without a typed key that close the node that is being typed

/** What a notice is about that names words which were at a place: it goes when undo leads there. @param {Place} place */
export const lossFrom = ({ node, at }) => `${node} ${at}`;

export class Typing {
  /** @param {import("../desk.js").Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.isPaused = false; // the desk itself changes the manuscript
    this.timer = 0;
  }

  /** @param {Edit} edit @returns {Place} the new head */
  edited({ changes, target, doc }) {
    const { desk } = this;
    const { story } = desk;
    const why = this.isPaused ? "move" : target ? "undo" : "type";
    if (target && story.isPlace(target) && story.text(target.node, target.at) === doc()) {
      desk.head = target;
    } else {
      desk.head = [...changes]
        .sort((a, b) => b.from - a.from)
        .reduce((place, { from, to, insert }) => story.edit(place, from, to, insert), desk.head);
      this.closeLater();
    }
    story.head = desk.head;
    desk.changed();
    if (why !== "move") {
      desk.tell("head", { why });
      if (why === "undo") desk.rounds?.follow("undo");
      if (why === "undo") desk.tell("withdrawn", { about: lossFrom(desk.head) });
      else desk.tell("nodes", { ids: new Set([desk.head.node]) });
    }
    return desk.head;
  }

  /** Keep the text that is shown, where another window types in the node that it is of. */
  hold() {
    const { desk } = this;
    const shown = desk.manuscript?.text ?? desk.text;
    const { node } = desk.head;
    if (desk.story.text(node).startsWith(shown)) return;
    desk.head = desk.story.asItWas(node, shown);
    if (desk.manuscript) desk.manuscript.head = desk.head;
  }

  closeLater() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.close(), PAUSE);
  }

  /** Close the node that is being typed. */
  close() {
    const { head, story } = this.desk;
    clearTimeout(this.timer);
    const node = story.nodes.get(head.node);
    if (!node?.open || node.by !== "person") return;
    story.close(node.id);
    this.desk.changed();
  }

  /** Let the head be a place whose text nobody changes any more; return it. */
  settle() {
    const { desk } = this;
    this.close();
    const place = desk.story.settle(desk.head);
    if (place.node !== desk.head.node) {
      desk.head = place;
      desk.story.head = place;
      if (desk.manuscript) desk.manuscript.head = place;
      desk.changed();
    }
    return desk.head;
  }
}
