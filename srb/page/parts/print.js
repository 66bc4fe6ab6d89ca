/** The manuscript on paper. The editor has only the lines in view, so the whole text is set when printing begins. */

import { chaptersOf } from "../formats/chapters.js";
import { readLine, runsOf } from "../markdown.js";
import { withoutMarkers } from "../markers.js";

/** @typedef {import("../markdown.js").Run} Run */

/** @param {import("../desk.js").Desk} desk */
export function bindPrint(desk) {
  const sheet = document.createElement("article");
  sheet.id = "print";
  document.body.append(sheet);
  addEventListener("beforeprint", () => {
    const { chapters } = chaptersOf(desk.story);
    sheet.lang = String(desk.story.meta("language") ?? navigator.language);
    sheet.replaceChildren(block("h1", [{ text: desk.title, em: false, strong: false }]), ...chapters.flatMap(chapter));
  });
  addEventListener("afterprint", () => sheet.replaceChildren());
}

/** @param {import("../formats/chapters.js").Chapter} chapter */
function chapter({ title, text, body }) {
  const lines = text.slice(body).replace(/^\n/, "").split("\n").map(paragraph);
  return title.length > 0 ? [block("h2", title), ...lines] : lines;
}

/** @param {string} line */
function paragraph(line) {
  const { kind, level } = readLine(line);
  if (kind === "break") return document.createElement("hr");
  const there = block(kind === "heading" ? `h${level}` : "p", runsOf(line));
  if (line === "") there.textContent = "\u00a0"; // an empty line has its height
  return there;
}

/** @param {string} name @param {Run[]} runs */
function block(name, runs) {
  const there = document.createElement(name);
  for (const { text, em, strong } of runs) {
    let place = /** @type {HTMLElement} */ (there);
    for (const inner of [strong ? "strong" : "", em ? "em" : ""])
      if (inner) place = place.appendChild(document.createElement(inner));
    place.append(withoutMarkers(text));
  }
  return there;
}
