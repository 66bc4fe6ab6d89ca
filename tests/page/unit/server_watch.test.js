import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerWatch } from "../../../srb/web/page/desk/server_watch.js";

globalThis.window ??= { setTimeout: (run, wait) => setTimeout(run, wait).unref() };

test("a server that never answers counts as away, and is asked again", { timeout: 5000 }, async (t) => {
  let questions = 0;
  const get = (_path, { signal } = {}) => {
    questions += 1;
    return new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
  };
  const keepsAlive = setInterval(() => {}, 1000);
  t.after(() => clearInterval(keepsAlive));
  const watch = new ServerWatch({ get }, () => {}, 1);
  await watch.check();
  assert.equal(watch.server.state, "gone");
  await watch.check();
  watch.stop();
  assert.equal(questions, 2);
});
