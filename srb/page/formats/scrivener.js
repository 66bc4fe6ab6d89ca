/** Projects of Scrivener (a .scriv folder, or a zip of one): the binder's draft, its folders as chapters, synopses as notes. */
import { msg, NUMBER } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { quoted, titleOf } from "./file.js";
import { child, childrenOf, elements, lineOf, xmlTree } from "./markup.js";
import { Prose } from "./prose.js";
import { asLetters, Reader } from "./rtf.js";
import { BINDER } from "./signs.js";

/** @import {Element} from "./markup.js" */
/** @import {Draft, Opened} from "./types.js" */

const WANTED = /\.(scrivx|rtf|txt)$/;
const LONGEST_NOTE = 10_000; // characters of a synopsis

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file));
  const project = [...files.keys()].find((file) => BINDER.test(file)) ?? "";
  const folder = project.slice(0, project.lastIndexOf("/") + 1);
  const { root } = xmlTree(textOfFile(files, project, name));
  const draft = elements(
    root,
    (each) => each.name === "BinderItem" && each.attributes.get("Type") === "DraftFolder",
  )[0];
  if (draft === undefined) throw new StoryError(msg`${quoted(name)} is a project of Scrivener without a draft.`);
  const prose = new Prose();
  let unread = 0;
  let notes = 0;
  /** Documents in the order of the binder, with how deep they are. @type {{item: Element, depth: number}[]} */
  const waiting = childItems(draft)
    .map((item) => ({ item, depth: 0 }))
    .reverse();
  let isFirst = true; // in its chapter
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { item, depth } = next;
    const children = childItems(item);
    waiting.push(...children.map((each) => ({ item: each, depth: depth + 1 })).reverse());
    const id = item.attributes.get("UUID") ?? item.attributes.get("ID") ?? "";
    const at = (/** @type {string} */ file, /** @type {string} */ old) =>
      [`${folder}Files/Data/${id}/${file}`, `${folder}Files/Docs/${id}${old}`].find((each) => files.has(each));
    const [text, synopsis] = [at("content.rtf", ".rtf"), at("synopsis.txt", "_synopsis.txt")];
    notes += Number(at("notes.rtf", "_notes.rtf") !== undefined);
    const isChapter = depth === 0 || children.length > 0;
    const note = synopsis ? textOfFile(files, synopsis, name).trim().slice(0, LONGEST_NOTE) : "";
    if (isChapter || note !== "")
      prose.begin({ name: isChapter ? lineOf(child(item, "Title")).slice(0, 200) : "", note });
    if (isChapter) isFirst = true;
    else if (!isFirst) prose.break();
    if (text === undefined) continue;
    isFirst = false;
    const reader = new Reader(prose);
    try {
      reader.read(asLetters(/** @type {Uint8Array} */ (files.get(text))));
    } catch (error) {
      if (!(error instanceof StoryError) || prose.isFull) throw error;
      unread += 1;
    }
    prose.end();
    reader.count();
  }
  const made = prose.draft({ title: titleOf(folder.replace(/\/$/, "") || name) });
  if (unread > 0) made.remarks.push(msg`Texts of the project (${NUMBER.format(unread)}) could not be read.`);
  if (notes > 0) made.remarks.push(msg`Notes of documents (${NUMBER.format(notes)}) were left out; synopses came.`);
  return [made];
}

/** @param {Element} item */
const childItems = (item) => childrenOf(child(item, "Children")).filter(({ name }) => name === "BinderItem");
