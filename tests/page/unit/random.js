/** Random numbers with a seed, so that a walk that fails can be walked again. */
export class Random {
  /** @param {number} seed */
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** A number from 0 up to, but not including, `below`. */
  below(below) {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296) * below);
  }

  chance(one, of) {
    return this.below(of) < one;
  }

  /** @template T @param {readonly T[]} items @returns {T} */
  choice(items) {
    return items[this.below(items.length)];
  }

  /** @template T @param {readonly T[]} items @returns {T[]} */
  shuffled(items) {
    const left = [...items];
    const order = [];
    while (left.length > 0) order.push(left.splice(this.below(left.length), 1)[0]);
    return order;
  }

  /** Some words, now and then with a character of two units. */
  words(most = 12) {
    let text = "";
    for (let left = this.below(most + 1); left > 0; left -= 1)
      text += this.choice(["a", "b", "c", " ", "é", "\n", "🦊", "海"]);
    return text;
  }
}

/** A generator of numbers from 0 to 1 that are the same in each run. @param {number} seed */
export function random(seed) {
  const numbers = new Random(seed);
  return () => numbers.below(2 ** 32) / 2 ** 32;
}
