// What is marked of a card, dragged to a place of the text. A key does the same at the caret: S.

import { EditorView } from "../../vendor/codemirror.js";

/** @typedef {import("../branches.js").Branches} Pane */

const KIND = "application/x-srb-card";

/** Let a card be dragged by what is marked of it. @param {Pane} pane @param {AbortSignal} signal */
export function dragMarked(pane, signal) {
  /** @type {HTMLElement | null} */
  let held = null;
  const release = () => held?.removeAttribute("draggable");
  const press = (/** @type {MouseEvent} */ event) => {
    release();
    const card = pane.cardOf(event);
    const at = card?.content.offsetAt(event.clientX, event.clientY) ?? null;
    const { start = 0, mark = null, text = "" } = card?.slot ?? {};
    const isMarked = mark !== null || start > 0;
    if (!card || at === null || !isMarked || event.button !== 0 || at < start || at > (mark ?? text.length)) return;
    held = card.body;
    held.draggable = true;
  };
  const begin = (/** @type {DragEvent} */ event) => {
    const card = pane.cardOf(event);
    if (!held || event.target !== held || !card) return;
    event.dataTransfer?.setData(KIND, `${card.slot.number}`);
    event.dataTransfer?.setData("text/plain", pane.round?.taken(card.slot.number).text ?? "");
  };
  pane.addEventListener("mousedown", press, { signal });
  pane.addEventListener("dragstart", begin, { signal });
  pane.addEventListener("dragend", release, { signal });
  addEventListener("mouseup", release, { signal });
}

/** Let the text take what is dragged from a card. @param {import("../../desk.js").Desk} desk */
export const takesDragged = (desk) =>
  EditorView.domEventHandlers({
    drop(event, view) {
      const number = event.dataTransfer?.getData(KIND) ?? "";
      const at = view.posAtCoords({ x: event.clientX, y: event.clientY });
      if (number === "" || at === null) return false;
      event.preventDefault();
      desk.rounds?.gestures.put(Number(number), { from: at, to: at });
      return true;
    },
  });
