// A reading: all that the model reads, word for word, each stretch with its origin. Pure.
//
// A prompt is made of blocks: a text as it stands, or the messages of a chat. The template of a chat puts its own words around them.

/** @typedef {"memory" | "lore" | "plan" | "summary" | "text" | "note" | "instruction" | "template"} Origin */
/** @typedef {{origin: Origin, text: string}} Stretch */
/** @typedef {Stretch[]} Block   stretches that follow each other in a prompt */

/** @param {Origin} origin @param {string} text @returns {Stretch} */
export const stretch = (origin, text) => ({ origin, text });

/** @param {Block} block */
export const textOf = (block) => block.map(({ text }) => text).join("");

/**
 * Return the stretches of a prompt: its blocks, which stand in it in their order, and between them the template's words. A block that the
 * template has changed is the template's.
 * @param {string} prompt @param {Block[]} blocks @returns {Stretch[]}
 */
export function readingOf(prompt, blocks) {
  /** @type {Stretch[]} */
  const all = [];
  let end = 0;
  for (const block of blocks.map(trimmed)) {
    const text = textOf(block);
    const at = text === "" ? -1 : prompt.indexOf(text, end);
    if (at < 0) continue;
    all.push(stretch("template", prompt.slice(end, at)), ...block);
    end = at + text.length;
  }
  all.push(stretch("template", prompt.slice(end)));
  return all.filter(({ text }) => text !== "");
}

/** Return a block without blanks at its ends, which a template may leave out. @param {Block} block @returns {Block} */
function trimmed(block) {
  const text = textOf(block);
  let left = text.length - text.trimStart().length;
  let right = text.trimEnd().length;
  return block.flatMap(({ origin, text: own }) => {
    const kept = own.slice(left, Math.max(0, right));
    left = Math.max(0, left - own.length);
    right -= own.length;
    return kept ? [stretch(origin, kept)] : [];
  });
}
