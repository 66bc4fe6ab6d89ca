/** A file that is chosen in a part, and taken in as a value of the open story. */

import { StoryError } from "../story/read.js";

/**
 * Read the file that was chosen in a field, and let the part say what came of it. What is wrong with the file is said in its place; that files of
 * the page are missing, everywhere.
 * @param {import("./part.js").Part & {say: (message: string, isError?: boolean) => void}} part @param {Event} event of the field
 * @param {(file: File, bytes: Uint8Array, isOpen: () => boolean) => Promise<string>} take returns what is said; `isOpen`: whether the story is open still
 */
export async function pickFile(part, event, take) {
  const input = /** @type {HTMLInputElement} */ (event.target);
  const [file] = input.files ?? [];
  if (!file) return;
  const { desk } = part;
  const { story } = desk;
  try {
    const said = await take(file, new Uint8Array(await file.arrayBuffer()), () => story === desk.story);
    if (said) part.say(said);
  } catch (error) {
    part.say(/** @type {Error} */ (error).message, true);
    if (!(error instanceof StoryError) && !(error instanceof DOMException)) desk.sayNotLoaded();
  } finally {
    input.value = ""; // so that the same file can be chosen again
  }
}
