// vendor/zip.js: zip archives, for .docx and .epub.
export { strToU8, zipSync } from "fflate";

export type { Zippable } from "fflate";
