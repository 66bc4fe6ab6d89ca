// Lines of words that shall not come, or seldom, as the server's patterns. A line is words, with * for any ending, or /a pattern/.

const SELDOM = 0.2; // of the matches of a word that shall come seldom stand

/** Words as a pattern that only they match. @param {string} words */
export const literal = (words) => words.replace(/[\\^$.*+?()[\]{}|]/gu, "\\$&");

/** @param {string} line */
export function patternOf(line) {
  const text = line.trim();
  const given = /^\/(.+)\/$/u.exec(text);
  if (given) return given[1];
  const words = text.split(/\s+/u).map((word) => {
    const escaped = literal(word).replace(/['’]/gu, "['’]");
    return escaped.replace(/(?<=[\p{L}\p{N}])\\\*$/u, "\\w*");
  });
  const [begin, end] = [/^[\p{L}\p{N}_]/u, /[\p{L}\p{N}_]\*?$/u].map((edge) => (edge.test(text) ? "\\b" : ""));
  return begin + words.join("\\s+") + end;
}

/** The field of a request; none without a line. @param {readonly string[]} never @param {readonly string[]} seldom */
export function bansOf(never = [], seldom = []) {
  const banned_patterns = [
    ...never.map((line) => ({ pattern: patternOf(line) })),
    ...seldom.map((line) => ({ pattern: patternOf(line), weight: SELDOM })),
  ];
  return banned_patterns.length ? { banned_patterns } : {};
}
