// The map: all branches of a story as a tree on a canvas, that can be moved, enlarged and walked with the arrow keys.

import { msg } from "../languages.js";
import { labelOf } from "../outline_rows.js";
import { hierarchy, tree } from "../vendor/hierarchy.js";
import { html } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { DialogPart } from "./part.js";

/** @typedef {import("../vendor/hierarchy.js").HierarchyPointNode<string>} Point */

const [ACROSS, DOWN] = [190, 24]; // px between generations and between siblings, at scale 1
const RADIUS = 4;
const LABELS_FROM = 0.7; // scale from which nodes have their words
const LABEL = 24; // characters of them, where there is room
const CHARACTER = 6.5; // px, about
const [SMALLEST, LARGEST] = [0.05, 3];
const ROOMY = 1.6; // largest scale at which a small story is shown at first
const MARGIN = 40; // px around a story that fits
const NEAR = 14; // px within which a click means a node

export class StoryMap extends DialogPart {
  constructor() {
    super("map");
    /** @type {Map<string, Point>} */
    this.points = new Map();
    /** @type {string[][]} ids by column, each from top to bottom */
    this.columns = [];
    /** Widths of labels in px, by node. @type {Map<string, number>} */
    this.widths = new Map();
    this.length = LABEL;
    this.current = "";
    /** @type {Set<string>} nodes that have a ring */
    this.ends = new Set();
    this.view = { x: 0, y: 0, scale: 1 };
    /** @type {{x: number, y: number, moved: boolean} | null} */
    this.drag = null;
    this.frame = 0;
  }

  async open() {
    this.current = this.desk.head.node;
    this.ends = new Set(this.desk.rounds?.ends);
    this.layOut();
    await super.open();
    this.fit();
    this.canvas.focus();
  }

  get canvas() {
    return /** @type {HTMLCanvasElement} */ (this.querySelector("canvas"));
  }

  layOut() {
    const { story } = this.desk;
    const root = hierarchy("", (/** @type {string} */ id) => story.children(id));
    const laid = /** @type {Point} */ (/** @type {any} */ (tree().nodeSize([DOWN, ACROSS])(/** @type {any} */ (root))));
    this.points = new Map();
    this.columns = [];
    this.widths.clear();
    laid.each((/** @type {Point} */ point) => {
      if (point.depth === 0) return; // stands for all roots
      this.points.set(point.data, point);
      this.columns[point.depth] ??= [];
      this.columns[point.depth].push(point.data);
    });
    for (const column of this.columns)
      column?.sort((a, b) => (this.points.get(a)?.x ?? 0) - (this.points.get(b)?.x ?? 0));
  }

  render() {
    const count = this.points.size;
    return html`<dialog class="map" aria-labelledby="map-title">
      <header class="dialog-head">
        <h2 id="map-title">${msg`Map`}</h2>
        ${closeButton(() => this.close())}
      </header>
      <p class="help">${count === 1 ? msg`1 node.` : msg`${count} nodes.`}
        ${this.ends.size ? msg`Those with a ring are the ${this.ends.size} ends that differ most.` : ""}<span class="keys"> ${msg`Arrow keys walk, Enter opens, drag to move, wheel or + and − to enlarge.`}</span></p>
      <canvas tabindex="0" role="application" aria-roledescription=${msg`map of the story`} aria-label=${this.words()}
        @pointerdown=${(/** @type {PointerEvent} */ event) => this.grab(event)}
        @pointermove=${(/** @type {PointerEvent} */ event) => this.pull(event)}
        @pointerup=${(/** @type {PointerEvent} */ event) => this.release(event)}
        @dblclick=${() => this.choose()}
        @wheel=${(/** @type {WheelEvent} */ event) => this.wheel(event)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.key(event)}></canvas>
      <p class="words" dir="auto" aria-hidden="true">${this.words()}</p>
      <p class="tools"><button class="main" ?disabled=${!this.points.has(this.current)} @click=${() => this.choose()}>${msg`Open`}</button>
        <button aria-label=${msg`Enlarge`} @click=${() => this.zoom(1.3)}>+</button>
        <button aria-label=${msg`Make smaller`} @click=${() => this.zoom(1 / 1.3)}>−</button>
        <button @click=${() => this.fit()}>${msg`All of it`}</button>
        <button @click=${() => this.centre()}>${msg`Where I am`}</button>
        ${this.ends.size ? html`<button @click=${() => this.nextEnd()}>${msg`Next end`}</button>` : ""}</p>
    </dialog>`;
  }

  /** The words of the node that is chosen. */
  words() {
    const node = this.desk.story.nodes.get(this.current);
    if (!node) return msg`The beginning of the story`;
    const { name, star } = this.desk.story.mark(node.id);
    return `${this.ends.has(node.id) ? "◎ " : ""}${star ? "★ " : ""}${name ? `${name}: ` : ""}${labelOf(node, 300)}`;
  }

  /** Choose the next of the ends that have a ring. */
  nextEnd() {
    const ends = [...this.ends].filter((id) => this.points.has(id));
    if (ends.length) this.walk(ends[(ends.indexOf(this.current) + 1) % ends.length]);
  }

  choose() {
    if (!this.points.has(this.current)) return;
    this.close();
    this.desk.openNode(this.current);
  }

  // ---- Drawing: only what is in view

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  paint() {
    const { canvas, view } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio)
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(this);
    const colour = (/** @type {string} */ name) => resolved(this, style.getPropertyValue(name));
    const colours = {
      line: colour("--line"),
      ink: colour("--ink"),
      model: colour("--accent"),
      person: colour("--edit"),
      focus: colour("--focus"),
    };
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const path = new Set(this.desk.story.path(this.desk.head.node));
    pen.font = `12px ${style.getPropertyValue("--sans")}`;
    const isLabelled = view.scale >= LABELS_FROM;
    this.setLabel(Math.min(LABEL, Math.floor((ACROSS * view.scale - 30) / CHARACTER)));
    const end = (/** @type {Point} */ point) => {
      const [x, y] = this.place(point);
      return /** @type {[number, number]} */ ([
        isLabelled ? x + Math.min(RADIUS + 8 + this.labelWidth(pen, point.data), ACROSS * view.scale - 20) : x,
        y,
      ]);
    };
    for (const point of this.points.values()) {
      const [x, y] = this.place(point);
      const from = point.parent && point.parent.depth > 0 ? end(point.parent) : null;
      const isOut =
        x < -ACROSS * view.scale ||
        (from?.[0] ?? x) > width ||
        Math.max(y, from?.[1] ?? y) < 0 ||
        Math.min(y, from?.[1] ?? y) > height;
      if (isOut) continue;
      if (from)
        link(pen, from, [x, y], path.has(point.data) ? colours.model : colours.line, path.has(point.data) ? 2 : 1);
      this.dot(pen, point, x, y, path, colours);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} pen @param {Point} point @param {number} x @param {number} y @param {Set<string>} path
   * @param {Record<string, string>} colours
   */
  dot(pen, point, x, y, path, colours) {
    const { story } = this.desk;
    const node = story.nodes.get(point.data);
    if (!node) return;
    const { star, name, pruned } = story.mark(node.id);
    pen.globalAlpha = pruned ? 0.35 : 1;
    pen.fillStyle = node.by === "model" ? colours.model : colours.person;
    pen.beginPath();
    pen.arc(x, y, star ? RADIUS * 1.6 : RADIUS, 0, 2 * Math.PI);
    pen.fill();
    const isEnd = this.ends.has(node.id);
    if (isEnd || node.id === this.current) {
      pen.strokeStyle = node.id === this.current ? colours.focus : colours.ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, RADIUS * 2.4, 0, 2 * Math.PI);
      pen.stroke();
    }
    if (this.view.scale >= LABELS_FROM || name || node.id === this.current) {
      pen.fillStyle = path.has(node.id) ? colours.model : colours.ink;
      pen.fillText(this.label(node.id), x + (isEnd ? 2.4 * RADIUS : RADIUS) + 4, y + 4);
    }
    pen.globalAlpha = 1;
  }

  /** @param {number} length most characters of a label */
  setLabel(length) {
    if (length !== this.length) this.widths.clear();
    this.length = length;
  }

  /** The words beside a node: its name, or how it begins. @param {string} id */
  label(id) {
    const node = this.desk.story.nodes.get(id);
    if (!node) return "";
    const { name } = this.desk.story.mark(id);
    const length = this.view.scale < LABELS_FROM ? LABEL : this.length;
    return labelOf(name ? { ...node, text: name } : node, length);
  }

  /** How many px the words beside a node take; lines to its children begin after them. @param {CanvasRenderingContext2D} pen @param {string} id */
  labelWidth(pen, id) {
    const known = this.widths.get(id);
    if (known !== undefined) return known;
    const { width } = pen.measureText(this.label(id));
    this.widths.set(id, width);
    return width;
  }

  /** @param {Point} point @returns {[number, number]} */
  place({ x, y }) {
    const { view } = this;
    return [y * view.scale + view.x, x * view.scale + view.y];
  }

  /** Show the whole story where its words can be read so, else the place of the head. */
  fit() {
    const { canvas, view } = this;
    const points = [...this.points.values()];
    const [top, bottom] = points.reduce(([low, high], { x }) => [Math.min(low, x), Math.max(high, x)], [0, 0]);
    const right = points.reduce((most, { y }) => Math.max(most, y), 0) + ACROSS;
    const width = canvas.clientWidth - 2 * MARGIN;
    const height = canvas.clientHeight - 2 * MARGIN;
    view.scale = Math.min(ROOMY, width / (right - ACROSS || 1), height / (bottom - top || 1));
    if (view.scale < LABELS_FROM && !this.ends.size) {
      view.scale = 1;
      return this.centre();
    }
    view.x = MARGIN + width / 2 - ((ACROSS + right) / 2) * view.scale;
    view.y = MARGIN + height / 2 - ((top + bottom) / 2) * view.scale;
    this.draw();
  }

  /** Put the chosen node into the middle. */
  centre() {
    this.current = this.points.has(this.current) ? this.current : this.desk.head.node;
    const point = this.points.get(this.current);
    const { canvas, view } = this;
    view.x = canvas.clientWidth / 2 - (point?.y ?? 0) * view.scale;
    view.y = canvas.clientHeight / 2 - (point?.x ?? 0) * view.scale;
    this.draw();
  }

  /** @param {number} factor @param {number} [x] px of the point that stays @param {number} [y] */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const { view } = this;
    const scale = Math.max(SMALLEST, Math.min(LARGEST, view.scale * factor));
    view.x = x - ((x - view.x) / view.scale) * scale;
    view.y = y - ((y - view.y) / view.scale) * scale;
    view.scale = scale;
    this.draw();
  }

  // ---- Gestures

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 500), event.offsetX, event.offsetY);
  }

  /** @param {PointerEvent} event */
  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, y: event.clientY, moved: false };
  }

  /** @param {PointerEvent} event */
  pull(event) {
    if (!this.drag) return;
    const [dx, dy] = [event.clientX - this.drag.x, event.clientY - this.drag.y];
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return;
    this.view.x += dx;
    this.view.y += dy;
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.draw();
  }

  /** @param {PointerEvent} event */
  release(event) {
    if (this.drag && !this.drag.moved) this.pick(event.offsetX, event.offsetY);
    this.drag = null;
  }

  /** Choose the node at a point of the canvas. @param {number} x @param {number} y */
  pick(x, y) {
    let [nearest, distance] = ["", NEAR];
    for (const point of this.points.values()) {
      const [px, py] = this.place(point);
      const far = Math.hypot(px - x, py - y);
      if (far < distance) [nearest, distance] = [point.data, far];
    }
    if (nearest) this.walk(nearest);
  }

  /** @param {string} id */
  walk(id) {
    this.current = id;
    this.requestUpdate();
    const point = this.points.get(id);
    const [x, y] = point ? this.place(point) : [0, 0];
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (x < 40 || y < 20 || x > width - 120 || y > height - 20) this.centre();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { story } = this.desk;
    const point = this.points.get(this.current);
    const column = this.columns[point?.depth ?? 1] ?? [];
    const place = column.indexOf(this.current);
    const steps = {
      ArrowRight: () => story.children(this.current)[0],
      ArrowLeft: () => story.nodes.get(this.current)?.parent,
      ArrowDown: () => column[place + 1],
      ArrowUp: () => column[place - 1],
    };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step) {
      const id = step();
      if (id) this.walk(id);
    } else if (event.key === "Enter") this.choose();
    else if (event.key === "+") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else return;
    event.preventDefault();
  }
}

/** @param {CanvasRenderingContext2D} pen @param {[number, number]} from @param {[number, number]} to @param {string} colour @param {number} width */
function link(pen, [x0, y0], [x1, y1], colour, width) {
  const middle = (x0 + x1) / 2;
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(middle, y0, middle, y1, x1, y1);
  pen.stroke();
}

/** The colour that a value such as light-dark(…) is here. @param {HTMLElement} element @param {string} value */
function resolved(element, value) {
  const before = element.style.color;
  element.style.color = value;
  const colour = getComputedStyle(element).color;
  element.style.color = before;
  return colour;
}

customElements.define("srb-map", StoryMap);
