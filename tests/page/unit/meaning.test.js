/** How much texts differ in what they mean, and their order by it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { differentOf, likenessOf, seriated } from "../../../srb/page/desk/meaning.js";
import { makeDesk, round, settled } from "./fake_desk.js";
import { Random } from "./random.js";

const near = (value, wanted, by = 1e-9) => assert.ok(Math.abs(value - wanted) < by, `${value} is not ${wanted}`);

test("equal texts are one, texts that have nothing in common as many as there are, and two pairs are two", () => {
  near(differentOf(likenessOf([1, 1, 1, 1].map(() => [3, 4]))), 1);
  for (const count of [1, 2, 8, 64])
    near(
      differentOf(
        likenessOf(Array.from({ length: count }, (_, at) => Array.from({ length: count }, (_, to) => +(at === to)))),
      ),
      count,
      1e-6,
    );
  near(
    differentOf(
      likenessOf([
        [1, 0],
        [0, 2],
        [5, 0],
        [0, 1],
      ]),
    ),
    2,
  );
});

test("with two texts it is the entropy of two values that one can compute by hand", () => {
  const likeness = 0.6; // of eigenvalues (1 ± 0.6) / 2
  const [a, b] = [(1 + likeness) / 2, (1 - likeness) / 2];
  near(
    differentOf([
      [1, likeness],
      [likeness, 1],
    ]),
    Math.exp(-(a * Math.log(a) + b * Math.log(b))),
  );
});

test("texts along an arc are put in its order again, however they were dealt", () => {
  const numbers = new Random(3);
  for (const count of [3, 8, 32, 64]) {
    const angles = Array.from({ length: count }, (_, at) => ({ at, key: numbers.below(1e6) }))
      .sort((a, b) => a.key - b.key)
      .map(({ at }) => at);
    const order = seriated(
      likenessOf(angles.map((at) => [Math.cos((at * 1.5) / count), Math.sin((at * 1.5) / count)])),
    );
    assert.deepEqual(
      [...order].sort((a, b) => a - b),
      angles.map((_, at) => at),
    );
    const found = order.map((place) => angles[place]);
    if (found[0] > found.at(-1)) found.reverse();
    assert.deepEqual(
      found,
      angles.map((_, at) => at),
    );
  }
});

test("no, one and two texts have an order", () => {
  for (const count of [0, 1, 2])
    assert.deepEqual(seriated(likenessOf(Array.from({ length: count }, () => [1]))), [0, 1].slice(0, count));
});

test("cards are sorted by what the server's model says of them, and undo puts them back", async () => {
  const it = await makeDesk();
  it.manuscript.type("A");
  await round(it, " fox", " sea", "", " dog", " lake");
  it.desk.watch.server = { ...it.desk.server, embedding: "minilm" };
  const vectors = { fox: [1, 0.1], sea: [0.1, 1], dog: [1, 0.2], lake: [0.2, 1] };
  it.api.answers["v1/embeddings"] = ({ input }) => ({ data: input.map((text) => ({ embedding: vectors[text] })) });
  await it.desk.sortByMeaning();
  const { body } = it.api.calls.findLast(({ path }) => path === "v1/embeddings");
  assert.deepEqual(body, { model: "minilm", input: ["fox", "sea", "dog", "lake"], truncate: true });
  assert.deepEqual(it.desk.round.order, [0, 3, 4, 1, 2]);
  near(it.desk.round.meaning.different, 1.9, 0.2);
  it.desk.undo();
  await settled();
  assert.deepEqual(it.desk.round.order, [0, 1, 2, 3, 4]);
});
