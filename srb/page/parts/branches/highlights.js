// Highlights of branches' texts: the browser paints them over the text, without elements and without a change of the document.

/** Names that card.css has colours for: the kept part, a preview of it, a shared beginning, sentences that the manuscript has,
 * the first own word, words that the passage in whose place the card goes has not, those that a text beside it has not, and five steps of probability. */
export const NAMES = /** @type {const} */ ([
  "srb-kept",
  "srb-preview",
  "srb-shared",
  "srb-already",
  "srb-own",
  "srb-new",
  "srb-differs",
  "srb-step-1",
  "srb-step-2",
  "srb-step-3",
  "srb-step-4",
  "srb-step-5",
]);

/** @typedef {(typeof NAMES)[number]} Name */

export class Highlights {
  constructor() {
    /** @type {Map<string, Highlight>} */
    this._painted = new Map();
    /** Ranges by name and by their owner. @type {Map<string, Map<object, AbstractRange[]>>} */
    this._ranges = new Map(NAMES.map((name) => [name, new Map()]));
    if (!("highlights" in CSS)) return; // an older browser shows the text without them
    NAMES.forEach((name, place) => {
      const highlight = new Highlight();
      highlight.priority = NAMES.length - place;
      this._painted.set(name, highlight);
      CSS.highlights.set(name, highlight);
    });
  }

  /** Replace an owner's ranges. @param {Name} name @param {object} owner @param {(AbstractRange|null)[]} ranges */
  set(name, owner, ranges) {
    this.clear(owner, name);
    this.add(name, owner, ranges);
  }

  /** @param {Name} name @param {object} owner @param {(AbstractRange|null)[]} ranges */
  add(name, owner, ranges) {
    const owners = this._ranges.get(name);
    const painted = this._painted.get(name);
    const there = ranges.filter((range) => range !== null);
    if (!owners || !painted || !there.length) return;
    const known = owners.get(owner);
    if (known) known.push(...there);
    else owners.set(owner, [...there]);
    for (const range of there) painted.add(range);
  }

  /** Remove an owner's ranges, of one name or of all. @param {object} owner @param {Name} [name] */
  clear(owner, name) {
    for (const each of name ? [name] : NAMES) {
      const ranges = this._ranges.get(each)?.get(owner);
      if (!ranges) continue;
      for (const range of ranges) this._painted.get(each)?.delete(range);
      this._ranges.get(each)?.delete(owner);
    }
  }

  /** Remove everything: the pane is taken out of the page. */
  close() {
    for (const name of this._painted.keys()) CSS.highlights.delete(name);
  }
}
