/** Pictures in the files that print a manuscript: found, measured, put in their places, and read again. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { picturesOf, piecesOf } from "../../../srb/page/formats/pictures.js";
import { writeMarkdown, writeText } from "../../../srb/page/formats/text.js";
import { base64, brought } from "../../../srb/page/media.js";
import { isTurned, sizeOf } from "../../../srb/page/picture_header.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { encoded } from "./formats_oracle.js";

const [MAP, LAMP, BELL, GONE] = ["1", "2", "3", "0"].map((digit) => digit.repeat(32));

/** @param {...(number | number[] | string)} parts */
const bytesOf = (...parts) =>
  Uint8Array.from(
    parts.flatMap((part) => (typeof part === "string" ? [...part].map((each) => each.charCodeAt(0)) : part)),
  );

const PNG = bytesOf([0x89], "PNG\r\n\x1a\n", [0, 0, 0, 13], "IHDR", [0, 0, 1, 44, 0, 0, 0, 200]);
const GIF = bytesOf("GIF89a", [44, 1, 200, 0]);

/** @param {number} length of its content @param {number} marker @param {...(number | number[] | string)} content */
const segment = (length, marker, ...content) => [0xff, marker, 0, length + 2, ...bytesOf(...content)];
const FRAME = segment(6, 0xc2, [8, 0, 200, 1, 44, 3]);

/** A JPEG whose Exif says how it is turned. @param {number} orientation @param {"II" | "MM"} order */
function jpeg(orientation, order) {
  const number = (/** @type {number} */ value, /** @type {number} */ length) => {
    const digits = Array.from({ length }, (_, place) => (value >> (8 * place)) & 255);
    return order === "II" ? digits : digits.reverse();
  };
  const other = [number(0x010f, 2), number(2, 2), number(4, 4), number(0, 4)].flat();
  const entry = [number(0x0112, 2), number(3, 2), number(1, 4), number(orientation, 2), 0, 0].flat();
  const tiff = [...bytesOf(order), number(42, 2), number(8, 4), number(2, 2), other, entry, number(0, 4)].flat();
  return bytesOf(
    [0xff, 0xd8],
    segment(5, 0xe0, "JFIF\0"),
    [0xff],
    segment(tiff.length + 6, 0xe1, "Exif\0\0", tiff),
    FRAME,
  );
}

test("a picture's size is that of its header", () => {
  for (const bytes of [PNG, GIF, jpeg(1, "II")]) assert.deepEqual(sizeOf(bytes), { width: 300, height: 200 });
  for (const bytes of [PNG, GIF, jpeg(1, "II")])
    for (let end = 0; end < bytes.length - 1; end += 1) {
      const size = sizeOf(bytes.subarray(0, end)); // GIF and PNG are whole before their ends, all else is cut short
      assert.ok(size === null || size.width === 300, String(end));
    }
  assert.equal(sizeOf(bytesOf("BM", new Array(30).fill(1))), null);
  assert.equal(sizeOf(bytesOf([0xff, 0xd8], [0xff, 0xe0, 0, 0], [0xff, 0xe0, 0, 0])), null);
  assert.equal(sizeOf(bytesOf([0xff, 0xd8, 0xff, 0xd9])), null);
});

test("a JPEG is turned if its Exif says so, in either order of bytes", () => {
  for (const order of /** @type {const} */ (["II", "MM"])) {
    for (const orientation of [0, 1]) assert.equal(isTurned(jpeg(orientation, order)), false);
    for (const orientation of [2, 3, 6, 8])
      assert.equal(isTurned(jpeg(orientation, order)), true, `${order} ${orientation}`);
  }
  const whole = jpeg(6, "MM");
  for (let end = 0; end < whole.length; end += 1) assert.equal(typeof isTurned(whole.subarray(0, end)), "boolean");
  assert.equal(isTurned(PNG), false);
});

const FILES = {
  [MAP]: { type: "image/png", data: base64(PNG) },
  [LAMP]: { type: "image/jpeg", data: base64(jpeg(1, "II")) },
  [BELL]: { type: "audio/wav", data: base64(bytesOf("RIFF0000WAVE")) },
};

test("a paragraph is cut at its pictures, and sounds are named", () => {
  const text = `![map](srb:${MAP})See ![](srb:${LAMP})![bell](srb:${BELL}) and ![gone](srb:${GONE}).`;
  const pictures = picturesOf(`${text}${text}`, FILES);
  assert.deepEqual(
    [...pictures.values()].map(({ name }) => name),
    ["picture-1.png", "picture-2.jpeg"],
  );
  const [map, lamp] = pictures.values();
  assert.deepEqual(piecesOf(text, FILES, pictures), [
    { alt: "map", picture: map },
    "See ",
    { alt: "Picture", picture: lamp },
    "♪ bell and 🖼 gone.",
  ]);
  assert.deepEqual(piecesOf("", FILES, pictures), []);
});

/** @param {string} text */
const storyWith = (text) =>
  storyOf({
    format: "srb-story",
    version: 1,
    id: "s",
    head: { node: "a", at: text.length },
    nodes: { a: { text, by: "person", made: 1 } },
  });

test("Markdown has its pictures at its end, and is read with them", async () => {
  const picture = `![the map](srb:${MAP})`;
  for (const end of ["", "\n", "\n\n", " said Ida.\n\n\n"]) {
    const text = `Look: ${picture}, and ![bell](srb:${BELL}), ![gone](srb:${GONE}) ${picture}${end}`;
    const written = writeMarkdown(storyWith(text), FILES);
    assert.ok(written.startsWith(`Look: ![the map][srb-${MAP}], and ![bell](srb:${BELL})`));
    assert.ok(written.endsWith(`\n\n[srb-${MAP}]: data:image/png;base64,${base64(PNG)}\n`));
    for (const file of [written, `# Title\n\n${written}`, written.slice(0, -1)]) {
      const found = await read("x.md", encoded(file));
      assert.ok("stories" in found);
      const [story] = found.stories;
      assert.equal(writeText(story), text);
      assert.deepEqual(brought.get(story), { [MAP]: FILES[MAP] });
    }
  }
});

test("words behind the bytes of a Markdown file's pictures stay words", async () => {
  const written = writeMarkdown(storyWith(`![map](srb:${MAP})`), FILES);
  const found = await read("x.md", encoded(`${written}\nAdded later.\n`));
  assert.ok("stories" in found);
  assert.equal(writeText(found.stories[0]), `![map](srb:${MAP})\n\nAdded later.\n`);
});

test("a reference without bytes, and bytes of another kind, stay as they are written", async () => {
  for (const text of [
    `![map][srb-${MAP}]`,
    `a\n[srb-${MAP}]: https://a.example/x.png\n`,
    "a\n[srb-1]: data:image/png;base64,AA\n",
  ]) {
    const found = await read("x.md", encoded(text));
    assert.ok("stories" in found);
    assert.equal(writeText(found.stories[0]), text);
  }
});
