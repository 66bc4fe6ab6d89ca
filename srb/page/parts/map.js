// The map: all branches of a story from left to right, beside the manuscript, which shows the one that is pointed at in its place.

import { graft } from "../desk/graft.js";
import { msg, NUMBER } from "../languages.js";
import { html } from "../vendor/lit.js";
import { closeButton } from "./icons.js";
import { COLUMN, Painter, RAIL, WIDTH } from "./map/painter.js";
import { Pointing } from "./map/pointing.js";
import { StoryTree } from "./map/tree.js";
import { toggleMark } from "./outline_acts.js";
import { Part } from "./part.js";

/** @typedef {import("./map/layout.js").Spot} Spot */

const [SMALLEST, LARGEST] = [0.002, 2.5];
const READING = 1; // scale at which words have the size of the cards'
const ROOMY = 1.2; // largest scale at which a small story is shown at first
const MARGIN = 24; // px around what is shown
const STEP = 1.3; // of the scale
const REFRESH = 250; // ms between two layouts while branches grow

export class StoryMap extends Part {
  static properties = { isOpen: { state: true }, isWide: { state: true }, picked: { state: true } };

  constructor() {
    super();
    this.isOpen = false;
    this.isWide = false;
    this.picked = ""; // the node whose words are to go on behind another one
    this.target = ""; // that one, while they are dragged
    this.current = "";
    this.view = { x: 0, y: 0, scale: 1 };
    /** @type {StoryTree} of the open story, from `listen` on */
    this.tree = /** @type {any} */ (null);
    /** @type {import("./map/layout.js").Layout} */
    this.layout = { columns: [], forks: [], spots: new Map(), top: 0, bottom: 0 };
    /** @type {{name: string, column: number}[]} */
    this.bands = [];
    /** @type {number[]} */
    this.stars = [];
    /** @type {Painter | null} */
    this.painter = null;
    this.pointing = new Pointing(this);
    this.size = 0; // nodes of the story when it was laid out
    this.frame = 0;
  }

  listen() {
    const { signal } = this.listeners;
    this.tree ??= new StoryTree(this.desk.story);
    this.on("dialog", ({ name }) => name === "map" && this.openOrClose());
    this.on("story", () => this.isOpen && this.desk.story !== this.tree.story && this.begin());
    this.on("nodes", ({ ids, isGrowth }) => {
      this.tree.looks.clear();
      if (isGrowth !== true || this.size !== this.desk.story.nodes.size || ids) this.refreshLater();
      this.draw();
    });
    this.on("head", () => {
      if (this.tree.story !== this.desk.story) return;
      this.tree.follow(this.desk.head.node);
      if (this.size !== this.desk.story.nodes.size) this.refreshLater();
      this.draw();
    });
    this.on("rounds", () => this.requestUpdate());
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
      matchMedia(query).addEventListener("change", () => this.recolour(), { signal });
    this.on("story", () => this.recolour());
    addEventListener("resize", () => this.draw(), { signal });
  }

  // ---- Opening and closing

  /** What opens the map closes it if it has the focus. */
  openOrClose() {
    return this.isOpen && this.contains(document.activeElement) ? this.close() : this.open();
  }

  async open() {
    const desk = document.querySelector("#desk");
    if (desk && this.parentElement !== desk) desk.append(this); // it stands beside the manuscript
    if (desk?.getAttribute("data-sheet") === "low") desk.setAttribute("data-sheet", "middle");
    this.isOpen = true;
    await this.updateComplete;
    if (!this.painter) this.pointing.listen(this.canvas);
    this.painter ??= new Painter(this.canvas);
    this.begin();
    this.canvas.focus();
  }

  /** Show the story from its beginning to the head, or all of it if that can be read. */
  begin() {
    this.tree = new StoryTree(this.desk.story);
    this.current = this.desk.head.node;
    this.picked = this.target = "";
    this.tree.straighten(this.desk.head.node);
    this.layOut();
    if (this.ends.size || this.scaleOfAll() >= READING) this.fit();
    else this.centre();
  }

  close() {
    this.isOpen = this.isWide = false;
    this.hideGhost();
    /** @type {HTMLElement | null} */ (document.querySelector("srb-manuscript"))?.focus();
  }

  focus() {
    this.canvas?.focus();
  }

  get canvas() {
    return /** @type {HTMLCanvasElement} */ (this.querySelector("canvas"));
  }

  /** The ends of what has grown last that differ most. */
  get ends() {
    return new Set(this.desk.rounds?.ends);
  }

  updated() {
    this.toggleAttribute("data-open", this.isOpen);
    this.toggleAttribute("data-wide", this.isWide);
    document.querySelector("srb-branches")?.toggleAttribute("inert", this.isOpen);
    this.draw();
  }

  // ---- What is shown

  refreshLater() {
    this.later(REFRESH, () => this.isOpen && this.refresh());
  }

  /** Lay the story out anew, and leave in its place what is chosen. */
  refresh() {
    const [before, current] = [this.spot, this.current];
    this.layOut();
    const after = this.spot;
    if (this.current !== current && this.desk.ghost?.place) this.walk(this.current); // it was set aside
    if (before && after) {
      this.view.x += (before.column - after.column) * COLUMN * this.view.scale;
      this.view.y += (before.y - after.y) * this.view.scale;
    }
    this.draw();
  }

  layOut() {
    const { tree } = this;
    const { story, head } = this.desk;
    this.size = story.nodes.size;
    tree.follow(head.node);
    this.layout = tree.layOut();
    const { spots } = this.layout;
    if (!spots.has(this.current)) this.current = this.shownAbove(this.current);
    /** @type {Map<number, string>} */
    const bands = new Map(); // chapters that begin in one node have one
    for (const { name, id } of tree.chapters()) {
      const column = spots.get(id)?.column;
      if (column !== undefined) bands.set(column, bands.has(column) ? `${bands.get(column)} · ${name}` : name);
    }
    this.bands = [...bands].map(([column, name]) => ({ name, column }));
    const starred = [...spots.values()].filter(({ id }) => tree.lookOf(id).star);
    this.stars = [...new Set(starred.map(({ column }) => column))].sort((one, other) => one - other);
    this.requestUpdate();
  }

  /** The nearest node that is shown on the way to one that is not; the first one of the map if there is none. @param {string} id */
  shownAbove(id) {
    const { spots, columns } = this.layout;
    for (let at = id; at; at = this.desk.story.nodes.get(at)?.parent ?? "") if (spots.has(at)) return at;
    return columns[0]?.[0]?.id ?? "";
  }

  /** Where the chosen node is. @returns {Spot | undefined} */
  get spot() {
    return this.layout.spots.get(this.current);
  }

  render() {
    const { story } = this.desk;
    const count = story.nodes.size;
    const isThere = this.spot !== undefined;
    const { root } = this.tree;
    return html`<section class="map" aria-labelledby="map-title" ?hidden=${!this.isOpen}>
      <header>
        <h2 id="map-title">${msg`Map`}</h2>
        <p class="help">${count === 1 ? msg`1 passage` : msg`${NUMBER.format(count)} passages`}${this.ends.size ? msg`; those with a ring are the ${this.ends.size} ends that differ most` : ""}</p>
        <div class="tools" role="group" aria-label=${msg`What is shown`}>
          <button aria-label=${msg`Enlarge`} title=${msg`Enlarge (+)`} @click=${() => this.zoom(STEP)}>+</button>
          <button aria-label=${msg`Make smaller`} title=${msg`Make smaller (−)`} @click=${() => this.zoom(1 / STEP)}>−</button>
          <button title=${msg`All of it (0)`} @click=${() => this.fit()}>${msg`All of it`}</button>
          <button title=${msg`Where I am (Home)`} @click=${() => this.goHome()}>${msg`Where I am`}</button>
          ${this.ends.size ? html`<button @click=${() => this.nextEnd()}>${msg`Next end`}</button>` : ""}
          <button aria-pressed=${!this.tree.hidesPruned} @click=${() => this.switchPruned()}>${msg`Set aside, too`}</button>
          <button class="wide" aria-pressed=${this.isWide} @click=${() => (this.isWide = !this.isWide)}>${msg`Over the text, too`}</button>
        </div>
        ${closeButton(() => this.close(), msg`Close the map`)}
      </header>
      <canvas tabindex="0" role="application" aria-roledescription=${msg`map`} aria-label=${msg`Map of the story`} aria-describedby="map-words"
        @dblclick=${() => this.choose()} @keydown=${(/** @type {KeyboardEvent} */ event) => this.key(event)}
        @blur=${() => this.hideGhost()}></canvas>
      <p class="words" id="map-words" role="status" dir="auto">${this.words()}</p>
      <div class="acts" role="group" aria-label=${msg`The chosen passage`}>
        <button class="main" title=${msg`Open (Enter)`} ?disabled=${!isThere} @click=${() => this.choose()}>${msg`Open`}</button>
        <button title=${msg`Close what goes on from it, or open it again (C)`} aria-pressed=${this.isFolded} ?disabled=${!isThere} @click=${() => this.toggleFold()}>${msg`Close up`}</button>
        <button title=${msg`Show only what goes on from it (H)`} aria-pressed=${root !== ""} ?disabled=${!isThere && !root} @click=${() => this.hoist()}>${root ? msg`Whole story` : msg`Only this`}</button>
        <button title=${msg`Let its words go on behind another passage (G): choose that, and press it again`} aria-pressed=${this.picked !== ""} ?disabled=${!isThere}
          @click=${() => this.carry()}>${this.picked ? msg`Put it behind this` : msg`Graft`}</button>
        <button title=${msg`Star (B)`} aria-pressed=${story.mark(this.current).star === true} ?disabled=${!isThere} @click=${() => toggleMark(this.desk, this.current, "star")}>${msg`Star`}</button>
      </div>
    </section>`;
  }

  get isFolded() {
    return this.desk.story.mark(this.current).folded === true;
  }

  /** The words of the node that is chosen, and what is said of it. */
  words() {
    const { story, rounds } = this.desk;
    const node = story.nodes.get(this.current);
    if (!node) return msg`The beginning of the story`;
    const { name, star } = story.mark(node.id);
    const hidden = this.tree.hidden.get(node.id);
    const { kind } = this.tree.lookOf(node.id);
    const said = [
      name,
      this.tree.wordsOf(node.id, 300),
      kind === "path" ? msg`in the text` : kind === "unread" ? msg`never opened` : "",
      star ? msg`starred` : "",
      this.ends.has(node.id) ? msg`an end that differs` : "",
      hidden ? msg`closed up: ${hidden} behind it` : "",
      node.open && rounds ? msg`being written` : "",
    ];
    return said.filter(Boolean).join(" · ");
  }

  // ---- Drawing

  recolour() {
    this.painter?.forget();
    this.draw();
  }

  draw() {
    if (!this.isOpen || !this.painter) return;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isOpen) this.painter?.paint(this.scene);
    });
  }

  /** @returns {import("./map/painter.js").Scene} */
  get scene() {
    const { layout, tree, view, current, ends, picked, target, bands, stars } = this;
    return { layout, tree, view, current, ends, picked, target, bands, stars };
  }

  /** The room for nodes: what the strip of chapters leaves. */
  get room() {
    const top = this.bands.length || this.stars.length ? RAIL : 0;
    const { clientWidth: width, clientHeight } = this.canvas;
    return { top, width, height: clientHeight - top };
  }

  /** The scale at which all of the story is in view. */
  scaleOfAll() {
    const { columns, top, bottom } = this.layout;
    const { width, height } = this.room;
    const across = columns.length * COLUMN - (COLUMN - WIDTH);
    const all = Math.min((width - 2 * MARGIN) / across, (height - 2 * MARGIN) / (bottom - top || 1));
    return Math.max(SMALLEST, Math.min(ROOMY, all));
  }

  /** Show the whole story, whatever the scale is then, its lines as straight as the text's. */
  fit() {
    this.tree.straighten(this.desk.head.node);
    this.layOut();
    const { columns, top, bottom } = this.layout;
    const room = this.room;
    const scale = this.scaleOfAll();
    const across = columns.length * COLUMN - (COLUMN - WIDTH);
    this.view = {
      scale,
      x: (room.width - across * scale) / 2,
      y: room.top + room.height / 2 - ((top + bottom) / 2) * scale,
    };
    this.draw();
  }

  /** Put the chosen node into the middle, at a size at which it can be read. */
  centre() {
    const { spot, room, view } = this;
    view.scale = Math.max(READING, view.scale);
    view.x = room.width / 2 - ((spot?.column ?? 0) * COLUMN + WIDTH / 2) * view.scale;
    view.y = room.top + room.height / 2 - (spot?.y ?? 0) * view.scale;
    this.draw();
  }

  goHome() {
    this.walk(this.shownAbove(this.desk.head.node));
    this.centre();
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

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.draw();
  }

  /** Move the view so that the chosen node is in it. */
  reveal() {
    const { spot, view, room } = this;
    if (!spot) return;
    const [left, y] = [spot.column * COLUMN * view.scale + view.x, spot.y * view.scale + view.y];
    const [across, down] = [WIDTH * view.scale, (spot.height * view.scale) / 2];
    if (left < MARGIN) view.x += MARGIN - left;
    else if (left + across > room.width - MARGIN) view.x -= left + across - room.width + MARGIN;
    if (y - down < room.top + MARGIN) view.y += room.top + MARGIN - y + down;
    else if (y + down > room.top + room.height - MARGIN) view.y -= y + down - room.top - room.height + MARGIN;
  }

  // ---- Acts

  /** Choose a node: the manuscript shows it in its place. @param {string} id */
  walk(id) {
    this.current = id;
    this.reveal();
    this.requestUpdate();
    if (!this.isWide && !this.pointing.isHeld)
      this.desk.showGhost({ place: { node: id, at: this.desk.story.length(id) }, moves: true });
  }

  hideGhost() {
    if (this.desk.ghost?.place) this.desk.showGhost(null);
  }

  /** Make the text up to the chosen node the manuscript. */
  async choose() {
    const { desk, current } = this;
    if (!this.spot) return;
    if (desk.story.mark(current).seen !== true) desk.setNodeMark(current, "seen", true);
    await desk.openNode(current);
    this.isWide = false;
  }

  /** Close up what goes on from the chosen node, or open it again; the story keeps it. */
  toggleFold() {
    const { desk, current } = this;
    desk.story.setMark(current, "folded", this.isFolded ? null : true);
    desk.changed();
    this.refresh();
  }

  /** Show only what goes on from the chosen node, or all again. */
  hoist() {
    this.tree.root = this.tree.root ? "" : this.current;
    this.layOut();
    this.fit();
  }

  /** Pick the chosen node's words up, or put those that were picked up behind it. */
  carry() {
    const { picked, current } = this;
    this.picked = picked ? "" : current;
    if (picked && picked !== current) this.join(picked, current);
    else this.draw();
  }

  /** @param {string} from @param {string} onto */
  join(from, onto) {
    this.picked = this.target = "";
    return this.desk.guard(async () => {
      const branch = graft(this.desk, from, onto);
      this.desk.story.setMark(onto, "folded", null);
      this.refresh();
      this.walk(branch);
      this.desk.notice(msg`The words go on there as a new branch. Enter opens it, and Undo sets it aside.`);
    });
  }

  switchPruned() {
    this.tree.hidesPruned = !this.tree.hidesPruned;
    this.refresh();
  }

  /** Choose the next of the ends that have a ring. */
  nextEnd() {
    const ends = [...this.ends].filter((id) => this.layout.spots.has(id));
    if (!ends.length) return;
    this.walk(ends[(ends.indexOf(this.current) + 1) % ends.length]);
    this.focus();
  }

  /** The neighbour of the chosen node in a direction. @param {string} key @returns {Spot | null | undefined} */
  neighbour(key) {
    const { spot } = this;
    const column = this.layout.columns[spot?.column ?? 0] ?? [];
    if (!spot) return column[0];
    const away = (/** @type {Spot} */ each) => Math.abs(each.y - spot.y);
    if (key === "ArrowLeft") return spot.parent;
    if (key === "ArrowRight") return [...spot.children].sort((one, other) => away(one) - away(other))[0];
    return column[spot.row + (key === "ArrowDown" ? 1 : -1)];
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.actOf(event);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** @param {KeyboardEvent} event @returns {(() => unknown) | null} */
  actOf({ key, code }) {
    if (key.startsWith("Arrow")) {
      const next = this.neighbour(key);
      return () => next && this.walk(next.id);
    }
    if (key === "Enter") return () => (this.picked ? this.carry() : this.choose());
    if (key === "Home") return () => this.goHome();
    if (key === "Delete") return () => toggleMark(this.desk, this.current, "pruned");
    if (this.desk.settings.single_keys === false) return null;
    if (key === "+" || key === "-") return () => this.zoom(key === "+" ? STEP : 1 / STEP);
    if (key === "0") return () => this.fit();
    /** @type {Record<string, () => unknown>} */
    const letters = {
      KeyC: () => this.toggleFold(),
      KeyH: () => this.hoist(),
      KeyG: () => this.carry(),
      KeyB: () => toggleMark(this.desk, this.current, "star"),
    };
    return letters[code] ?? null;
  }
}

customElements.define("srb-map", StoryMap);
