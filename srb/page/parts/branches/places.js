// Places of the cards: in columns, each below the one before it, as high as its text. Pure; heights are in lines of text.

export const GAP = 32; // px between two columns
const LEAST_WIDTH = 285; // px of a column
const FEWEST_LINES = 2; // that a growing card reserves
const MOST_LINES = 9; // of a card, where the pane has no room for more
const PER_TOKEN = 4; // characters
/** Characters that most texts have which stop at the end of a … @type {Record<string, number>} */
const UP_TO = { word: 8, line: 60, sentence: 80, paragraph: 240 };

/**
 * Return the number of columns: as many as fit, but for fewer that leave fewer holes in the last row.
 * @param {number} count of cards @param {number} width px
 */
export function columnsOf(count, width) {
  const most = Math.max(1, Math.min(count, Math.floor((width + GAP) / (LEAST_WIDTH + GAP))));
  const holes = (/** @type {number} */ columns) => (columns - (count % columns)) % columns;
  let best = most;
  for (let fewer = most - 1; fewer > most / 2; fewer -= 1) if (holes(fewer) < holes(best)) best = fewer;
  return best;
}

/**
 * Return the lines of text that a card may have: what the pane has room for, if all rows are so high.
 * @param {number} rows @param {{height: number, line: number, chrome: number}} pane px: the pane, a line, a card without its lines
 */
export function mostLines(rows, { height, line, chrome }) {
  return Math.max(MOST_LINES, Math.floor((height / Math.max(1, rows) - chrome) / line));
}

/**
 * Return the characters that a text will have at least, most often, by the settings.
 * @param {{max_tokens?: number, stop_at?: string, stop_after?: number}} settings
 */
export function expectedLength({ max_tokens = -1, stop_at = "", stop_after = 1 }) {
  const most = max_tokens < 0 ? Number.POSITIVE_INFINITY : PER_TOKEN * max_tokens;
  return Math.min(most, (UP_TO[stop_at] ?? Number.POSITIVE_INFINITY) * stop_after);
}

/**
 * Return the lines that each card reserves while it grows: as many as three quarters of the last round's cards needed. With more,
 * short texts would stand above holes; with fewer, growing cards would push those below them all the time. The first round's
 * reserve what the settings let expect, as far as all cards are in view with it.
 * @param {number[]} last lines of the last round's cards
 * @param {{expected: number, inView: number}} first lines by the settings, and that all cards may have in view
 */
export function reserveOf(last, { expected, inView } = { expected: 0, inView: 0 }) {
  const few = [...last].sort((a, b) => a - b)[Math.floor(last.length / 4)] ?? Math.min(expected, inView);
  return Math.max(FEWEST_LINES, Math.min(MOST_LINES, few));
}

/**
 * Return the place of each card: its column, the lines and the cards above it.
 * @param {number[]} lines of the cards, in their order @param {number} columns
 */
export function placesOf(lines, columns) {
  const above = Array.from({ length: columns }, () => 0);
  return lines.map((own, place) => {
    const column = place % columns;
    const there = { column, above: above[column] ?? 0, row: Math.floor(place / columns) };
    above[column] = there.above + own;
    return there;
  });
}
