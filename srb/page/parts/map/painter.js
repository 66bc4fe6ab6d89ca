// The map's drawing: only what is in view, as text where it can be read, else as the shape of its lines, else as a block.

import { SIGNS } from "../writers.js";
import { around, within } from "./layout.js";
import { LINE, MOST_LINES, PAD } from "./tree.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Spot} Spot */
/** @typedef {import("./tree.js").StoryTree} StoryTree */
/** @typedef {{x: number, y: number, scale: number}} View   px of the map's origin, and px of a unit */
/** @typedef {Record<"paper" | "card" | "line" | "ink" | "dim" | "accent" | "edit" | "focus" | "pane" | `voice-${number}`, string>} Colours */
/** @typedef {{layout: Layout, tree: StoryTree, view: View, current: string, ends: Set<string>, picked: string, target: string,
 *   bands: {name: string, column: number}[], stars: number[]}} Scene   `stars`: columns that have some; `picked`: is to be joined behind `target` */

export const COLUMN = 296; // map units from one generation to the next
export const WIDTH = 248; // of a node
export const RAIL = 36; // px of the strip with chapters and stars
const TYPE = 15;
const READABLE = 0.5; // scale from which words are drawn
const LINES = 0.14; // scale from which the lines of a text are drawn
const GRAIN = 2; // px: what is nearer to each other is drawn once
const [SMALL_WIDTH, SMALL_HEIGHT, SMALL_MARGIN] = [168, 104, 12]; // px of the small map, at most
const LEAST_HEIGHT = 28;

/** System colours, where the page's own are not wanted. @type {Colours} */
const FORCED = {
  paper: "Canvas",
  card: "Canvas",
  pane: "Canvas",
  line: "GrayText",
  ink: "CanvasText",
  dim: "GrayText",
  accent: "Highlight",
  edit: "CanvasText",
  focus: "Highlight",
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((hue) => [`voice-${hue}`, "CanvasText"])),
};

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.small = document.createElement("canvas");
    /** @type {Layout | null} that the small map shows */
    this.smallOf = null;
    /** @type {Colours | null} until they are read */
    this.colours = null;
    this.font = "serif";
    this.sans = "sans-serif";
    /** The lines of nodes' words, by node, as long as the words stay. @type {Map<string, {words: string, lines: string[]}>} */
    this.wrapped = new Map();
    this.drawn = 0; // nodes, in the last frame
  }

  /** Colours or fonts have changed. */
  forget() {
    this.colours = this.smallOf = null;
    this.wrapped.clear();
  }

  /** @returns {Colours} */
  readColours() {
    const { canvas } = this;
    const style = getComputedStyle(canvas);
    this.font = style.getPropertyValue("--text-font") || style.getPropertyValue("--prose");
    this.sans = style.getPropertyValue("--sans");
    if (matchMedia("(forced-colors: active)").matches) return FORCED;
    const colour = (/** @type {string} */ name) => resolved(canvas, style.getPropertyValue(`--${name}`));
    const names = /** @type {(keyof Colours)[]} */ (Object.keys(FORCED));
    return /** @type {Colours} */ (Object.fromEntries(names.map((name) => [name, colour(name)])));
  }

  /** @param {Scene} scene */
  paint(scene) {
    const { canvas, pen } = this;
    const { layout, view } = scene;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
    this.colours ??= this.readColours();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colours.paper;
    pen.fillRect(0, 0, width, height);
    const part = partOf(view, width, height);
    const spots = [...within(layout, part)];
    this.drawn = spots.length;
    this.paintBands(scene, width, height);
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    this.paintLinks(scene, spots, part);
    this.paintNodes(scene, spots);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintRail(scene, width);
    this.paintSmall(scene, width, height);
  }

  // ---- Lines from node to node

  /** @param {Scene} scene @param {Spot[]} spots @param {ReturnType<typeof partOf>} part */
  paintLinks({ layout, tree, view }, spots, part) {
    const { pen } = this;
    const colours = /** @type {Colours} */ (this.colours);
    const shown = new Set(spots);
    /** @type {Spot[]} */
    const ends = [];
    const passed = part.stride > 1 ? [] : around(layout, part);
    for (const here of [...spots, ...passed]) {
      if (shown.has(here) && here.parent) ends.push(here);
      for (const child of [here.children[0], here.children.at(-1)]) if (child && !shown.has(child)) ends.push(child);
    }
    const isOnPath = (/** @type {Spot} */ { id }) => tree.path.has(id);
    pen.lineWidth = Math.max(1, 0.7 / view.scale);
    pen.strokeStyle = colours.line;
    pen.beginPath();
    for (const each of ends) if (!isOnPath(each)) link(pen, /** @type {Spot} */ (each.parent), each);
    pen.stroke();
    pen.lineWidth = Math.max(5, 2.5 / view.scale);
    pen.strokeStyle = colours.accent;
    pen.beginPath();
    for (const each of ends) if (isOnPath(each)) link(pen, /** @type {Spot} */ (each.parent), each);
    pen.stroke();
  }

  // ---- Nodes

  /** @param {Scene} scene @param {Spot[]} spots */
  paintNodes(scene, spots) {
    const { tree, view } = scene;
    const { pen } = this;
    const colours = /** @type {Colours} */ (this.colours);
    const ink = { unread: colours.line, read: colours.dim, person: colours.edit, path: colours.accent };
    const isNear = view.scale >= READABLE;
    if (view.scale < LINES) {
      for (const [kind, colour] of Object.entries(ink)) {
        pen.fillStyle = colour;
        for (const each of spots) if (tree.lookOf(each.id).kind === kind) block(pen, each, view.scale);
      }
    } else
      for (const each of spots) {
        const { kind, isPerson } = tree.lookOf(each.id);
        const [x, y] = [each.column * COLUMN, each.y - each.height / 2];
        pen.fillStyle = kind === "unread" ? colours.paper : colours.card;
        pen.strokeStyle = kind === "path" ? colours.accent : colours.line;
        pen.lineWidth = kind === "path" ? 2 : 1;
        pen.beginPath();
        pen.roundRect(x, y, WIDTH, each.height, 6);
        pen.fill();
        pen.stroke();
        pen.fillStyle = colours.edit;
        if (isPerson) pen.fillRect(x + 1, y + 6, 3, each.height - 12);
        if (isNear) this.paintWords(scene, each, kind === "unread" ? colours.dim : colours.ink);
        else this.paintLines(scene, each, ink[kind]);
      }
    this.paintSigns(scene, spots);
  }

  /** @param {Scene} scene @param {Spot} spot @param {string} ink */
  paintWords({ tree }, spot, ink) {
    const { pen } = this;
    const { name } = tree.lookOf(spot.id);
    const lines = this.linesOf(tree, spot);
    const isLeft = RIGHT_TO_LEFT.test(lines[0] ?? "");
    const x = spot.column * COLUMN + (isLeft ? WIDTH - PAD - 4 : PAD + 4);
    pen.direction = isLeft ? "rtl" : "ltr";
    pen.textAlign = isLeft ? "right" : "left";
    pen.textBaseline = "middle";
    pen.fillStyle = ink;
    for (const [place, line] of lines.entries()) {
      pen.font = name && place === 0 ? `600 ${TYPE}px ${this.font}` : `${TYPE}px ${this.font}`;
      pen.fillText(line, x, spot.y - spot.height / 2 + PAD + (place + 0.5) * LINE);
    }
  }

  /** The shape of a text: a bar for each of its lines. @param {Scene} scene @param {Spot} spot @param {string} ink */
  paintLines({ tree }, spot, ink) {
    const { pen } = this;
    pen.fillStyle = ink;
    const count = Math.round((spot.height - 2 * PAD) / LINE);
    const { length } = tree.story.nodes.get(spot.id)?.text ?? "";
    const last = Math.max(0.15, Math.min(1, (length % 28) / 28));
    pen.globalAlpha = 0.45;
    for (let line = 0; line < count; line += 1) {
      const y = spot.y - spot.height / 2 + PAD + (line + 0.3) * LINE;
      const isLast = line === count - 1 && count < MOST_LINES;
      pen.fillRect(spot.column * COLUMN + PAD + 4, y, (WIDTH - 2 * PAD - 8) * (isLast ? last : 1), LINE * 0.4);
    }
    pen.globalAlpha = 1;
  }

  /** The lines of a node's words: its name, then how it begins. @param {StoryTree} tree @param {Spot} spot */
  linesOf(tree, { id, height }) {
    const { name } = tree.lookOf(id);
    const words = `${name}\n${tree.wordsOf(id)}`;
    const known = this.wrapped.get(id);
    if (known?.words === words) return known.lines;
    const most = Math.round((height - 2 * PAD) / LINE);
    this.pen.font = `${name ? "600 " : ""}${TYPE}px ${this.font}`;
    const measure = (/** @type {string} */ line) => this.pen.measureText(line).width;
    const lines = name ? wrap(name, 1, measure) : [];
    this.pen.font = `${TYPE}px ${this.font}`;
    if (most > lines.length) lines.push(...wrap(words.slice(name.length + 1), most - lines.length, measure));
    this.wrapped.set(id, { words, lines });
    return lines;
  }

  /** Stars, ends that differ most, what is collapsed, what is chosen and what is carried: at any scale. @param {Scene} scene @param {Spot[]} spots */
  paintSigns({ tree, view, ends, current, picked, target }, spots) {
    const { pen } = this;
    const colours = /** @type {Colours} */ (this.colours);
    const size = Math.max(14, 9 / view.scale);
    pen.font = `${size}px ${this.sans}`;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const each of spots) {
      const right = each.column * COLUMN + WIDTH;
      const { hue } = tree.lookOf(each.id);
      pen.fillStyle = colours[`voice-${hue}`];
      if (hue && view.scale >= LINES)
        pen.fillText(SIGNS[hue - 1], right - size - 4, each.y + each.height / 2 - size / 2 - 4);
      pen.fillStyle = colours.edit;
      if (tree.lookOf(each.id).star) pen.fillText("★", right - size * 0.9, each.y - each.height / 2);
      const count = tree.hidden.get(each.id);
      pen.fillStyle = colours.dim;
      if (count) pen.fillText(`+${count}`, right + 6, each.y);
      if (ends.has(each.id)) this.ring(each, colours.ink, 3 / view.scale, 6 / view.scale);
      if (each.id === picked) this.ring(each, colours.edit, 3 / view.scale, 3 / view.scale);
      if (each.id === target) this.ring(each, colours.accent, 4 / view.scale, 6 / view.scale);
      if (each.id === current) this.ring(each, colours.focus, 2.5 / view.scale, 3 / view.scale);
    }
  }

  /** @param {Spot} spot @param {string} colour @param {number} width @param {number} away */
  ring({ column, y, height }, colour, width, away) {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    pen.roundRect(column * COLUMN - away, y - height / 2 - away, WIDTH + 2 * away, height + 2 * away, 6 + away);
    pen.stroke();
  }

  // ---- Chapters and stars, above and behind all

  /** @param {Scene} scene @param {number} width @param {number} height */
  paintBands({ bands, view }, width, height) {
    const { pen } = this;
    const colours = /** @type {Colours} */ (this.colours);
    for (const [place, { column }] of bands.entries()) {
      const [from, to] = [column, bands[place + 1]?.column ?? Number.POSITIVE_INFINITY].map((each) => edge(view, each));
      if (to < 0 || from > width) continue;
      pen.fillStyle = colours.pane;
      if (place % 2 === 0) pen.fillRect(from, 0, Math.min(to, width) - from, height);
      pen.fillStyle = colours.line;
      pen.fillRect(from, 0, 1, height);
    }
  }

  /** @param {Scene} scene @param {number} width */
  paintRail({ bands, stars, view }, width) {
    if (!bands.length && !stars.length) return;
    const { pen } = this;
    const colours = /** @type {Colours} */ (this.colours);
    pen.fillStyle = colours.pane;
    pen.fillRect(0, 0, width, RAIL);
    pen.fillStyle = colours.line;
    pen.fillRect(0, RAIL, width, 1);
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = `13px ${this.sans}`;
    pen.fillStyle = colours.ink;
    let free = Number.NEGATIVE_INFINITY;
    for (const [place, { name, column }] of bands.entries()) {
      const [from, to] = [column, bands[place + 1]?.column ?? Number.POSITIVE_INFINITY].map((each) => edge(view, each));
      const x = Math.max(from, 0) + 8; // the chapter in view keeps its name in view
      if (to < 0 || from > width || to - x < 24 || x < free) continue;
      const [line = ""] = wrap(name, 1, (words) => pen.measureText(words).width, to - x - 8);
      pen.fillText(line, x, 11);
      free = x + pen.measureText(line).width + 8;
    }
    pen.fillStyle = colours.edit;
    free = Number.NEGATIVE_INFINITY;
    for (const column of stars) {
      const x = (column * COLUMN + WIDTH / 2) * view.scale + view.x;
      if (x < free || x > width) continue;
      pen.fillText("★", x - 6, RAIL - 9);
      free = x + 12;
    }
  }

  // ---- The small map

  /** Where the small map is; null where all of the story is in view. @param {Scene} scene @param {number} width @param {number} height */
  smallBox({ layout, view }, width, height) {
    const { columns, top, bottom } = layout;
    const right = columns.length * COLUMN;
    const isWhole =
      view.x >= 0 &&
      right * view.scale + view.x <= width + (COLUMN - WIDTH) * view.scale &&
      top * view.scale + view.y >= 0 &&
      bottom * view.scale + view.y <= height;
    if (isWhole || width < 3 * SMALL_WIDTH || height < 2.5 * SMALL_HEIGHT) return null;
    const scale = Math.min(SMALL_WIDTH / right, SMALL_HEIGHT / Math.max(1, bottom - top));
    const high = Math.max(LEAST_HEIGHT, (bottom - top) * scale);
    const [x, y] = [width - SMALL_WIDTH - SMALL_MARGIN, height - high - SMALL_MARGIN];
    return { x, y, width: SMALL_WIDTH, height: high, scale, top: (top + bottom - high / scale) / 2 };
  }

  /** @param {Scene} scene @param {number} width @param {number} height */
  paintSmall(scene, width, height) {
    const box = this.smallBox(scene, width, height);
    if (!box) return;
    const { pen } = this;
    const { view } = scene;
    const colours = /** @type {Colours} */ (this.colours);
    if (this.smallOf !== scene.layout) this.drawSmall(scene, box);
    pen.drawImage(this.small, box.x, box.y, box.width, box.height);
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
    pen.save();
    pen.beginPath();
    pen.rect(box.x, box.y, box.width, box.height);
    pen.clip();
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 2;
    const [left, top] = [-view.x / view.scale, -view.y / view.scale];
    pen.strokeRect(
      box.x + left * box.scale,
      box.y + (top - box.top) * box.scale,
      Math.max(4, (width / view.scale) * box.scale),
      Math.max(4, (height / view.scale) * box.scale),
    );
    pen.restore();
  }

  /** @param {Scene} scene @param {{width: number, height: number, scale: number, top: number}} box */
  drawSmall({ layout, tree }, { width, height, scale, top }) {
    this.smallOf = layout;
    const ratio = devicePixelRatio;
    [this.small.width, this.small.height] = [width * ratio, height * ratio];
    const pen = /** @type {CanvasRenderingContext2D} */ (this.small.getContext("2d"));
    const colours = /** @type {Colours} */ (this.colours);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width * ratio, height * ratio);
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, 0, -top * scale * ratio);
    const part = { first: 0, last: layout.columns.length, top: layout.top, bottom: layout.bottom };
    const stride = Math.max(1, Math.floor(1 / (COLUMN * scale)));
    const spots = [...within(layout, { ...part, grain: 1 / scale, stride })];
    for (const [isOnPath, colour] of /** @type {const} */ ([
      [false, colours.line],
      [true, colours.accent],
    ])) {
      pen.fillStyle = colour;
      for (const each of spots) if (tree.path.has(each.id) === isOnPath) block(pen, each, scale);
    }
  }
}

/** Where a column begins, in px: in the middle of the gap before it. @param {View} view @param {number} column */
const edge = ({ scale, x }, column) => (column * COLUMN - (COLUMN - WIDTH) / 2) * scale + x;

/** The part of the map that is in view. @param {View} view @param {number} width @param {number} height */
export function partOf({ x, y, scale }, width, height) {
  return {
    first: Math.floor((-x / scale - WIDTH) / COLUMN) + 1,
    last: Math.floor((width - x) / scale / COLUMN),
    top: -y / scale,
    bottom: (height - y) / scale,
    grain: GRAIN / scale,
    stride: Math.max(1, Math.floor(GRAIN / (COLUMN * scale))),
  };
}

/** @param {CanvasRenderingContext2D} pen @param {Spot} from @param {Spot} to */
function link(pen, from, to) {
  const [x0, x1] = [from.column * COLUMN + WIDTH, to.column * COLUMN];
  const middle = (x0 + x1) / 2;
  pen.moveTo(x0, from.y);
  if (from.y === to.y) pen.lineTo(x1, to.y);
  else pen.bezierCurveTo(middle, from.y, middle, to.y, x1, to.y);
}

/** A node that is too small for its lines: a block of one px at least. @param {CanvasRenderingContext2D} pen @param {Spot} spot @param {number} scale */
function block(pen, { column, y, height }, scale) {
  const high = Math.max(height * 0.8, 1 / scale);
  pen.fillRect(column * COLUMN, y - high / 2, Math.max(WIDTH, 1 / scale), high);
}

const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u;

/**
 * Cut words into lines that fit; the last one ends in “…” if more would follow. Words that are longer than a line, as in a language
 * without spaces, are cut themselves.
 * @param {string} words @param {number} most lines @param {(line: string) => number} measure @param {number} [width]
 */
export function wrap(words, most, measure, width = WIDTH - 2 * PAD - 8) {
  /** @type {string[]} */
  const lines = [];
  let line = "";
  const parts = words.split(/(?<=\s)/u);
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    if (measure((line + part).trimEnd()) <= width) {
      line += part;
      continue;
    }
    if (!line) {
      let fits = 1;
      const signs = [...part];
      while (fits < signs.length && measure(signs.slice(0, fits + 1).join("")) <= width) fits += 1;
      line = signs.slice(0, fits).join("");
      part = signs.slice(fits).join("");
    }
    lines.push(line.trimEnd());
    line = "";
    if (part) parts.unshift(part);
    if (lines.length === most && parts.length) return [...lines.slice(0, -1), cut(lines[most - 1], measure, width)];
  }
  return line ? [...lines, line.trimEnd()] : lines;
}

/** @param {string} line @param {(line: string) => number} measure @param {number} width */
function cut(line, measure, width) {
  let signs = [...line];
  while (signs.length && measure(`${signs.join("").trimEnd()}…`) > width) signs = signs.slice(0, -1);
  return `${signs.join("").trimEnd()}…`;
}

/** The colour that a value such as light-dark(…) is here. @param {HTMLElement} element @param {string} value */
function resolved(element, value) {
  const before = element.style.color;
  element.style.color = value;
  const colour = getComputedStyle(element).color;
  element.style.color = before;
  return colour;
}
