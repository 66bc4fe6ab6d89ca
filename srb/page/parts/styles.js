/** Style sheets that come later than the document. */

/** @type {Map<string, Promise<unknown>>} by their addresses */
const added = new Map();

/** Add a style sheet to the document, unless it is there; resolves when it applies. @param {URL} address */
export function addStyle(address) {
  const known = added.get(address.href) ?? load(address);
  added.set(address.href, known);
  known.catch(() => added.delete(address.href));
  return known;
}

/** @param {URL} address */
function load(address) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = address.href;
  return new Promise((resolve, reject) => {
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => {
      link.remove();
      reject(new Error(`${address.pathname} could not be loaded`));
    });
    document.head.append(link);
  });
}

/** Let rows stand as deep as they are: the page's policy allows no style in a template. @param {Element} rows @param {number} most steps */
export function indent(rows, most) {
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (rows.querySelectorAll("[data-depth]")))
    row.style.setProperty("--depth", String(Math.min(most, Number(row.dataset.depth))));
}
