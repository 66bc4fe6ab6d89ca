/**
 * The formats of files that become stories: a row each. The first row that knows a file reads it, by a module that is loaded when it is used.
 */
import { msg } from "../languages.js";
import { isRecord } from "../story/check.js";
import {
  BINDER,
  CARD,
  CONTAINER,
  CONTENT,
  isChat,
  isHtml,
  isNested,
  isNote,
  isRtf,
  isWord,
  MARKDOWN,
  NOVEL,
} from "./signs.js";

/** @import {Importer} from "./types.js" */

/** @type {Importer[]} */
export const IMPORTERS = [
  // Archives, and other files that are no text.
  {
    label: "Word",
    endings: [".docx"],
    knows: ({ parts }) => isWord(parts),
    load: () => import("./docx_in.js"),
  },
  {
    label: "EPUB",
    endings: [".epub"],
    knows: ({ parts }) => parts?.has(CONTAINER) ?? false,
    load: () => import("./epub_in.js"),
  },
  {
    label: "OpenDocument",
    endings: [".odt"],
    knows: ({ parts }) => parts?.has(CONTENT) ?? false,
    load: () => import("./odt_in.js"),
  },
  {
    label: "Scrivener",
    endings: [".zip", ".scriv"],
    knows: ({ parts }) => parts !== null && [...parts].some((part) => BINDER.test(part)),
    load: () => import("./scrivener.js"),
  },
  {
    label: "novelWriter",
    endings: [".zip"],
    knows: ({ parts }) => parts !== null && [...parts].some((part) => NOVEL.test(part)),
    load: () => import("./markdown_folder.js"),
  },
  {
    label: "Markdown",
    endings: [".zip"],
    knows: ({ parts }) => parts !== null && !parts.has(CARD) && [...parts].some((part) => MARKDOWN.test(part)),
    load: () => import("./markdown_folder.js"),
  },
  { label: "Rich Text", endings: [".rtf"], knows: ({ bytes }) => isRtf(bytes), load: () => import("./rtf.js") },
  // Texts that a name or a beginning tells.
  {
    label: "Markdown",
    endings: [".md", ".markdown"],
    knows: ({ name }) => /\.(md|markdown)$/i.test(name),
    load: async () => ({ read: (await import("./text.js")).readMarkdown }),
  },
  {
    label: msg`text`,
    endings: [".txt", ".text"],
    knows: ({ name }) => /\.te?xt$/i.test(name),
    load: async () => ({ read: (await import("./text.js")).readText }),
  },
  {
    label: "HTML",
    endings: [".html", ".htm", ".xhtml"],
    knows: ({ name, text }) => /\.x?html?$/i.test(name) || isHtml(text),
    load: () => import("./html_in.js"),
  },
  {
    label: "SillyTavern",
    endings: [".jsonl"],
    knows: ({ name, text }) => /\.jsonl$/i.test(name) || isChat(text),
    load: () => import("./chat.js"),
  },
  // JSON of programs, by its value.
  {
    label: "SRB",
    endings: [".json"],
    isJson: true,
    knows: ({ value }) => isRecord(value) && value.format === "srb-story",
    load: () => import("./srb.js"),
  },
  {
    label: "Exoloom",
    endings: [".json"],
    isJson: true,
    knows: ({ value }) => isRecord(value) && value.loomType === "Exoloom",
    load: () => import("./exoloom.js"),
  },
  {
    label: "Obsidian Loom",
    endings: [".json"],
    isJson: true,
    knows: ({ value }) =>
      isRecord(value) && (isNote(value) || (isRecord(value.state) && Object.values(value.state).some(isNote))),
    load: () => import("./obsidian_loom.js"),
  },
  {
    label: "socketteer's loom",
    endings: [".json"],
    isJson: true,
    knows: ({ value }) => isRecord(value) && (isNested(value.root) || (isNested(value) && value.text !== undefined)),
    load: () => import("./socketteer.js"),
  },
  {
    label: "NovelAI",
    endings: [".story", ".scenario"],
    isJson: true,
    knows: ({ value }) =>
      isRecord(value) && (value.storyContainerVersion !== undefined || value.scenarioVersion !== undefined),
    load: () => import("./novelai.js"),
  },
  {
    label: "KoboldAI Lite",
    endings: [".json", ".kaistory"],
    isJson: true,
    knows: ({ value }) =>
      isRecord(value) &&
      (Array.isArray(value.ga) || (typeof value.prompt === "string" && typeof value.actions === "object")),
    load: () => import("./lite.js"),
  },
  {
    label: "mikupad",
    endings: [".json"],
    isJson: true,
    knows: ({ value }) => isRecord(value) && /^\s*["[]/.test(String(value.prompt)) && value.actions === undefined,
    load: () => import("./mikupad.js"),
  },
  // All other text.
  {
    label: msg`text`,
    endings: [],
    knows: ({ value }) => value === undefined,
    load: async () => ({ read: (await import("./text.js")).readText }),
  },
];

/** Endings of files, as a form's field lists them. */
export const ENDINGS = [...new Set(IMPORTERS.flatMap(({ endings }) => endings))];

/** Load the modules of all formats, so that a server that goes away takes none of them along. */
export const loadAll = () => Promise.all(IMPORTERS.map(({ load }) => load()));
