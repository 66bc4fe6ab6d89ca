import assert from "node:assert/strict";
import { test } from "node:test";
import { besideLines } from "../../../srb/page/parts/beside_lines.js";
import { random as numbers } from "./random.js";

const WINDOW = { width: 1440, height: 900 };
const LIST = { width: 320, height: 430 };
const MOST = 496;
const lines = (left, top, width, height) => ({ left, top, right: left + width, bottom: top + height });

test("a list stands above its lines, else beside them, else below", () => {
  assert.deepEqual(besideLines(lines(100, 700, 400, 50), LIST, MOST, WINDOW), { left: 100, top: 266, most: MOST });
  assert.deepEqual(besideLines(lines(100, 300, 400, 50), LIST, MOST, WINDOW), { left: 504, top: 300, most: MOST });
  assert.deepEqual(besideLines(lines(1000, 300, 400, 50), LIST, MOST, WINDOW), { left: 676, top: 300, most: MOST });
  assert.deepEqual(besideLines(lines(100, 100, 1300, 50), LIST, MOST, WINDOW), { left: 100, top: 154, most: MOST });
});

test("a list without room is as high as the larger room is", () => {
  const phone = { width: 390, height: 844 };
  const { top, most } = besideLines(lines(50, 420, 330, 60), LIST, MOST, phone);
  assert.deepEqual([top, most], [8, 408]);
});

test("a list that has any room lies over no line and within the window", () => {
  const random = numbers(4);
  const below = (most) => Math.floor(random() * most);
  for (let round = 0; round < 2000; round += 1) {
    const window = { width: 360 + below(1600), height: 400 + below(800) };
    const of = lines(
      8 + below(window.width - 100),
      below(window.height - 100),
      40 + below(window.width),
      20 + below(150),
    );
    const size = { width: 320, height: 80 + below(MOST - 80) };
    const rooms = [of.top, window.height - of.bottom, 0];
    if (Math.max(...rooms) < 140) continue;
    const { left, top, most } = besideLines(of, size, MOST, window);
    const bottom = top + Math.min(size.height, most);
    const isBeside = left >= of.right || left + size.width <= of.left;
    assert.ok(isBeside || bottom <= of.top || top >= of.bottom, JSON.stringify({ of, size, window, left, top, most }));
    assert.ok(top >= 0 && bottom <= window.height && left >= 0 && left + size.width <= window.width);
  }
});
