// Motion: so short that nobody waits for it, and none for those who have asked their system for none.

export const MOTION = 120; // ms

const REDUCED = matchMedia("(prefers-reduced-motion: reduce)");

/** Whether anything may move. */
export function moves() {
  return !REDUCED.matches;
}
