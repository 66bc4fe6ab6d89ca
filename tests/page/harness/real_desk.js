// The real desk and manuscript; the server is away, and nothing is kept.

import { Desk } from "../page/desk.js";
import "../page/parts/manuscript.js";

class NoKeeper extends EventTarget {
  state = "browser";
  at = null;
  message = "";
  open() {}
  changed() {}
  async flush() {}
  async openLast() {
    return null;
  }
}

/** Start a desk whose manuscript is in `place`. */
export async function startDesk(place) {
  const api = { get: () => Promise.reject(Object.assign(new Error("the server is away"), { status: 0 })) };
  const desk = new Desk({ api, keeper: new NoKeeper() });
  const manuscript = document.createElement("srb-manuscript");
  manuscript.desk = desk;
  place.append(manuscript);
  await desk.start(manuscript);
  await desk.loadRounds();
  return { desk, manuscript };
}
