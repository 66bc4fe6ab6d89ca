// vendor/xml.js: XML as events, and its references to characters, for files that are imported.

export { decodeHTMLStrict } from "entities";
export { Parser } from "htmlparser2";
