/** The manuscript on paper. The editor has only the lines in view, so the whole text is set when printing begins. */

import { withoutMarkers } from "../markers.js";

/** @param {import("../desk.js").Desk} desk */
export function bindPrint(desk) {
  const sheet = document.createElement("article");
  sheet.id = "print";
  document.body.append(sheet);
  addEventListener("beforeprint", () => {
    const title = document.createElement("h1");
    title.textContent = desk.title;
    const lines = withoutMarkers(desk.text).split("\n");
    sheet.replaceChildren(title, ...lines.map(paragraph));
  });
  addEventListener("afterprint", () => sheet.replaceChildren());
}

/** @param {string} line */
function paragraph(line) {
  const there = document.createElement("p");
  there.textContent = line || "\u00a0"; // an empty line has its height
  return there;
}
