/**
 * The places of a story's nodes on the map: a column for each generation, from left to right. A line goes on straight, and what was not
 * taken stands above and below it, as near as other branches leave room. Pure; heights and places are in the map's own units.
 */

/**
 * @typedef {object} Spot
 * @property {string} id
 * @property {number} column
 * @property {number} row      place in its column, from above
 * @property {number} height
 * @property {number} y        of its middle
 * @property {Spot | null} parent
 * @property {Spot[]} children from above
 */
/** @typedef {{columns: Spot[][], forks: Spot[][], spots: Map<string, Spot>, top: number, bottom: number}} Layout   `forks`: by column, those from which
 *   something goes on */
/** @typedef {{roots: string[], below: (id: string) => string[], main: (id: string, children: string[]) => string | null,
 *   height: (id: string) => number}} Tree   `below`: what goes on from a node, from above; `main`: what goes on straight */
/** How far a branch reaches up and down in each generation, the last one first; `shift` is to be added to all. @typedef {{tops: number[],
 *   bottoms: number[], shift: number}} Contour */

const GAP = 12; // between two nodes of a column

/** @param {Tree} tree @returns {Layout} */
export function layOut({ roots, below, main, height }) {
  /** @type {Layout} */
  const layout = { columns: [], forks: [], spots: new Map(), top: 0, bottom: 0 };
  const top = spot("", -1, 0, null);
  /** @type {[Spot, string[]][]} */
  const open = [[top, roots]];
  /** @type {Spot[]} */
  const all = []; // parents before what goes on from them
  for (let next = open.pop(); next; next = open.pop()) {
    const [here, children] = next;
    all.push(here);
    here.children = children.map((id) => spot(id, here.column + 1, height(id), here));
    for (const child of [...here.children].reverse()) open.push([child, below(child.id)]);
  }
  /** @type {Map<Spot, Contour>} */
  const contours = new Map();
  for (const here of [...all].reverse()) {
    const ids = here.children.map(({ id }) => id);
    const middle = ids.indexOf(main(here.id, ids) ?? "");
    contours.set(here, stack(here, middle < 0 ? (ids.length - 1) >> 1 : middle, contours));
  }
  all.shift();
  for (const here of all) {
    here.y += /** @type {Spot} */ (here.parent).y;
    layout.columns[here.column] ??= [];
    const column = layout.columns[here.column];
    here.row = column.length; // a branch is walked from above, so a column is, too
    column.push(here);
    layout.forks[here.column] ??= [];
    if (here.children.length) layout.forks[here.column].push(here);
    layout.spots.set(here.id, here);
    layout.top = Math.min(layout.top, here.y - here.height / 2);
    layout.bottom = Math.max(layout.bottom, here.y + here.height / 2);
  }
  for (const first of top.children) first.parent = null;
  return layout;
}

/** @param {string} id @param {number} column @param {number} height @param {Spot | null} parent @returns {Spot} */
const spot = (id, column, height, parent) => ({ id, column, row: 0, height, y: 0, parent, children: [] });

/**
 * Place what goes on from a node around the one that goes on straight, and return how far all of it reaches. Each step looks at as many
 * generations as the shallower of two branches has, so that a whole story costs little more than its nodes.
 * @param {Spot} here @param {number} middle index of the child that goes on straight @param {Map<Spot, Contour>} contours
 */
function stack({ children, height }, middle, contours) {
  const of = (/** @type {number} */ index) => /** @type {Contour} */ (contours.get(children[index]));
  let all = children.length ? of(middle) : { tops: [], bottoms: [], shift: 0 };
  for (let index = middle + 1; index < children.length; index += 1) {
    const room = roomFor(of(index), all);
    children[index].y = room;
    all = united(all, of(index), room);
  }
  for (let index = middle - 1; index >= 0; index -= 1) {
    const room = -roomFor(all, of(index));
    children[index].y = room;
    all = united(all, of(index), room);
  }
  all.tops.push(-height / 2 - all.shift);
  all.bottoms.push(height / 2 - all.shift);
  for (const child of children) contours.delete(child);
  return all;
}

/** How far a branch has to stand below another one. @param {Contour} lower @param {Contour} upper */
function roomFor(lower, upper) {
  let room = Number.NEGATIVE_INFINITY;
  const [x, y] = [upper.bottoms.length, lower.tops.length];
  for (let depth = 1; depth <= Math.min(x, y); depth += 1)
    room = Math.max(room, upper.bottoms[x - depth] + upper.shift - lower.tops[y - depth] - lower.shift);
  return room + GAP;
}

/** @param {Contour} one @param {Contour} other @param {number} moved how far the other one was moved @returns {Contour} */
function united(one, other, moved) {
  other.shift += moved;
  const [long, short] = one.tops.length < other.tops.length ? [other, one] : [one, other];
  const [x, y] = [long.tops.length, short.tops.length];
  for (let depth = 1; depth <= y; depth += 1) {
    const by = short.shift - long.shift;
    long.tops[x - depth] = Math.min(long.tops[x - depth], short.tops[y - depth] + by);
    long.bottoms[x - depth] = Math.max(long.bottoms[x - depth], short.bottoms[y - depth] + by);
  }
  return long;
}

/** The index of the first node of a column that reaches below a height. @param {Spot[]} column @param {number} y @param {number} [from] */
export function firstBelow(column, y, from = 0) {
  let [low, high] = [from, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle].y + column[middle].height / 2 > y) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Return the nodes in a part of the map: those of its columns between two heights. Of nodes that are nearer to each other than `grain`
 * only the first is among them, so that as many are drawn as can be seen.
 * @param {Layout} layout @param {{first: number, last: number, top: number, bottom: number, grain?: number, stride?: number}} part
 *   `stride`: of so many columns one
 */
export function* within({ columns }, { first, last, top, bottom, grain = 0, stride = 1 }) {
  const begin = Math.max(0, Math.ceil(first / stride) * stride);
  for (let place = begin; place <= Math.min(last, columns.length - 1); place += stride) {
    const column = columns[place];
    for (let row = firstBelow(column, top); row < column.length; ) {
      const here = column[row];
      if (here.y - here.height / 2 > bottom) break;
      yield here;
      const end = here.y + here.height / 2;
      row = grain > here.height ? firstBelow(column, here.y - here.height / 2 + grain, row + 1) : row + 1;
      if (end > bottom) break;
    }
  }
}

/**
 * Return the nodes whose children stand at both sides of a part of the map though they are outside of it, so that only lines of theirs
 * cross it: at most one above and one below in each column.
 * @param {Layout} layout @param {{first: number, last: number, top: number, bottom: number}} part
 */
export function* around({ forks }, { first, last, top, bottom }) {
  for (let place = Math.max(0, first); place <= Math.min(last, forks.length - 1); place += 1) {
    const column = forks[place];
    for (const row of [firstBelow(column, top) - 1, firstBelow(column, bottom)]) if (column[row]) yield column[row];
  }
}
