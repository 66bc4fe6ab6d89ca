/** Style sheets that come later than the document. */

/** Add a style sheet to the document; resolves when it applies. @param {URL} address */
export function addStyle(address) {
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
