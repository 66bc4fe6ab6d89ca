/** A worker that reads one file, and says its drafts, or a sentence, or the fault of the page that ended the reading. Its name is the page's language. */

Object.assign(globalThis, { localStorage: { getItem: () => self.name } }); // languages.js asks there; a worker has no other
self.addEventListener("message", async ({ data: { name, bytes } }) => {
  postMessage({ isReady: true });
  try {
    const { draftsIn } = await import("./detect.js");
    postMessage(await draftsIn(name, bytes));
  } catch (error) {
    postMessage({ fault: String(/** @type {Error} */ (error).stack ?? error) });
  }
});
