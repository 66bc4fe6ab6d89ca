/** Pictures of the open story: kept by the server or, while it cannot, by the browser; and what of them a prompt has. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../srb/page/api.js";
import { Media, MediaError } from "../../../srb/page/desk/media.js";
import { Outbox } from "../../../srb/page/keep/outbox.js";
import { MemoryShelf } from "../../../srb/page/keep/shelf.js";
import { base64, markerFor } from "../../../srb/page/media.js";
import { Story } from "../../../srb/page/story.js";

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

/** @param {number} last @param {number} [length] */
function picture(last, length = 9) {
  const bytes = new Uint8Array(length);
  bytes.set(PNG);
  bytes[8] = last;
  return bytes;
}

const AWAY = () => new ApiError("The server cannot be reached.", 0, "unreachable");

class FakeDesk extends EventTarget {
  story = Story.create();
  /** @type {Record<string, any>} */
  server = { state: "ready", modalities: { vision: true, audio: false } };
  /** @type {Map<string, string>} base64 by story and id, as the server has it */
  stored = new Map();
  /** @type {ApiError | null} what every post is answered with */
  refusal = null;
  /** @type {string[]} */
  said = [];
  went = 0;

  constructor() {
    super();
    this.keeper = { server: { isOn: true }, outbox: new Outbox(new MemoryShelf()) };
    this.posts = 0;
    this.api = {
      post: async (/** @type {string} */ path, /** @type {{data: string}} */ { data }) => {
        this.posts += 1;
        if (this.refusal) throw this.refusal;
        this.stored.set(path, data);
      },
      open: async () => {
        throw new ApiError("no", 404, "not_found");
      },
    };
  }

  notice(/** @type {string} */ text, _kind, action) {
    this.said.push(text);
    this.action = action;
  }

  go() {
    this.went += 1;
  }

  async kept() {
    return (await this.keeper.outbox.shelf.keys(this.story.id, 100)).map(([, section]) => section);
  }
}

/** @param {FakeDesk} desk */
const mediaOf = (desk) => new Media(/** @type {any} */ (desk));

test("a picture that the server takes is in no outbox", async () => {
  const desk = new FakeDesk();
  await mediaOf(desk).add(picture(1));
  assert.deepEqual([desk.stored.size, await desk.kept()], [1, []]);
});

test("a picture is kept here while the server is away, and sent when it is back", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  desk.refusal = AWAY();
  const id = await media.add(picture(1));
  assert.deepEqual(await desk.kept(), ["media"]);
  assert.deepEqual(await mediaOf(desk).read(id), picture(1), "another page reads it from there");
  await media.send();
  assert.deepEqual(await desk.kept(), ["media"], "a server that is still away takes nothing along");
  desk.refusal = null;
  await media.send();
  assert.deepEqual([[...desk.stored.values()], await desk.kept()], [[base64(picture(1))], []]);
});

test("a server that keeps no stories leaves pictures in the browser", async () => {
  const desk = new FakeDesk();
  desk.keeper.server.isOn = false;
  const media = mediaOf(desk);
  const id = await media.add(picture(1));
  await media.send();
  assert.deepEqual([desk.stored.size, await desk.kept()], [0, ["media"]]);
  assert.deepEqual(await mediaOf(desk).read(id), picture(1));
});

test("a picture that the server refuses is kept nowhere, and its words say why", async () => {
  const desk = new FakeDesk();
  desk.refusal = new ApiError("Field 'data': is damaged: its pixels end too soon", 400, "invalid_request_error");
  await assert.rejects(mediaOf(desk).add(picture(1)), { message: "is damaged: its pixels end too soon" });
  assert.deepEqual(await desk.kept(), []);
});

test("a picture that is refused later stays here, is told of, and keeps no other back", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  desk.refusal = AWAY();
  await media.add(picture(1));
  await media.add(picture(2));
  const { post } = desk.api;
  desk.refusal = null;
  desk.api.post = async (path, body) => {
    if (body.data === base64(picture(1))) throw new ApiError("too large", 413, "too_large");
    return post(path, body);
  };
  await media.send();
  assert.deepEqual([[...desk.stored.values()], await desk.kept()], [[base64(picture(2))], ["media", "media_refused"]]);
  assert.match(desk.said.join(), /kept in this browser only/);
});

test("a picture that the server has refused is not sent again by later pages, which say why and offer to", async () => {
  const desk = new FakeDesk();
  desk.refusal = AWAY();
  const id = await mediaOf(desk).add(picture(1));
  desk.refusal = new ApiError("The story would take too many bytes", 413, "story_too_large");
  await mediaOf(desk).send();
  const { posts } = desk;
  for (const _ of [1, 2]) {
    desk.said = [];
    const later = mediaOf(desk);
    await later.send();
    await later.send();
    assert.deepEqual(desk.said, [
      "A picture or sound is kept in this browser only. The server refused to save: The story would take too many bytes.",
    ]);
    assert.deepEqual(await later.read(id), picture(1));
  }
  assert.equal(desk.posts, posts);
  assert.equal(desk.action.label, "Try again");
  await desk.action.run();
  assert.deepEqual([desk.posts, desk.said.length], [posts + 1, 2], "it is refused again, and said again");
  desk.refusal = null;
  await desk.action.run();
  assert.deepEqual([[...desk.stored.values()], await desk.kept()], [[base64(picture(1))], []]);
});

test("a server that does not answer holds up no picture that is added, nor a text that has one", async () => {
  const desk = new FakeDesk();
  const hang = (/** @type {AbortSignal} */ signal) =>
    new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  desk.api.post = (_path, _body, { signal }) => hang(signal);
  desk.api.open = (_method, _path, _body, { signal }) => hang(signal);
  const media = new Media(/** @type {any} */ (desk), { patience: 5 });
  const id = await media.add(picture(1));
  assert.deepEqual(await desk.kept(), ["media"]);
  assert.deepEqual(await media.read(id), picture(1));
  await assert.rejects(media.prepared(markerFor("other", "1".repeat(32))), /The server does not answer/);
});

test("a story of which only sent pictures were kept is in the outbox no more", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  desk.refusal = AWAY();
  await desk.keeper.outbox.put(desk.story.id, { meta: {} }, 1);
  await media.add(picture(1));
  desk.refusal = null;
  await media.send();
  assert.deepEqual(await desk.keeper.outbox.list(), []);
});

test("a prompt for a model without eyes is refused with a way out, which holds for the story", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const marker = markerFor("cat", await media.add(picture(1)));
  desk.server = { state: "ready", modalities: { vision: false, audio: false } };
  const error = await media.prepared(`a ${marker} b`).catch((reason) => reason);
  assert.ok(error instanceof MediaError);
  error.action?.run();
  assert.equal(desk.went, 1);
  assert.equal(await media.prepared(`a ${marker} b`), "a  b");
  media.forget();
  await assert.rejects(mediaOf(desk).prepared(marker), MediaError);
});

test("a model that is not loaded may take pictures: they are sent, and take room", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const marker = markerFor("cat", await media.add(picture(1)));
  desk.server = { state: "ready", status: "unloaded", modalities: null };
  assert.equal(await media.prepared(marker), marker);
  assert.deepEqual(media.unsent(marker, 1e6), new Set());
});

test("a picture that another window has sent meanwhile is no trouble", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  desk.refusal = AWAY();
  for (const last of [1, 2, 3]) await media.add(picture(last));
  desk.refusal = null;
  const { post } = desk.api;
  const { shelf } = desk.keeper.outbox;
  desk.api.post = async (path, body) => {
    desk.api.post = post;
    const [, next] = (await shelf.keys(desk.story.id, 10)).filter(([, section]) => section === "media");
    await shelf.change([next], () => undefined);
    return post(path, body);
  };
  await media.send();
  assert.deepEqual([desk.posts, await desk.kept()], [3 + 2, []]);
});

test("a picture that is nowhere is told of", async () => {
  const media = mediaOf(new FakeDesk());
  await assert.rejects(media.prepared(markerFor("lost", "0".repeat(32))), /“lost” is not kept with this story/);
});

test("a request has the last pictures that fit into it, and says once that the first are missing", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const markers = [];
  for (const last of [1, 2, 3]) markers.push(markerFor(`p${last}`, await media.add(picture(last, 30_000))));
  desk.server = { ...desk.server, max_body_bytes: 100_000 };
  const prompt = markers.join(" ");
  for (const _ of [1, 2]) assert.equal(await media.prepared(prompt), ` ${markers[1]} ${markers[2]}`);
  assert.equal(desk.said.length, 1);
  assert.match(desk.said[0] ?? "", /^The first picture is not sent: .*max_body_bytes/);
  const small = markerFor("small", await media.add(picture(9)));
  assert.equal((await media.prepared(small.repeat(70))).split("](srb:").length - 1, 64);
});

test("files that are not sent are known by the places of their markers", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const [one, two] = [
    markerFor("one", await media.add(picture(1, 30_000))),
    markerFor("two", await media.add(picture(2, 30_000))),
  ];
  const text = `${one} ${two}`;
  assert.deepEqual(media.unsent(text, 1e6), new Set());
  desk.server = { ...desk.server, max_body_bytes: 70_000 };
  assert.deepEqual(media.unsent(text, 1e6), new Set([0]), "a request takes the last one");
  desk.server = { state: "ready", modalities: { vision: false } };
  assert.deepEqual(media.unsent(text, 1e6), new Set([0, one.length + 1]));
  const lost = markerFor("lost", "0".repeat(32));
  media.goWithout();
  await media.prepared(lost);
  assert.deepEqual(media.unsent(lost, 1e6), new Set([0]));
});

test("what came with a story's file is kept, and other bytes than those that were exported are told of", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const id = await media.add(picture(1));
  const lost = await media.takeIn({
    [id]: { data: base64(picture(1)) },
    wrong: { data: base64(picture(2)) },
    bad: { data: "£" },
  });
  assert.deepEqual(
    lost.map((sentence) => sentence.replace("A picture or sound of the file ", "")),
    ["has other bytes than those that were exported.", "is not base64."],
  );
});

test("what came with a story's file is kept with that story, though another is opened meanwhile", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const { id } = desk.story;
  const taking = media.takeIn({ one: { data: base64(picture(1)) }, two: { data: base64(picture(2)) } });
  desk.story = Story.create();
  await taking;
  assert.equal(desk.stored.size, 1, "a path, of the first story");
  assert.ok([...desk.stored.keys()].every((path) => path.includes(id)));
});

test("a file of a story has the pictures that can be read, and the others are told of", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const id = await media.add(picture(1));
  desk.api.open = async () => {
    throw AWAY();
  };
  const { files, unread } = await media.all([`${markerFor("one", id)} ![two](srb:${"0".repeat(32)})`]);
  assert.deepEqual(files, { [id]: { type: "image/png", data: base64(picture(1)) } });
  assert.deepEqual(
    unread.map(({ message }) => message),
    [AWAY().message],
  );
});

test("leaving pictures out of one story begins no round in another", async () => {
  const desk = new FakeDesk();
  const media = mediaOf(desk);
  const error = await media.prepared(markerFor("lost", "0".repeat(32))).catch((reason) => reason);
  desk.story = Story.create();
  media.forget();
  error.action.run();
  assert.deepEqual([desk.went, media.leavesOut], [0, false]);
});
