/** The formats that a story can be written in. */
import { msg, NUMBER } from "../languages.js";
import { writeLabels, writePairs } from "./choices.js";
import { writeEvents } from "./coauthor.js";
import { writeDocx } from "./docx.js";
import { writeEpub } from "./epub.js";
import { writeHtml } from "./html.js";
import { writeObsidianLoom } from "./obsidian_loom.js";
import { countUnkept, writeRequests } from "./requests.js";
import { writeSrb } from "./srb.js";
import { writeMarkdown, writeText } from "./text.js";

/** @import {Files} from "./pictures.js" */
/** @import {Story} from "./types.js" */

/**
 * @typedef {object} Writer
 * @property {string} id
 * @property {string} label
 * @property {string} holds  says what of the story is in the file
 * @property {string} ending  of the file's name
 * @property {string} type  its media type
 * @property {(story: Story, media?: Files) => string | Uint8Array} write
 * @property {"all" | "text" | "printed"} [media]  the pictures and sounds that `write` gets: those of all texts, of the
 *   manuscript, or of the manuscript as every program shows them
 * @property {(story: Story) => string} [lack]  says what a person might miss in the file, "" if there is nothing
 */

/** @type {Writer[]} */
export const WRITERS = [
  {
    id: "srb",
    label: msg`SRB story`,
    holds: msg`everything: all branches, names, stars, settings, pictures and sounds`,
    ending: ".json",
    type: "application/json",
    write: writeSrb,
    media: "all",
  },
  {
    id: "text",
    label: msg`Plain text`,
    holds: msg`the manuscript, character by character`,
    ending: ".txt",
    type: "text/plain;charset=utf-8",
    write: writeText,
  },
  {
    id: "markdown",
    label: "Markdown",
    holds: msg`the manuscript with its pictures; names become headings`,
    ending: ".md",
    type: "text/markdown;charset=utf-8",
    write: writeMarkdown,
    media: "text",
  },
  {
    id: "docx",
    label: "Word",
    holds: msg`the manuscript with its emphasis and pictures, each chapter on a new page`,
    ending: ".docx",
    type: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    write: writeDocx,
    media: "printed",
  },
  {
    id: "epub",
    label: "EPUB",
    holds: msg`the manuscript as a book with its chapters, emphasis and pictures`,
    ending: ".epub",
    type: "application/epub+zip",
    write: writeEpub,
    media: "printed",
  },
  {
    id: "html",
    label: msg`Web page`,
    holds: msg`the manuscript as one page with its chapters, emphasis and pictures`,
    ending: ".html",
    type: "text/html;charset=utf-8",
    write: writeHtml,
    media: "printed",
  },
  {
    id: "obsidian",
    label: "Obsidian Loom",
    holds: msg`all branches and stars, cut into segments`,
    ending: ".obsidian.json",
    type: "application/json",
    write: writeObsidianLoom,
  },
  {
    id: "pairs",
    label: msg`Choices, in pairs`,
    holds: msg`of each round what you took beside what you passed over, for DPO trainers (TRL)`,
    ending: ".dpo.jsonl",
    type: "application/x-ndjson",
    write: writePairs,
  },
  {
    id: "labels",
    label: msg`Choices, one by one`,
    holds: msg`of each round every text, and whether you took it, for KTO trainers (TRL)`,
    ending: ".kto.jsonl",
    type: "application/x-ndjson",
    write: writeLabels,
  },
  {
    id: "events",
    label: msg`Events of the session`,
    holds: msg`what was typed, asked for, shown and taken on the way to the manuscript, as CoAuthor's log has it`,
    ending: ".coauthor.jsonl",
    type: "application/x-ndjson",
    write: writeEvents,
  },
  {
    id: "rounds",
    label: msg`Rounds, to be asked again`,
    holds: msg`what each round was asked, word for word, and what it wrote, for \`srb stories replay\``,
    ending: ".rounds.jsonl",
    type: "application/x-ndjson",
    write: writeRequests,
    media: "all",
    lack: (story) => {
      const count = countUnkept(story);
      return count
        ? msg`Requests that are not in it as they were asked, since they are old or too long: ${NUMBER.format(count)}.`
        : "";
    },
  },
];

/**
 * Return a name for a file that every system takes, from a story's title.
 * @param {string} title
 * @param {string} ending
 */
export function fileName(title, ending) {
  const plain = title
    .replace(/[\p{Cc}\p{Cf}\p{Surrogate}<>:"/\\|?*]+/gu, " ")
    .replace(/\s+/g, " ")
    .replace(/^[ .]+|[ .]+$/g, "");
  const short = [...plain].slice(0, 80).join("").trim();
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)$/i.test(short);
  return `${short === "" || reserved ? msg`story ${short}`.trim() : short}${ending}`;
}
