// Swipes over the cards of a phone: to the right takes a card, to the left sets it aside.

/** @typedef {import("../branches.js").Branches} Pane */
/** @typedef {import("../card.js").Card} Card */

const START = 12; // px from which a finger swipes, and does not tap
const FAR = 90; // px from which letting go acts

export class Swipe {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    /** @type {{card: Card, pointer: number, x: number, y: number, way: number} | null} */
    this.held = null;
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const { pane } = this;
    pane.addEventListener("pointerdown", (event) => this.begin(event), { signal });
    pane.addEventListener("pointermove", (event) => this.follow(event), { signal });
    pane.addEventListener("pointerup", () => this.end(true), { signal });
    pane.addEventListener("pointercancel", () => this.end(false), { signal }); // the finger scrolls the list
  }

  /** @param {PointerEvent} event */
  begin({ pointerType, pointerId, isPrimary, clientX, clientY, target }) {
    const isButton = target instanceof Element && target.closest("button") !== null;
    const card = this.pane.cardOf(/** @type {any} */ ({ target }));
    if (pointerType === "mouse" || !isPrimary || isButton || !card || getSelection()?.type === "Range") return;
    this.held = { card, pointer: pointerId, x: clientX, y: clientY, way: 0 };
  }

  /** @param {PointerEvent} event */
  follow({ pointerId, clientX, clientY }) {
    const { held } = this;
    if (held?.pointer !== pointerId) return;
    const way = clientX - held.x;
    if (held.way === 0 && (Math.abs(way) < START || Math.abs(way) < Math.abs(clientY - held.y))) return;
    held.way = way;
    this.show(held.card, way);
  }

  /** @param {boolean} isDone */
  end(isDone) {
    const { held, pane } = this;
    this.held = null;
    if (!held?.way) return;
    this.show(held.card, 0);
    const gesture = held.way >= FAR ? "take" : held.way <= -FAR ? "prune" : null;
    if (!isDone || gesture === null) return;
    pane.board?.setCurrent(held.card.slot.number);
    pane.gesture(gesture, held.card.slot);
  }

  /** Move the card with the finger, and say what letting go does. @param {Card} card @param {number} way */
  show({ box }, way) {
    box.style.translate = way ? `${way}px` : "";
    if (Math.abs(way) < FAR) box.removeAttribute("data-swipe");
    else box.setAttribute("data-swipe", way > 0 ? "take" : "prune");
  }
}
