/** Values of a story that are of one kind, and changes of values, each of them a step of undo. */

/** @typedef {import("../desk.js").Desk} Desk */

/**
 * The values of a story whose keys begin with `prefix`, by their keys; what a file has in their place and is none is left out.
 * @template T
 * @param {import("../story.js").Story} story @param {string} prefix @param {(value: unknown) => value is T} isOne @param {number} [most]
 * @returns {Map<string, T>}
 */
export function valuesOf(story, prefix, isOne, most = Number.POSITIVE_INFINITY) {
  const found = new Map();
  for (const [key, value] of Object.entries(story.stampsOf(null).values))
    if (key.startsWith(prefix) && isOne(value) && found.size < most) found.set(key, value);
  return found;
}

/** Change values, together one step. @param {Desk} desk @param {[string, unknown][]} values */
export function changeAll(desk, values) {
  const before = /** @type {typeof values} */ (values.map(([key]) => [key, desk.story.meta(key) ?? null]));
  setAll(desk, values);
  desk.record(
    () => setAll(desk, before),
    () => setAll(desk, values),
  );
}

/** @param {Desk} desk @param {[string, unknown][]} values */
function setAll(desk, values) {
  for (const [key, value] of values) desk.story.setMeta(key, value);
  desk.changed();
  desk.tell("story");
}
