/** How much a round's cards differ in what they mean, and their order by it: from embeddings of the server's model for them. */

import { withoutMarkers } from "../markers.js";

/** @typedef {{different: number, order: number[], key: string}} Meaning   `different`: how many really different texts there are;
 *   `order`: the cards' numbers, neighbours alike; `key`: of the texts that were compared */

const READ = 2000; // characters of a card: a small model reads as many
const SWEEPS = 30; // over a matrix, until it is diagonal: ten do for 64 cards

/** What tells whether cards still have the texts that were compared. @param {import("../round.js").Round} round */
export const keyOf = ({ slots }) => slots.map(({ text, state }) => (state === "pruned" ? "" : text.length)).join();

/**
 * Ask the server for what the texts of a round's cards mean.
 * @param {import("../desk.js").Desk} desk @param {import("../round.js").Round} round @param {AbortSignal} signal @returns {Promise<Meaning>}
 */
export async function meaningOf({ api, server }, round, signal) {
  const key = keyOf(round);
  const read = round.order.filter((number) => {
    const { text, state } = round.slots[number];
    return text.trim() && state !== "pruned";
  });
  const input = read.map((number) => withoutMarkers(round.slots[number].text).slice(0, READ).trim() || " ");
  const body = { model: server.embedding, input, truncate: true };
  const { data } = await api.post("v1/embeddings", body, { signal });
  const likeness = likenessOf(data.map((/** @type {{embedding: number[]}} */ { embedding }) => embedding));
  return { different: differentOf(likeness), order: seriated(likeness).map((place) => read[place]), key };
}

/** The cosine of each vector with each. @param {number[][]} vectors */
export function likenessOf(vectors) {
  const units = vectors.map((vector) => {
    const length = Math.hypot(...vector) || 1;
    return vector.map((value) => value / length);
  });
  return units.map((one, row) =>
    units.map((other, column) => (row === column ? 1 : one.reduce((sum, value, at) => sum + value * other[at], 0))),
  );
}

/** How many really different texts there are (the Vendi score, https://arxiv.org/abs/2210.02410), from 1 to their number. @param {number[][]} likeness */
export function differentOf(likeness) {
  const { values } = eigen(likeness.map((row) => row.map((value) => value / likeness.length)));
  return Math.exp(-values.reduce((sum, value) => sum + (value > 1e-12 ? value * Math.log(value) : 0), 0));
}

/** All places, so that neighbours are alike (Atkins, Boman and Hendrickson 1998), the first text in the first half. @param {number[][]} likeness */
export function seriated(likeness) {
  const places = likeness.map((_, place) => place);
  if (places.length < 3) return places;
  const weights = likeness.map((row, at) => row.map((value, column) => (at === column ? 0 : Math.max(0, value))));
  const sums = weights.map((row) => row.reduce((sum, value) => sum + value, 0));
  const { values, vectors } = eigen(weights.map((row, at) => row.map((value, to) => (at === to ? sums[at] : -value))));
  const second = [...places].sort((a, b) => values[a] - values[b])[1];
  const order = places.sort((a, b) => vectors[a][second] - vectors[b][second]);
  return 2 * order.indexOf(0) < order.length ? order : order.reverse();
}

/**
 * Return the eigenvalues of a symmetric matrix, and its eigenvectors as columns, by Jacobi's rotations.
 * @param {number[][]} matrix
 */
function eigen(matrix) {
  const a = matrix.map((row) => [...row]);
  const vectors = matrix.map((row, at) => row.map((_, column) => (at === column ? 1 : 0)));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let left = 0;
    for (let p = 0; p < a.length; p++)
      for (let q = p + 1; q < a.length; q++) {
        left += a[p][q] ** 2;
        if (Math.abs(a[p][q]) > 1e-15) rotate(a, vectors, p, q);
      }
    if (left < 1e-20) break;
  }
  return { values: a.map((row, at) => row[at]), vectors };
}

/** Make the entry at row `p` and column `q` zero. @param {number[][]} a @param {number[][]} vectors @param {number} p @param {number} q */
function rotate(a, vectors, p, q) {
  const angle = Math.atan2(2 * a[p][q], a[q][q] - a[p][p]) / 2;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  for (const rows of [a, vectors])
    for (const row of rows) [row[p], row[q]] = [cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]];
  const [one, other] = [a[p], a[q]];
  for (let at = 0; at < a.length; at++)
    [one[at], other[at]] = [cos * one[at] - sin * other[at], sin * one[at] + cos * other[at]];
}
