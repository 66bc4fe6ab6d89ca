/** The places of nodes on the map, and which of them are drawn for a part of it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { around, layOut, within } from "../../../srb/page/parts/map/layout.js";
import { wrap } from "../../../srb/page/parts/map/painter.js";
import { Random } from "./random.js";

/** A tree with so many nodes, some deep and some broad. @param {Random} random @param {number} count */
function grown(random, count) {
  const children = new Map([["", []]]);
  const names = [""];
  for (let name = 0; name < count; name += 1) {
    const parent = random.chance(1, 3) ? names.at(-1) : random.choice(names);
    children.get(parent).push(`n${name}`);
    children.set(`n${name}`, []);
    names.push(`n${name}`);
  }
  const heights = new Map(names.map((name) => [name, 10 + random.below(90)]));
  const straight = new Map(
    [...children].map(([name, all]) => [name, random.chance(1, 3) ? null : (all[random.below(all.length)] ?? null)]),
  );
  const tree = {
    roots: children.get(""),
    below: (id) => children.get(id),
    main: (id) => straight.get(id),
    height: (id) => heights.get(id),
  };
  return { tree, straight };
}

const topOf = ({ y, height }) => y - height / 2;
const bottomOf = ({ y, height }) => y + height / 2;

for (let seed = 1; seed <= 60; seed += 1)
  test(`nodes of a column never touch, stand in their order, and a line goes on straight (${seed})`, () => {
    const random = new Random(seed);
    const { tree, straight } = grown(random, 1 + random.below(120));
    const { columns, spots, top, bottom } = layOut(tree);
    const walked = [];
    const open = [...tree.roots].reverse().map((id) => [id, 0]);
    for (let next = open.pop(); next; next = open.pop()) {
      const [id, column] = next;
      walked[column] = [...(walked[column] ?? []), id];
      open.push(...[...tree.below(id)].reverse().map((each) => [each, column + 1]));
    }
    assert.deepEqual(
      columns.map((column) => column.map(({ id }) => id)),
      walked,
    );
    for (const column of columns)
      for (const [row, here] of column.entries()) {
        assert.equal(here.row, row);
        if (row > 0) assert.ok(topOf(here) - bottomOf(column[row - 1]) > 11.99, `${here.id} touches the one above it`);
        assert.ok(topOf(here) >= top && bottomOf(here) <= bottom);
      }
    for (const [id, child] of straight)
      if (id && child)
        assert.ok(Math.abs(spots.get(id).y - spots.get(child).y) < 1e-6, `${child} does not go on straight`);
    for (const { parent, children, id } of spots.values()) {
      assert.deepEqual(
        children.map((each) => each.id),
        tree.below(id),
      );
      for (const each of children) assert.equal(each.parent?.id, id);
      if (tree.roots.includes(id)) assert.equal(parent, null);
    }
  });

for (let seed = 1; seed <= 40; seed += 1)
  test(`what is in a part of the map, or draws a line through it, is found without the rest (${seed})`, () => {
    const random = new Random(seed);
    const layout = layOut(grown(random, 200).tree);
    const all = [...layout.spots.values()];
    const high = layout.bottom - layout.top;
    const top = layout.top + random.below(high);
    const first = random.below(layout.columns.length);
    const part = { first, last: first + random.below(4), top, bottom: top + random.below(200) };
    const isIn = (here) =>
      here.column >= part.first && here.column <= part.last && bottomOf(here) > part.top && topOf(here) <= part.bottom;
    const found = [...within(layout, part)];
    assert.deepEqual(new Set(found), new Set(all.filter(isIn)));
    const lines = new Set([...found, ...around(layout, part)]);
    for (const here of all.filter(({ column }) => column >= part.first && column <= part.last)) {
      const ends = [here, ...here.children].map(({ y }) => y);
      const crosses = here.children.length && Math.min(...ends) < part.top && Math.max(...ends) > part.bottom;
      if (crosses) assert.ok(lines.has(here), `the line of ${here.id} crosses the part`);
    }
    const grain = 1 + random.below(400);
    const coarse = [...within(layout, { ...part, grain })];
    const rows = Math.ceil((part.bottom - part.top + 100) / grain) + 2;
    for (const column of layout.columns) {
      const few = coarse.filter((here) => column.includes(here));
      const bounded = few.filter(({ height }) => height < grain);
      assert.ok(bounded.length <= rows, `${bounded.length} nodes in ${rows} rows`);
    }
    assert.ok(coarse.every((here) => found.includes(here)));
  });

test("a line of ten thousand nodes is laid out without recursion", () => {
  const tree = {
    roots: ["0"],
    below: (id) => (Number(id) < 10_000 ? [`${Number(id) + 1}`] : []),
    main: (_id, [first]) => first ?? null,
    height: () => 20,
  };
  const { columns, bottom } = layOut(tree);
  assert.equal(columns.length, 10_001);
  assert.equal(bottom, 10);
});

test("words are cut into lines that fit, the last with an ellipsis, also where there are no spaces", () => {
  const measure = (line) => line.length;
  assert.deepEqual(wrap("The lamp was lit and then she slept", 5, measure, 12), [
    "The lamp was",
    "lit and then",
    "she slept",
  ]);
  assert.deepEqual(wrap("The lamp was lit and then she slept", 2, measure, 12), ["The lamp was", "lit and the…"]);
  assert.deepEqual(wrap("海海海海海海海", 2, measure, 4), ["海海海海", "海海海"]);
  assert.deepEqual(wrap("", 3, measure, 4), []);
});
