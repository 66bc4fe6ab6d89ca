/**
 * Folders of Markdown (Longform, Obsidian), and projects of novelWriter, as a zip or as a folder that is dropped: a chapter each. Their order is
 * the project's, else that of front matter (`order`), else that of the names.
 */
import { msg, NUMBER } from "../languages.js";
import { StoryError } from "../story/read.js";
import { textOfFile, unpacked } from "./archive.js";
import { textOf, titleOf } from "./file.js";
import { child, elements, lineOf, xmlTree } from "./markup.js";
import { SegmentTree } from "./segments.js";
import { MARKDOWN, NOVEL } from "./signs.js";
import { withoutFrontMatter } from "./text.js";

/** @import {Draft, Opened} from "./types.js" */
/** @typedef {{name: string, text: string}} Chapter  `name`: "" where the text begins with a heading */

const WANTED = /\.(md|markdown|nwd|nwx)$/i;
const HIDDEN = /(^|\/)[._]/; // folders of programs
const LISTED = /^[ \t]*(?:-[ \t]+)+(.*\S)[ \t]*$/gm;
const COLLATOR = new Intl.Collator("en", { numeric: true });

/** @param {Opened} opened @returns {Draft[]} */
export function read({ bytes, name }) {
  const files = unpacked(bytes, name, (file) => WANTED.test(file) && !HIDDEN.test(file));
  const novel = [...files.keys()].find((file) => NOVEL.test(file));
  const { title, chapters, remarks } = novel ? ofNovelWriter(files, novel, name) : ofMarkdown(files, name);
  const tree = new SegmentTree();
  for (const { name: chapter, text } of chapters) {
    const words = text.trim();
    if (words === "") continue;
    const key = tree.size;
    const marks = chapter === "" ? undefined : { name: chapter };
    tree.add(key, {
      parent: key === 0 ? null : key - 1,
      text: key === 0 ? words : `\n\n${words}`,
      by: "person",
      marks,
    });
  }
  if (tree.size === 0) throw new StoryError(msg`The file holds no text.`);
  const draft = tree.draft({ title: title || titleOf(name) });
  return [{ ...draft, remarks: [...draft.remarks, ...remarks] }];
}

/** @param {Map<string, Uint8Array>} files @param {string} archive */
function ofMarkdown(files, archive) {
  const pages = [...files.keys()]
    .filter((path) => MARKDOWN.test(path))
    .map((path) => ({
      path,
      ...withoutFrontMatter(textOf(textOfFile(files, path, archive), path)),
      all: textOfFile(files, path, archive),
    }));
  const index = pages.find(({ all }) => /^longform:/m.test(/^---\n([\s\S]*?)\n---/.exec(all)?.[1] ?? ""));
  const stem = (/** @type {string} */ path) => titleOf(path);
  const scenes = index
    ? [...(/^ {2}scenes:[ \t]*\n((?:[ \t]+.*\n?)*)/m.exec(index.all)?.[1] ?? "").matchAll(LISTED)].map(
        ([, each = ""]) => each.replace(/^["'](.*)["']$/, "$1"),
      )
    : [];
  const placeOf = (/** @type {typeof pages[number]} */ { path, facts }) => {
    const listed = scenes.indexOf(stem(path));
    return listed >= 0 ? listed : Number(facts.order ?? facts.weight ?? Number.NaN);
  };
  const used = pages
    .filter((page) => page !== index && (scenes.length === 0 || scenes.includes(stem(page.path))))
    .sort((one, other) => {
      const [a, b] = [placeOf(one), placeOf(other)];
      if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
      return (Number.isNaN(a) ? 0 : a - b) || COLLATOR.compare(one.path, other.path);
    });
  const chapters = used.map(({ path, facts, words }) => ({
    name: /^\s*#{1,2} /.test(words) ? "" : (facts.title || stem(path)).slice(0, 200),
    text: words,
  }));
  const left = pages.length - used.length - Number(index !== undefined);
  const remarks = left > 0 ? [msg`Files that the project does not list (${NUMBER.format(left)}) were left out.`] : [];
  return { title: /^ {2}title:[ \t]*(.*\S)/m.exec(index?.all ?? "")?.[1] ?? "", chapters, remarks };
}

/** @param {Map<string, Uint8Array>} files @param {string} project @param {string} archive */
function ofNovelWriter(files, project, archive) {
  const folder = project.slice(0, project.lastIndexOf("/") + 1);
  const { root } = xmlTree(textOfFile(files, project, archive));
  const items = elements(root, ({ name }) => name === "item").map((item) => ({
    handle: item.attributes.get("handle") ?? "",
    parent: item.attributes.get("parent") ?? "",
    order: Number(item.attributes.get("order") ?? 0),
    isNovel: item.attributes.get("class") === "NOVEL",
    isNote: item.attributes.get("layout") === "NOTE",
  }));
  /** @type {Chapter[]} */
  const chapters = [];
  let notes = 0;
  const below = new Map();
  for (const item of items.sort((one, other) => one.order - other.order))
    below.set(item.parent, [...(below.get(item.parent) ?? []), item]);
  const waiting = [...(below.get("None") ?? [])].reverse();
  const seen = new Set();
  for (let item = waiting.pop(); item; item = waiting.pop()) {
    if (seen.has(item.handle)) continue; // a file that says it is within itself
    seen.add(item.handle);
    waiting.push(...[...(below.get(item.handle) ?? [])].reverse());
    const path = `${folder}content/${item.handle}.nwd`;
    if (!files.has(path)) continue;
    if (!item.isNovel || item.isNote) notes += 1;
    else chapters.push({ name: "", text: storyIn(textOf(textOfFile(files, path, archive), path)) });
  }
  const title = lineOf(child(elements(root, ({ name }) => name === "project")[0], "name"));
  return {
    title,
    chapters,
    remarks: notes > 0 ? [msg`Notes of the project (${NUMBER.format(notes)}) were left out.`] : [],
  };
}

/** A text of novelWriter without its tags, comments and signs of pages; scenes (`###`) begin with a break. @param {string} text */
function storyIn(text) {
  const lines = text.split("\n").filter((line) => !/^(%|@\w+:|\[(newpage|new page|vspace)[^\]]*\])/i.test(line));
  return lines
    .map((line) => line.replace(/^(#{1,4})! /, "$1 ").replace(/^#{3,4} .*$/, "***"))
    .join("\n")
    .replace(/^\s*\*\*\*\s*/, "");
}
