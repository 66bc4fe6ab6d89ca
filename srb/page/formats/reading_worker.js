/** A worker that reads one file, and says its drafts, or a sentence, or the fault of the page that ended the reading. */
import { draftsIn } from "./detect.js";

self.addEventListener("message", async ({ data: { name, bytes } }) => {
  try {
    postMessage(await draftsIn(name, bytes));
  } catch (error) {
    postMessage({ fault: String(/** @type {Error} */ (error).stack ?? error) });
  }
});
