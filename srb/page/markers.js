/**
 * Markers: places of a text at which a picture or sound stands, `![name](srb:ID)`. They are text, so that they are edited, taken,
 * undone, merged and exported like it; the bytes are kept beside the story, under an id that follows from them.
 */

const MARKER = /!\[([^[\]\n]{0,200})\]\(srb:([0-9a-f]{32})\)/g;

/** @typedef {{from: number, to: number, name: string, id: string}} Marker */

/** @param {string} text @returns {Marker[]} in their order */
export function markersOf(text) {
  if (!text.includes("](srb:")) return [];
  return [...text.matchAll(MARKER)].map(({ 0: whole, 1: name, 2: id, index: from }) => ({
    from,
    to: from + whole.length,
    name,
    id,
  }));
}

/**
 * Return a text whose markers are replaced.
 * @param {string} text @param {(name: string, id: string) => string} [words]  a sign and the name, if nothing else is given
 */
export function withoutMarkers(text, words = (name) => `🖼 ${name}`) {
  return text.includes("](srb:") ? text.replace(MARKER, (_whole, name, id) => words(name, id)) : text;
}
