/** A generator of numbers from 0 to 1 that are the same in each run. @param {number} seed */
export function random(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}
