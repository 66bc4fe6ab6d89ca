// vendor/zip.js: zip archives, for .docx and .epub.

export type { Zippable } from "fflate";
export { strToU8, unzipSync, zipSync } from "fflate";
