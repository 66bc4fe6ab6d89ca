/** Files within a zip archive. What an archive says of their sizes is looked at before anything of it is unpacked. */
import { msg, NUMBER } from "../languages.js";
import { StoryError } from "../story/read.js";
import { unzipSync } from "../vendor/zip.js";
import { textIn } from "./encoding.js";
import { quoted } from "./file.js";

const MOST_FILES = 20_000;
const MOST_UNPACKED = 128 * 2 ** 20; // bytes of all that is wanted of one archive
const BOMB = 1000; // times its packed size: text is never packed so small
const SMALL = 2 ** 20; // bytes that any file may have

/** @param {Uint8Array} bytes */
export const isArchive = ([first, second, third, fourth]) =>
  first === 0x50 && second === 0x4b && third === 3 && fourth === 4;

/**
 * Unpack files of an archive, by their names.
 * @param {Uint8Array} bytes
 * @param {string} name  of the archive
 * @param {(file: string) => boolean} isWanted
 * @returns {Map<string, Uint8Array>}
 */
export function unpacked(bytes, name, isWanted) {
  let files = 0;
  let size = 0;
  /** @param {{name: string, size: number, originalSize: number}} file */
  const filter = ({ name: file, size: packed, originalSize }) => {
    files += 1;
    if (files > MOST_FILES)
      throw new StoryError(msg`${quoted(name)} holds more than ${NUMBER.format(MOST_FILES)} files.`);
    if (!isWanted(file)) return false;
    size += originalSize;
    if (size > MOST_UNPACKED || (originalSize > SMALL && originalSize > BOMB * packed))
      throw new StoryError(msg`${quoted(file)} in ${quoted(name)} is too large when it is unpacked.`);
    return true;
  };
  try {
    return new Map(Object.entries(unzipSync(bytes, { filter })));
  } catch (error) {
    if (error instanceof StoryError) throw error;
    throw new StoryError(msg`${quoted(name)} is damaged: its archive cannot be unpacked.`, { cause: error });
  }
}

/** The names of an archive's files; nothing is unpacked. @param {Uint8Array} bytes @param {string} name @returns {Set<string>} */
export function namesIn(bytes, name) {
  const names = new Set();
  unpacked(bytes, name, (file) => {
    names.add(file);
    return false;
  });
  return names;
}

/** @param {Map<string, Uint8Array>} files @param {string} file @param {string} name  of the archive @returns {string} */
export function textOfFile(files, file, name) {
  const bytes = files.get(file);
  const found = bytes && textIn(bytes);
  if (found) return found.text;
  throw new StoryError(
    bytes
      ? msg`${quoted(name)} is damaged: ${quoted(file)} is no text.`
      : msg`${quoted(name)} is damaged: ${quoted(file)} is missing.`,
  );
}
