/** Pictures and sounds in texts: markers, types by first bytes, ids, and the prompts that they become. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { markersOf, withoutMarkers } from "../../../srb/page/markers.js";
import { base64, fromBase64, markerFor, promptField, typeOf } from "../../../srb/page/media.js";
import { planPrompt } from "../../../srb/page/prompt.js";
import { sha256 } from "../../../srb/page/sha256.js";

const ID = "0123456789abcdef0123456789abcdef";
const OTHER = "f".repeat(32);
const CAT = markerFor("cat.png", ID);
const PNG = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1]);

/** @param {string} text */
const bytes = (text) => new TextEncoder().encode(text);

test("a marker is found again, with the name that it was given", () => {
  assert.equal(CAT, `![cat.png](srb:${ID})`);
  assert.deepEqual(markersOf(`a ${CAT} b`), [{ from: 2, to: 2 + CAT.length, name: "cat.png", id: ID }]);
});

test("no name of a file can end its marker or begin another", () => {
  for (const name of ["a]b", `x](srb:${OTHER}) ![`, "two\nlines", "", "  ", "😀".repeat(99), "\ud83d", "\u202e.png"]) {
    const found = markersOf(markerFor(name, ID));
    assert.deepEqual([found.length, found[0]?.id], [1, ID], name);
    assert.equal(found[0].name.isWellFormed(), true);
  }
});

test("what is nearly a marker is text", () => {
  for (const text of ["![a](srb:123)", `![a](http:${ID})`, `[a](srb:${ID})`, `![a\nb](srb:${ID})`, "![](srb:)"])
    assert.deepEqual(markersOf(text), [], text);
});

test("a title or a row has a sign in a marker's place", () => {
  assert.equal(withoutMarkers(`See ${CAT}!`), "See 🖼 cat.png!");
});

test("a hash is that of the standard, whatever the length", () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 70_001]) {
    const data = new Uint8Array(randomBytes(length));
    assert.equal(sha256(data), createHash("sha256").update(data).digest("hex"), String(length));
  }
  const part = new Uint8Array(randomBytes(100)).subarray(7, 90);
  assert.equal(sha256(part), createHash("sha256").update(part).digest("hex"));
});

test("a file's type is that of its bytes, and not of its name", () => {
  assert.equal(typeOf(PNG), "image/png");
  assert.equal(typeOf(bytes("GIF89a")), "image/gif");
  assert.equal(typeOf(bytes("RIFF0000WAVE")), "audio/wav");
  for (const text of ["<svg xmlns='http://www.w3.org/2000/svg'/>", "<!doctype html>", "RIFF0000WEBP", ""])
    assert.equal(typeOf(bytes(text)), "", text);
});

test("base64 gives back the bytes", () => {
  const data = new Uint8Array(randomBytes(100_003));
  assert.deepEqual(fromBase64(base64(data)), data);
  assert.throws(() => fromBase64("£"), /is not base64/);
});

test("a prompt has its files in the places of their markers, each as often as it stands there", () => {
  const field = promptField(`one ${CAT} two ${CAT}`, () => PNG);
  assert.deepEqual(field, {
    prompt_string: "one <__media__> two <__media__>",
    multimodal_data: [base64(PNG), base64(PNG)],
  });
});

test("a prompt without files is the text that it was", () => {
  for (const text of ["plain", "with <__media__> in it", CAT])
    assert.equal(
      promptField(text, () => undefined),
      text,
    );
});

test("the server's mark in a person's text is not taken for a file", () => {
  const field = /** @type {any} */ (promptField(`<__media__> ${CAT}`, () => PNG));
  assert.equal(field.prompt_string.split("<__media__>").length, 2);
  assert.equal(field.multimodal_data.length, 1);
});

const SETTINGS = { n: 1, max_tokens: 16, mode: /** @type {"text"} */ ("text") };

test("a file takes its part of the context, and a text that is cut keeps no half of a marker", () => {
  const paragraphs = Array.from({ length: 40 }, (_, n) => `Paragraph ${n} says a few words. ${CAT}\n`).join("");
  const sources = { text: paragraphs, settings: SETTINGS, n_ctx: 2000, rate: 4, perMedium: 300 };
  const { prompt, cut, parts } = planPrompt(/** @type {any} */ (sources));
  const sent = markersOf(/** @type {string} */ (prompt));
  assert.ok(cut !== null && sent.length >= 1 && sent.length * 300 < 2000, `${sent.length} files are sent`);
  assert.equal(/** @type {string} */ (prompt).split("](srb:").length - 1, sent.length);
  const story = parts.find(({ kind }) => kind === "story");
  assert.ok(/** @type {any} */ (story).tokens >= sent.length * 300);
});

test("a cut never falls into a marker, wherever it would fall", () => {
  const long = markerFor("a name of many words that could be cut at any of its spaces", ID);
  for (let room = 0; room < 150; room += 1) {
    const text = `${"x".repeat(400)} ${long} ${"y".repeat(300 + room)}`;
    const { prompt } = planPrompt(
      /** @type {any} */ ({ text, settings: SETTINGS, n_ctx: 160, rate: 4, perMedium: 10 }),
    );
    assert.equal(
      /** @type {string} */ (prompt).includes("](srb:"),
      markersOf(/** @type {string} */ (prompt)).length > 0,
    );
  }
});
