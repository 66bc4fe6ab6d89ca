// The pointer over the map: a click chooses a node, a drag of the ground moves the map, a drag of a node carries its words to another one, and
// two fingers enlarge.

import { firstBelow } from "./layout.js";
import { COLUMN, RAIL, WIDTH } from "./painter.js";

/** @typedef {import("../map.js").StoryMap} StoryMap */
/** @typedef {import("./layout.js").Spot} Spot */

const DRAG = 4; // px from which something is dragged
const NEAR = 10; // px beside a node that mean it still

export class Pointing {
  /** @param {StoryMap} map */
  constructor(map) {
    this.map = map;
    /** Where each finger is, or the mouse. @type {Map<number, {x: number, y: number}>} */
    this.held = new Map();
    this.isMoved = false;
    this.isInSmall = false; // whether the small map is being dragged over
    this.from = ""; // the node that the mouse was pressed on
    /** @type {HTMLCanvasElement | null} */
    this.canvas = null;
  }

  get isHeld() {
    return this.map.target !== "";
  }

  /** @param {HTMLCanvasElement} canvas */
  listen(canvas) {
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.addEventListener("pointermove", (event) => this.pull(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", (event) => this.forget(event));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const { deltaX, deltaY, shiftKey, offsetX, offsetY } = event;
    if (shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) this.map.pan(-(deltaX || deltaY), 0);
    else this.map.zoom(Math.exp(-deltaY / 500), offsetX, offsetY);
  }

  /** @param {PointerEvent} event */
  grab(event) {
    const { map } = this;
    map.canvas.setPointerCapture(event.pointerId);
    this.held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.isMoved = this.held.size > 1;
    if (this.held.size > 1) return;
    this.isInSmall = this.inSmall(event, false);
    this.from = event.pointerType === "mouse" && !this.isInSmall ? (this.at(event)?.id ?? "") : "";
  }

  /** @param {PointerEvent} event */
  pull(event) {
    const { map, held } = this;
    const before = held.get(event.pointerId);
    if (!before) return;
    const now = { x: event.offsetX, y: event.offsetY };
    if (!this.isMoved && Math.hypot(now.x - before.x, now.y - before.y) < DRAG) return;
    this.isMoved = true;
    if (this.isInSmall) this.inSmall(event, true);
    else if (this.from) this.carry(event);
    else if (held.size > 1) this.pinch(event.pointerId, now);
    else map.pan(now.x - before.x, now.y - before.y);
    held.set(event.pointerId, now);
  }

  /** Enlarge by how far two fingers move apart, about the middle between them. @param {number} pointer @param {{x: number, y: number}} now */
  pinch(pointer, now) {
    const [other] = [...this.held].filter(([id]) => id !== pointer).map(([, place]) => place);
    const before = /** @type {{x: number, y: number}} */ (this.held.get(pointer));
    const apart = (/** @type {{x: number, y: number}} */ { x, y }) => Math.max(1, Math.hypot(x - other.x, y - other.y));
    this.map.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    this.map.zoom(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  /** Show behind which node the words would go. @param {PointerEvent} event */
  carry(event) {
    const { map } = this;
    const target = this.at(event)?.id ?? "";
    map.picked = this.from;
    map.target = target === this.from ? "" : target;
    map.canvas.style.cursor = map.target ? "copy" : "grabbing";
    map.draw();
  }

  /** @param {PointerEvent} event */
  release(event) {
    const { map, from } = this;
    if (!this.held.has(event.pointerId)) return;
    const { target } = map;
    const isCarried = from !== "" && this.isMoved;
    const isTap = !this.isMoved;
    this.forget(event);
    if (isCarried) {
      map.picked = map.target = "";
      if (target) map.join(from, target);
      else map.draw();
    } else if (isTap) this.tap(event);
  }

  /** @param {PointerEvent} event */
  forget(event) {
    this.held.delete(event.pointerId);
    this.from = "";
    this.map.canvas.style.cursor = "";
  }

  /** @param {PointerEvent} event */
  tap(event) {
    const { map } = this;
    if (this.inSmall(event, true)) return;
    const spot = event.offsetY < map.room.top ? this.starAt(event) : this.at(event);
    if (spot) map.walk(spot.id);
  }

  /** The node at a point, or right beside it; null if there is none. @param {{offsetX: number, offsetY: number}} point @returns {Spot | null} */
  at({ offsetX, offsetY }) {
    const { layout, view } = this.map;
    const near = NEAR / view.scale;
    const [x, y] = [(offsetX - view.x) / view.scale, (offsetY - view.y) / view.scale];
    const place = Math.round((x - WIDTH / 2) / COLUMN);
    const column = layout.columns[place] ?? [];
    if (x < place * COLUMN - near || x > place * COLUMN + WIDTH + near) return null;
    const next = firstBelow(column, y);
    const away = (/** @type {Spot} */ each) => Math.abs(each.y - y) - each.height / 2;
    const [nearest] = [column[next], column[next - 1]].filter(Boolean).sort((one, other) => away(one) - away(other));
    return nearest && away(nearest) <= near ? nearest : null;
  }

  /** The next starred node of the column above which a star was pressed. @param {{offsetX: number}} point */
  starAt({ offsetX }) {
    const { layout, view, tree, stars, current } = this.map;
    const away = (/** @type {number} */ column) =>
      Math.abs((column * COLUMN + WIDTH / 2) * view.scale + view.x - offsetX);
    const [nearest] = [...stars].sort((one, other) => away(one) - away(other));
    if (nearest === undefined || away(nearest) > RAIL) return null;
    const starred = layout.columns[nearest].filter(({ id }) => tree.lookOf(id).star);
    return starred[(starred.findIndex(({ id }) => id === current) + 1) % starred.length] ?? null;
  }

  /** Whether a point is in the small map; moves the view there if it is to. @param {{offsetX: number, offsetY: number}} point @param {boolean} goes */
  inSmall({ offsetX, offsetY }, goes) {
    const { map } = this;
    const { clientWidth, clientHeight } = map.canvas;
    const box = map.painter?.smallBox(map.scene, clientWidth, clientHeight);
    if (!box) return false;
    const [x, y] = [offsetX - box.x, offsetY - box.y];
    const isIn = x >= 0 && y >= 0 && x <= box.width && y <= box.height;
    if (!goes || !(isIn || this.isInSmall)) return isIn;
    map.view.x = clientWidth / 2 - (x / box.scale) * map.view.scale;
    map.view.y = clientHeight / 2 - (y / box.scale + box.top) * map.view.scale;
    map.draw();
    return true;
  }
}
