import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Api } from "../../../srb/page/api.js";

const storage = () => ({ getItem: () => null, setItem: () => {}, removeItem: () => {} });
globalThis.sessionStorage ??= storage();
globalThis.localStorage ??= storage();

const { fetch } = globalThis;
afterEach(() => {
  globalThis.fetch = fetch;
});

const REFUSED = JSON.stringify({ error: { code: 401, message: "Invalid API Key" } });

/** Answer every request as a server does that has this key; return the keys that were sent. */
function serve(key) {
  const sent = [];
  globalThis.fetch = async (_url, { headers }) => {
    sent.push(headers.Authorization ?? "");
    return headers.Authorization === `Bearer ${key}` ? new Response("{}") : new Response(REFUSED, { status: 401 });
  };
  return sent;
}

test("a person who closes the question for the key is not asked again by the page's own polls", async () => {
  serve("right");
  const answers = [null, null, { key: "wrong", remember: false }, { key: "right", remember: false }];
  let questions = 0;
  const api = new Api("http://127.0.0.1/", async () => answers[questions++]);
  for (let poll = 0; poll < 3; poll += 1) await assert.rejects(api.get("v1/srb/server"), { status: 401 });
  assert.equal(questions, 1);
  assert.equal(await api.newKey(api.key, { isWanted: true }), false);
  assert.equal(questions, 2);
  await api.newKey(api.key, { isWanted: true });
  assert.deepEqual(await api.get("v1/srb/server"), {});
  assert.equal(questions, 4);
});

test("requests that are refused together ask one question, and are sent again with its answer", async () => {
  const sent = serve("right");
  let questions = 0;
  const api = new Api("http://127.0.0.1/", async () => {
    questions += 1;
    return { key: "right", remember: false };
  });
  await Promise.all([api.get("a"), api.get("b"), api.post("c", {})]);
  assert.equal(questions, 1);
  assert.deepEqual(sent.sort(), ["", "", "", ...Array(3).fill("Bearer right")]);
});

test("a stream whose events cannot be used is closed", async () => {
  let isClosed = false;
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode('data: {"event":"start"}\n\n')),
    cancel: () => {
      isClosed = true;
    },
  });
  globalThis.fetch = async () => new Response(body);
  const onevents = () => {
    throw new Error("a fault of the page");
  };
  const { signal } = new AbortController();
  await assert.rejects(new Api("http://127.0.0.1/").stream("POST", "x", {}, { signal, onevents }), /fault/);
  assert.equal(isClosed, true);
});
