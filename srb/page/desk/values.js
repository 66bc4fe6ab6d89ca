/** Changes of a story's values, each of them a step of undo. */

/** @typedef {import("../desk.js").Desk} Desk */

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
