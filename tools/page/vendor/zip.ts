// vendor/zip.js: zip archives, for .docx and .epub, and packed texts of pictures.

export type { Zippable } from "fflate";
export { strToU8, Unzlib, unzipSync, zipSync } from "fflate";
