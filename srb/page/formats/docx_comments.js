/** Comments in a Word file: the marks around their words in the document, and the part of the archive that holds them. */
import { commentsOf, PREFIX, rangesOf } from "../desk/comments.js";
import { markersOf } from "../markers.js";
import { manuscriptOf } from "./chapters.js";
import { escaped, stamp } from "./xml.js";

/** @import {Comment} from "../desk/comments.js" */
/** @import {Story} from "./types.js" */

/** @typedef {{number: number, from: number, to: number, comment: Comment, changed: number}} Remark */

const WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
const LATEST = 8.64e15; // milliseconds that a Date can hold
const NOBODY = "Author"; // Word wants a name

/** The comments on words of the manuscript, on the way through its paragraphs from the beginning to the end. */
export class Remarks {
  /** @type {Remark[]} those of which the words have come, in their order */
  written = [];
  /** @type {Remark[]} those of them of which the words have not ended */
  #open = [];

  /** @param {Story} story */
  constructor(story) {
    this.text = manuscriptOf(story);
    const { times } = story.stampsOf(null);
    const comments = commentsOf(story);
    const markers = markersOf(this.text);
    const around = (/** @type {number} */ place) => markers.find(({ from, to }) => place > from && place < to);
    /** @type {Remark[]} those of which the words are still to come */
    this.coming = [...rangesOf(story, story.head, comments)]
      .flatMap(([id, range]) => {
        const comment = comments.get(id);
        if (!comment?.text.trim()) return [];
        const [from, to] = [around(range.from)?.from ?? range.from, around(range.to)?.to ?? range.to]; // a picture is one thing
        return [{ number: 0, from, to, comment, changed: times[PREFIX + id] ?? 0 }];
      })
      .sort((one, other) => one.from - other.from || one.to - other.to)
      .map((each, number) => ({ ...each, number }));
  }

  /** The places in a paragraph where words of a comment begin or end. @param {string} text @param {number} at */
  cutsIn(text, at) {
    const places = [...this.#open, ...this.coming].flatMap(({ from, to }) => [from - at, to - at]);
    return places.filter((place) => place > 0 && place < text.length);
  }

  /** The marks before words at a place. @param {number} at */
  before(at) {
    const ends = this.#endUntil(at);
    const begun = this.coming.filter(({ from }) => from <= at);
    this.coming = this.coming.slice(begun.length);
    const reached = begun.filter(({ to }) => to > at);
    this.#open.push(...reached);
    this.written.push(...reached);
    return ends + reached.map(({ number }) => `<w:commentRangeStart w:id="${number}"/>`).join("");
  }

  /** The marks behind a paragraph: a comment that ends between it and the next one ends with it. @param {number} end */
  behind(end) {
    const gap = /^\s*/.exec(this.text.slice(end))?.[0].length ?? 0;
    return this.#endUntil(end + gap);
  }

  /** @param {number} at */
  #endUntil(at) {
    const ended = this.#open.filter(({ to }) => to <= at);
    this.#open = this.#open.filter(({ to }) => to > at);
    return ended
      .map(({ number }) => `<w:commentRangeEnd w:id="${number}"/><w:r><w:commentReference w:id="${number}"/></w:r>`)
      .join("");
  }
}

/**
 * Return the part with the comments, "" without any.
 * @param {Remark[]} remarks
 * @param {string} author  of the story, who has written those that name none
 */
export function commentParts(remarks, author) {
  if (remarks.length === 0) return "";
  const each = remarks.map(({ number, comment, changed }) => {
    const by = comment.author || author || NOBODY;
    const initials = by
      .split(/\s+/u)
      .map((word) => [...word][0] ?? "")
      .join("");
    const paragraphs = comment.text
      .trim()
      .split("\n")
      .map((line) => `<w:p><w:r><w:t xml:space="preserve">${escaped(line)}</w:t></w:r></w:p>`);
    const date = changed > 0 && changed < LATEST ? ` w:date="${stamp(new Date(changed))}"` : "";
    const facts = `w:id="${number}" w:author="${escaped(by)}" w:initials="${escaped(initials)}"${date}`;
    return `<w:comment ${facts}>${paragraphs.join("")}</w:comment>`;
  });
  return `<w:comments xmlns:w="${WORD}">${each.join("")}</w:comments>`;
}
