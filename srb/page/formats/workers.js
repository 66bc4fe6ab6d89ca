/** Workers of the page: one reads a file, and ends when it has read it, takes too long or is no longer wanted. */
import { LANGUAGE, msg } from "../languages.js";
import { quoted } from "./file.js";

/** @import {Drafts} from "./detect.js" */

const LONGEST = 60; // seconds for one file
/** The addresses that the page's policy lets workers be made of. */
const MODULES = {
  reading: new URL("./reading_worker.js", import.meta.url),
  counting: new URL("../slop/worker.js", import.meta.url),
};
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("srb-worker", {
  createScriptURL: (/** @type {keyof typeof MODULES} */ which) => MODULES[which].href,
});

/** @param {keyof typeof MODULES} which */
export function newWorker(which) {
  const address = /** @type {string} */ (policy?.createScriptURL(which) ?? MODULES[which].href);
  return new Worker(address, { type: "module", name: LANGUAGE });
}

/**
 * @param {string} name  of the file
 * @param {Uint8Array} bytes
 * @param {AbortSignal} [signal]
 * @returns {Promise<Drafts | {error: string} | null>} null: there are no workers here, or its module could not be loaded
 */
export async function draftsByWorker(name, bytes, signal) {
  if (typeof document === "undefined" || typeof Worker === "undefined") return null;
  const worker = newWorker("reading");
  let timer = 0;
  try {
    return await new Promise((resolve, reject) => {
      const where = quoted(name || msg`The pasted text`);
      timer = window.setTimeout(
        () => resolve({ error: msg`${where} took longer than ${LONGEST} seconds to be read, and was given up.` }),
        LONGEST * 1000,
      );
      signal?.addEventListener("abort", () => resolve({ error: msg`${where} was not read.` }), { once: true });
      let isReady = false;
      worker.onerror = () => resolve(isReady ? { error: msg`${where} is too large to be read.` } : null); // memory ended, or its module is away
      worker.onmessage = ({ data }) => {
        if ("isReady" in data) isReady = true;
        else if ("fault" in data) reject(new Error(data.fault));
        else resolve(data);
      };
      worker.postMessage({ name, bytes });
    });
  } finally {
    window.clearTimeout(timer);
    worker.terminate();
  }
}
