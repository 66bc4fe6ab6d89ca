/** Files of lorebooks: what is in one, and the entries of a story as one. */
import { msg } from "../languages.js";
import { entryOf, titleOf } from "../lore/entries.js";
import { StoryError } from "../story/read.js";
import { isArchive, textOfFile, unpacked } from "./archive.js";
import { checkSize, decode, parse, quoted } from "./file.js";
import { lorebookOf } from "./lorebooks.js";
import { cardIn, isPng } from "./png_text.js";
import { CARD } from "./signs.js";

/** @typedef {import("./lorebooks.js").Lorebook} Lorebook */
/** @typedef {import("../lore/entries.js").Entry} Entry */

/**
 * @param {string} name  of the file
 * @param {Uint8Array} bytes
 * @returns {Lorebook}
 * @throws {StoryError}
 */
export function readLorebook(name, bytes) {
  checkSize(name, bytes.length, "");
  const text = isPng(bytes)
    ? cardIn(bytes, name)
    : isArchive(bytes)
      ? packedCard(bytes, name)
      : decode(bytes, name).text;
  const lorebook = lorebookOf(parse(text, quoted(name)));
  if (lorebook !== null) return lorebook;
  throw new StoryError(
    msg`${quoted(name)} is no lorebook or card of SillyTavern, NovelAI, KoboldAI, Risu, Agnai, mikupad or SRB.`,
  );
}

/** The card in an archive (.charx). @param {Uint8Array} bytes @param {string} name */
function packedCard(bytes, name) {
  const files = unpacked(bytes, name, (file) => file === CARD);
  return textOfFile(files, CARD, name);
}

/** @param {Entry[]} entries */
export const writeLorebook = (entries) =>
  `${JSON.stringify({ format: "srb-lorebook", version: 1, entries: entries.map(entryOf) }, null, 1)}\n`;

const LOGIC = { any: 0, "not all": 1, none: 2, all: 3 };

/** The world info of SillyTavern, with what its program expects of each entry. @param {Entry[]} all */
export function writeWorldInfo(all) {
  const entries = Object.fromEntries(
    all.map((entry, uid) => [
      uid,
      {
        uid,
        key: entry.keys,
        keysecondary: entry.others,
        comment: titleOf(entry),
        content: entry.text,
        constant: entry.always,
        vectorized: false,
        selective: true,
        selectiveLogic: LOGIC[entry.rule],
        addMemo: true,
        order: entry.order,
        position: 0,
        disable: entry.off,
        excludeRecursion: false,
        preventRecursion: false,
        probability: 100,
        useProbability: true,
        depth: 4,
        caseSensitive: entry.cased,
        matchWholeWords: true,
        displayIndex: uid,
      },
    ]),
  );
  return `${JSON.stringify({ entries }, null, 1)}\n`;
}
