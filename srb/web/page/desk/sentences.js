/** Sentences that tell a person the state of the round and of the saving. */

/** @param {import("../round.js").Round | null} round */
export function sentenceOfRound(round) {
  if (!round) return "";
  if (round.state === "asking") return "The branches are asked for.";
  if (round.state === "reading") return "The model reads the text.";
  const running = round.slots.filter((slot) => slot.isLive).length;
  return `${running} running, ${round.counts.ended} ended.`;
}

/** @param {{state: string, at: number, message: string}} saved */
export function sentenceOfSaving({ state, at, message }) {
  if (state !== "saved" && state !== "browser") return message || "Not saved yet.";
  const time = at ? ` at ${new Date(at).toLocaleTimeString()}` : "";
  return `Saved ${state === "browser" ? "in this browser" : "on the server"}${time}.`;
}
