/** A worker that counts the words of one text. */

import { overusedIn } from "./overused.js";

self.addEventListener("message", ({ data: { text, frequencies, lines } }) => {
  postMessage(overusedIn(text, frequencies, lines));
});
