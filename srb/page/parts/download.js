/** Files that the page writes, as the browser's downloads. */

const KEPT = 60_000; // ms that a download's address stays valid

/**
 * @param {string | Uint8Array} content
 * @param {string} name
 * @param {string} type
 */
export function download(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([/** @type {any} */ (content)], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT);
}
