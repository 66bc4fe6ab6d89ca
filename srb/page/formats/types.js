/**
 * The types of reading and writing files of stories.
 *
 * A story as JSON is the srb-story format: nodes are splices of their parent's text. A segment is a node of most other
 * programs: text that stands after all of its parent's.
 *
 * @typedef {import("../story.js").Story} Story
 *
 * @typedef {object} Segment
 * @property {Key | null} parent
 * @property {string} text
 * @property {"person" | "model" | "import"} by  "import": the file does not say
 * @property {number} [made]  milliseconds since 1970, where the file says so
 * @property {Marks} [marks]
 *
 * @typedef {string | number} Key  an id in a file, or a number that the reader gave
 * @typedef {{star?: boolean, name?: string, note?: string, folded?: boolean, pruned?: boolean, seen?: boolean}} Marks
 *
 * @typedef {object} Facts  what a file says about a story as a whole
 * @property {string} title
 * @property {string} [author]
 * @property {Key} [current]  the segment that the manuscript ends with
 * @property {string} [memory]
 * @property {{text: string, depth: number, frame?: string}} [note]
 * @property {import("./lorebooks.js").Lorebook} [lore]
 *
 * @typedef {object} Draft
 * @property {object} json  a story
 * @property {string[]} remarks  sentences on what of the file is not in it
 * @property {{from: number, to: number, text: string, author: string}[]} [comments]  on words of its text
 *
 * @typedef {object} Opened  a file to import; parts, text and value are found when they are asked for
 * @property {string} name  pasted text has none
 * @property {Uint8Array} bytes
 * @property {Set<string> | null} parts  the names of an archive's files; null if it is none
 * @property {string} text  throws StoryError for a file that is no text, or empty
 * @property {string} encoding  of the text
 * @property {any} value  of JSON, unchecked; undefined for other text; throws StoryError where a name promises JSON
 *
 * @typedef {object} Importer  one format, as it is read
 * @property {string} label  the program's name, or the format's
 * @property {string[]} endings  of the names of its files, which the dialog offers
 * @property {boolean} [isJson]  its files are JSON: a value that no importer knows is refused with the labels of these
 * @property {(opened: Opened) => boolean} knows  whether a file is of this format; cheap, since all are asked in turn
 * @property {() => Promise<{read: (opened: Opened) => Draft[]}>} load  the module that reads it; its `read` throws StoryError
 */

export {};
