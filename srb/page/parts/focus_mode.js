/** Focus: nothing but the text is shown; and the typewriter: the caret's line stays in the middle. This browser keeps the second. */

import { msg } from "../languages.js";
import { EditorView, ViewPlugin } from "../vendor/codemirror.js";

/** @typedef {import("../desk.js").Desk} Desk */

const KEPT = "srb.typewriter";
const PADDING = "45cqh"; // so that the first line and the last one can stand in the middle, too
let isTypewriter = keptTypewriter();

/** Show the text alone, or all panes again. @param {Desk} desk */
export function switchFocus(desk) {
  const root = document.documentElement;
  root.toggleAttribute("data-focus");
  if (root.hasAttribute("data-focus")) desk.manuscript?.focus();
  dispatchEvent(new Event("resize")); // for parts that lay themselves out by their width
}

/** The button that leads back, and the end of focus when cards come, which a person has to see. @param {Desk} desk */
export function focusEnd(desk) {
  const button = document.createElement("button");
  button.id = "focus-end";
  button.className = "quiet";
  button.textContent = msg`Show everything`;
  button.addEventListener("click", () => {
    switchFocus(desk);
    desk.manuscript?.focus();
  });
  desk.addEventListener("round", () => {
    if (desk.isRunning && document.documentElement.hasAttribute("data-focus")) switchFocus(desk);
  });
  return button;
}

/** @param {Desk} desk */
export function switchTypewriter(desk) {
  isTypewriter = !isTypewriter;
  try {
    localStorage.setItem(KEPT, isTypewriter ? "on" : "off");
  } catch {
    // storage is switched off in this browser: it holds until the page is closed
  }
  desk.dispatchEvent(new Event("typewriter"));
}

function keptTypewriter() {
  try {
    return localStorage.getItem(KEPT) === "on";
  } catch {
    return false; // storage is switched off in this browser
  }
}

/** An extension of the editor. @param {Desk} desk */
export function typewriter(desk) {
  const plugin = ViewPlugin.define((view) => {
    const show = () => {
      view.contentDOM.style.paddingBlock = isTypewriter ? PADDING : "";
      view.requestMeasure();
    };
    const switched = () => {
      show();
      const { head } = view.state.selection.main;
      view.dispatch({ effects: EditorView.scrollIntoView(head, { y: isTypewriter ? "center" : "nearest" }) });
    };
    show();
    desk.addEventListener("typewriter", switched);
    return { destroy: () => desk.removeEventListener("typewriter", switched) };
  });
  const margins = EditorView.scrollMargins.of((view) => {
    const half = (view.scrollDOM.clientHeight - 2 * view.defaultLineHeight) / 2;
    return isTypewriter && half > 0 ? { top: half, bottom: half } : null;
  });
  return [plugin, margins];
}
