// Text behind the branches, where they are written in the middle of a text, and how a model is told of it.

/** A model's tokens for a text with a gap. @typedef {{prefix: string, suffix: string, middle: string, suffix_first: boolean}} Fill */

/** The most characters of it that are sent: where a passage has to lead is known after a page. */
const MOST = 2000;
const SHARE = 4; // of the characters that all may take: one in so many

/** How a chat model is told. */
const FRAME = "What you write stands right before this passage, and leads to it without repeating it:\n\n<|>";

/**
 * Return the beginning of what stands behind the branches, at the end of a sentence or a word.
 * @param {string} behind @param {number} budget characters of a prompt
 */
export function beginningOf(behind, budget) {
  const most = Math.max(0, Math.min(MOST, Math.floor(budget / SHARE)));
  if (behind.length <= most) return behind.trimEnd();
  const within = behind.slice(0, most);
  const sentences = /^[\s\S]*[.!?…]["'”’»)]*(?=\s)/u.exec(within)?.[0];
  return sentences ?? within.replace(/\S*$/u, "").trimEnd();
}

/**
 * Return the prompt of a text with a gap, which branches fill.
 * @param {Fill | null | undefined} fill @param {string} before @param {string} behind
 */
export function withGap(fill, before, behind) {
  if (!fill || behind.trim() === "") return before;
  const [one, other] = [fill.prefix + before, fill.suffix + behind];
  return (fill.suffix_first ? other + one : one + other) + fill.middle;
}

/** Return an instruction that tells where the text has to lead. @param {string} instruction @param {string} behind */
export function leadingTo(instruction, behind) {
  const passage = behind.trim();
  return passage === "" ? instruction : `${instruction}\n\n${FRAME.replace("<|>", () => passage)}`;
}
