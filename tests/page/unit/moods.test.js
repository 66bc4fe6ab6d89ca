// Ladders of moods: what a request has, where a server has none, and what the cards of a round say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { branchesOn, ladderOf, moodsOf, noteMoods, rungFields } from "../../../srb/page/moods.js";
import { requestBody } from "../../../srb/page/request.js";

const SERVER = { control_vectors: ["melancholy", "dread"] };
const LADDER = { name: "mood melancholy", from: -1, to: 1 };

test("a ladder of a mood gives each branch its own scale of the server's vector", () => {
  const scales = branchesOn(LADDER, 3).map(({ control_vectors: [{ name, scale }] }) => [name, scale]);
  assert.deepEqual(scales, [
    ["melancholy", -1],
    ["melancholy", 0],
    ["melancholy", 1],
  ]);
  assert.deepEqual(requestBody({ ladder: LADDER }, "a", 2, SERVER).branches, branchesOn(LADDER, 2));
  assert.deepEqual(rungFields({ name: "temperature", from: 0, to: 1 }, 0.5), { temperature: 0.5 });
});

test("a server without the vector is asked for as many branches that are alike", () => {
  assert.equal(requestBody({ ladder: LADDER }, "a", 3, {}).branches, undefined);
  assert.equal(requestBody({ ladder: LADDER }, "a", 3, {}).n, 3);
  assert.equal(ladderOf({ ladder: LADDER }, { control_vectors: ["dread"] }), null);
  assert.equal(ladderOf({ ladder: null }, SERVER), null);
  assert.deepEqual(moodsOf({}), []);
  assert.deepEqual(
    moodsOf(SERVER).map(({ name, label }) => [name, label]),
    [
      ["mood melancholy", "melancholy"],
      ["mood dread", "dread"],
    ],
  );
});

test("cards say the mood of their latest branch, and nothing on a ladder of a sampler", () => {
  const round = { moods: ["", "melancholy +1"] };
  noteMoods(round, [0, 1, 2], { name: "mood melancholy", values: [-0.714, 0, 0.5] });
  assert.deepEqual(round.moods, ["melancholy −0.7", "melancholy 0", "melancholy +0.5"]);
  noteMoods(round, [1], { name: "temperature", values: [0.5] });
  noteMoods(round, [2], undefined);
  assert.deepEqual(round.moods, ["melancholy −0.7", "", ""]);
});
