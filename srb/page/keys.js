/** Keys that work anywhere on the page; those of a pane are the pane's own. */

/** @typedef {import("./desk.js").Desk} Desk */

const STAYS = "[popover=manual]:popover-open"; // a form that stays while a person goes on beside it
const PANES = ["srb-manuscript", "srb-branches", "srb-map", "srb-outline", "srb-header", "srb-side-panel", STAYS];

/** @type {Record<string, (desk: Desk) => unknown>} */
const ALT = {
  KeyA: (desk) => desk.openDialog("ask"),
  KeyC: (desk) => desk.openDialog("chapters"),
  KeyM: (desk) => desk.tell("side", { focus: true }),
  KeyS: (desk) => desk.switchSurprise(),
};

/** Whether a key belongs to text that is being composed. Safari sends the last one after the end, with this code. @param {KeyboardEvent} event */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

/** Whether something is open that has all keys: a dialog, a menu, what a click beside it closes. @param {ParentNode} [page] */
export const isKeyless = (page = document) =>
  page.querySelector("dialog[open], :popover-open:not([popover=manual])") !== null;

/**
 * Listen to the page's keys; return a function that stops listening.
 * @param {Desk} desk @param {Document} [page]
 */
export function bindKeys(desk, page = document) {
  const listener = (/** @type {KeyboardEvent} */ event) => {
    if (event.defaultPrevented || isComposing(event) || isKeyless(page)) return;
    const act = actionOf(event, desk, page);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  page.addEventListener("keydown", listener, { capture: true });
  return () => page.removeEventListener("keydown", listener, { capture: true });
}

/**
 * Return what a key does, or null where it is the focused element's.
 * @param {KeyboardEvent} event @param {Desk} desk @param {Document} page
 * @returns {(() => void) | null}
 */
function actionOf(event, desk, page) {
  const control = event.ctrlKey || event.metaKey;
  if (control && !event.altKey && event.code.startsWith("Key")) return letterOf(event, desk);
  switch (event.code) {
    case "Enter":
    case "NumpadEnter":
      return control && !event.altKey && !isInForm(event, page)
        ? () => (event.shiftKey ? desk.go({ isAtEnd: true }) : desk.next())
        : null;
    case "F6":
      return control || event.altKey ? null : () => nextPane(page, event.shiftKey ? -1 : 1);
    case "Escape":
      return control || event.altKey || isField(event) || isInForm(event, page) || wantsEscape(event, page)
        ? null
        : () => stopOrLeave(desk, page);
    case "KeyT":
      return event.altKey && !control && !event.shiftKey && isInText(event, page) ? () => desk.askWords() : null;
    default:
      if (ALT[event.code] && event.altKey && !control && !event.shiftKey) return () => ALT[event.code](desk);
      if (control && !event.altKey) return letterOf(event, desk);
      return event.key === "?" && !control && !event.altKey && !takesText(event) ? () => desk.openDialog("help") : null;
  }
}

/**
 * Return what a letter does with Ctrl or ⌘: letters, not places of keys, since Z and Y change places on German keyboards.
 * @param {KeyboardEvent} event @param {Desk} desk
 */
function letterOf(event, desk) {
  const letter = event.key.toLowerCase();
  if (letter === "s" && !event.shiftKey) return () => desk.sayWhenSaved();
  if (letter === "d" && event.shiftKey) return () => desk.openDialog("directions");
  if (isField(event)) return null; // a field has an undo of its own
  if (letter === "z") return () => (event.shiftKey ? desk.redo() : desk.undo());
  return letter === "y" && !event.shiftKey ? () => desk.redo() : null;
}

/** Whether the manuscript's search panel takes the key. @param {KeyboardEvent} event @param {Document} page */
function wantsEscape(event, page) {
  const manuscript = /** @type {any} */ (paneOf(page, "srb-manuscript"));
  return manuscript?.wantsEscape?.(event) ?? false;
}

/** Whether a key is pressed in a form that stays. @param {KeyboardEvent} event @param {Document} page */
const isInForm = (event, page) => page.querySelector(STAYS)?.contains(/** @type {Node} */ (event.target)) ?? false;

/**
 * Take back out of the text what a person only looks at; else stop what runs; else close the form that stays; a last time, go to the manuscript.
 * @param {Desk} desk @param {Document} page
 */
function stopOrLeave(desk, page) {
  const form = /** @type {any} */ (page.querySelector(STAYS)?.parentElement);
  if (desk.ghost) desk.showGhost(null);
  else if (desk.isRunning) desk.stop();
  else if (form) form.close();
  else paneOf(page, "srb-manuscript")?.focus();
}

/** @param {Document} page @param {number} step */
export function nextPane(page, step) {
  const panes = PANES.filter((name) => isShown(paneOf(page, name)));
  const now = panes.findIndex((name) => paneOf(page, name)?.contains(page.activeElement));
  paneOf(page, panes[(now + step + panes.length) % panes.length])?.focus();
}

/** @param {Document} page @param {string} name @returns {HTMLElement | null} */
function paneOf(page, name) {
  return page.querySelector(name);
}

/** Whether a pane can be seen: on a phone the header has no box of its own, but its buttons have. @param {HTMLElement | null} pane */
function isShown(pane) {
  const boxes = pane === null ? [] : [pane, ...pane.querySelectorAll("button")];
  return boxes.some((each) => each.getClientRects().length > 0 && getComputedStyle(each).visibility !== "hidden");
}

/** Whether the key goes to a field of a form, which has its own undo. @param {KeyboardEvent} event */
function isField(event) {
  const target = event.composedPath()[0];
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
}

/** Whether the key is pressed in the manuscript itself, and not in its search panel. @param {KeyboardEvent} event @param {Document} page */
function isInText(event, page) {
  const pane = paneOf(page, "srb-manuscript");
  return pane !== null && event.composedPath().includes(pane) && !isField(event);
}

/** @param {KeyboardEvent} event */
function takesText(event) {
  const target = event.composedPath()[0];
  return (
    isField(event) || target instanceof HTMLSelectElement || (target instanceof HTMLElement && target.isContentEditable)
  );
}
