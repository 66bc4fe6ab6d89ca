/** SHA-256 (FIPS 180-4), since a page over plain http on a LAN address has no crypto.subtle. */

/** The first 32 bits of the fractional part of a number. @param {number} number */
const fraction = (number) => ((number - Math.floor(number)) * 2 ** 32) | 0;

const PRIMES = primes(64);
const ROUNDS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

/** @param {number} count */
function primes(count) {
  /** @type {number[]} */
  const found = [];
  for (let number = 2; found.length < count; number += 1)
    if (found.every((prime) => number % prime !== 0)) found.push(number);
  return found;
}

/** @param {number} word @param {number} bits */
const rotated = (word, bits) => (word >>> bits) | (word << (32 - bits));

/** @param {Uint8Array} bytes @returns {string} the hash in hexadecimal */
export function sha256(bytes) {
  const state = START.slice();
  const whole = bytes.length - (bytes.length % 64);
  const words = new Int32Array(64);
  addBlocks(state, words, new DataView(bytes.buffer, bytes.byteOffset, whole));
  const rest = bytes.subarray(whole);
  const end = new Uint8Array(rest.length < 56 ? 64 : 128);
  end.set(rest);
  end[rest.length] = 0x80;
  const view = new DataView(end.buffer);
  view.setUint32(end.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(end.length - 4, (bytes.length * 8) >>> 0);
  addBlocks(state, words, view);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

/** @param {Int32Array} state @param {Int32Array} words  room for 64 @param {DataView} blocks  of 64 bytes */
function addBlocks(state, words, blocks) {
  for (let at = 0; at < blocks.byteLength; at += 64) {
    for (let n = 0; n < 16; n += 1) words[n] = blocks.getInt32(at + 4 * n);
    for (let n = 16; n < 64; n += 1) {
      const early = words[n - 15];
      const late = words[n - 2];
      const one = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3);
      const other = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10);
      words[n] = words[n - 16] + one + words[n - 7] + other;
    }
    addBlock(state, words);
  }
}

/** @param {Int32Array} state @param {Int32Array} words */
function addBlock(state, words) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let n = 0; n < 64; n += 1) {
    const choice = (e & f) ^ (~e & g);
    const first = (h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + choice + ROUNDS[n] + words[n]) | 0;
    const second = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [n, word] of [a, b, c, d, e, f, g, h].entries()) state[n] += word;
}
