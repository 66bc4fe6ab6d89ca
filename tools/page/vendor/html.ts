// vendor/html.js: HTML, by the standard's own algorithm, for files that are imported and text that is pasted.

export type { DefaultTreeAdapterTypes } from "parse5";
export { parse } from "parse5";
