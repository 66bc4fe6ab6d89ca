/** Folders that are dropped or chosen, as archives, which importers know: a project of Scrivener, chapters in Markdown. */
import { msg, NUMBER } from "../languages.js";
import { StoryError } from "../story/read.js";
import { zipSync } from "../vendor/zip.js";
import { MAX_BYTES, quoted } from "./file.js";

const MOST_FILES = 20_000;
const WANTED = /\.(scrivx|rtf|txt|md|markdown|nwd|nwx)$/i; // all others stay unread

/** The files of a folder that was dropped, with their paths. @param {FileSystemEntry} root @returns {Promise<{path: string, file: File}[]>} */
export async function filesOf(root) {
  const found = [];
  const waiting = [root];
  for (let entry = waiting.pop(); entry; entry = waiting.pop()) {
    if (found.length + waiting.length > MOST_FILES)
      throw new StoryError(msg`${quoted(root.name)} holds more than ${NUMBER.format(MOST_FILES)} files.`);
    if (entry.isDirectory) waiting.push(...(await entriesOf(/** @type {FileSystemDirectoryEntry} */ (entry))));
    else if (WANTED.test(entry.name)) {
      const file = await new Promise((resolve, reject) =>
        /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject),
      );
      found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    }
  }
  return found;
}

/** @param {FileSystemDirectoryEntry} folder @returns {Promise<FileSystemEntry[]>} */
async function entriesOf(folder) {
  const reader = folder.createReader();
  /** @type {FileSystemEntry[]} */
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** Make an archive of a folder's files. @param {string} name  of the folder @param {{path: string, file: File}[]} files @returns {Promise<File>} */
export async function packed(name, files) {
  const wanted = files.filter(({ path }) => WANTED.test(path));
  if (wanted.length > MOST_FILES)
    throw new StoryError(msg`${quoted(name)} holds more than ${NUMBER.format(MOST_FILES)} files.`);
  const size = wanted.reduce((sum, { file }) => sum + file.size, 0);
  if (size > MAX_BYTES)
    throw new StoryError(
      msg`${quoted(name)} has ${Math.ceil(size / 2 ** 20)} MB of texts; ${MAX_BYTES / 2 ** 20} MB can be read.`,
    );
  if (wanted.length === 0)
    throw new StoryError(msg`${quoted(name)} holds no project of Scrivener or novelWriter, and no Markdown.`);
  /** @type {import("../vendor/zip.js").Zippable} */
  const archive = {};
  for (const { path, file } of wanted) archive[path] = [new Uint8Array(await file.arrayBuffer()), { level: 0 }];
  return new File([/** @type {Uint8Array<ArrayBuffer>} */ (zipSync(archive))], `${name}.zip`);
}
