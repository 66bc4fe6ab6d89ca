import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerWatch } from "../../../srb/page/desk/server_watch.js";

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

/** A server that answers when the test says so. */
function openAnswers() {
  const asked = [];
  const get = (path) =>
    new Promise((answer, refuse) => {
      asked.push({ path, answer, refuse });
    });
  return { api: { get }, asked };
}

test("a proxy's answer in a form of its own is an answer", async () => {
  const refuse = async () =>
    Promise.reject(Object.assign(new Error("Not Found"), { status: 404, body: { detail: "?" } }));
  const watch = new ServerWatch({ get: refuse }, () => {});
  watch.follow("elsewhere");
  await watch.check();
  watch.stop();
  assert.deepEqual([watch.server.state, watch.server.model], ["failed", ""]);
});

test("an answer about a model that is no longer wanted is not believed", async () => {
  const { api, asked } = openAnswers();
  const told = [];
  const watch = new ServerWatch(api, ({ model, state }) => told.push([model, state]));
  const done = watch.check();
  watch.follow("a model");
  asked[0].answer({ model: "first" });
  await Promise.resolve();
  while (asked.length < 2) await new Promise((next) => setTimeout(next, 0));
  assert.equal(asked[1].path, "v1/srb/server?model=a%20model");
  asked[1].answer({ model: "a model" });
  await done;
  watch.stop();
  assert.deepEqual(told, [["a model", "ready"]]);
});

test("a model that is being loaded has a name before the server was ever ready, and it is the one that was asked about", async () => {
  const refuse = async (path) => {
    const model = path.includes("model=") ? "other" : "first";
    const body = { error: { engine: "loading", model, percent: 3 } };
    throw Object.assign(new Error("Loading model, 3 %"), { status: 503, body });
  };
  const watch = new ServerWatch({ get: refuse }, () => {});
  await watch.check();
  assert.deepEqual([watch.server.state, watch.server.model, watch.server.percent], ["loading", "first", 3]);
  watch.follow("other");
  await watch.check();
  watch.stop();
  assert.equal(watch.server.model, "other");
});

test("a model that the server does not have is missing, and one that is being loaded is no engine that restarts", async () => {
  const { api, asked } = openAnswers();
  const watch = new ServerWatch(api, () => {});
  const settle = async (act) => {
    const done = watch.check();
    act(asked.at(-1));
    await done;
  };
  await settle(({ answer }) => answer({ model: "a", models: ["a", "b"], status: "loaded" }));
  watch.follow("b");
  await settle(({ refuse }) =>
    refuse({ status: 503, message: "Loading", body: { error: { engine: "loading", percent: 7 } } }),
  );
  assert.deepEqual([watch.server.state, watch.server.model, watch.server.percent], ["loading", "b", 7]);
  await settle(({ answer }) => answer({ model: "b", models: ["a", "b"], status: "unloaded" }));
  await settle(({ refuse }) => refuse({ status: 503, message: "Loading", body: { error: { engine: "loading" } } }));
  assert.equal(watch.server.state, "loading", "it had given way to another model");
  await settle(({ refuse }) => refuse({ status: 503, message: "?", body: { error: { engine: "restarting" } } }));
  assert.equal(watch.server.state, "restarting");
  watch.follow("c");
  await settle(({ refuse }) => refuse({ status: 404, message: "No c", body: { error: { models: ["a", "b"] } } }));
  watch.stop();
  assert.deepEqual([watch.server.state, watch.server.model, watch.server.models], ["missing", "c", ["a", "b"]]);
});
