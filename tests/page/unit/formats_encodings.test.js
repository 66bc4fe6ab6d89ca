import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { textIn } from "../../../srb/page/formats/encoding.js";
import { encoded, manuscript } from "./formats_oracle.js";

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (each) => Number.parseInt(each, 16));
const utf16 = (text, isBig) =>
  Uint8Array.from(
    [...text].flatMap((each) => {
      const code = each.charCodeAt(0);
      return isBig ? [code >> 8, code & 255] : [code & 255, code >> 8];
    }),
  );

/** The bytes of a text in an encoding of one or two bytes, by trying all pairs. @param {string} text @param {string} name */
function inEncoding(text, name) {
  const decoder = new TextDecoder(name);
  const table = new Map();
  for (let high = 0; high < 256; high += 1) {
    const one = decoder.decode(Uint8Array.of(high));
    if (one.length === 1 && one !== "\ufffd" && !table.has(one)) table.set(one, [high]);
    for (let low = 0x40; high >= 0x80 && low < 256; low += 1) {
      const two = decoder.decode(Uint8Array.of(high, low));
      if ([...two].length === 1 && two !== "\ufffd" && !table.has(two)) table.set(two, [high, low]);
    }
  }
  return Uint8Array.from([...text].flatMap((each) => table.get(each) ?? assert.fail(`${name} has no ${each}`)));
}

const JAPANESE = "昔々、ある所に灯台守がいた。彼は毎晩、海を見ていた。";
const KOREAN = "옛날 옛적에 등대지기가 살았다. 그는 매일 밤 바다를 보았다.";
const CHINESE = "从前有一个守灯塔的人，他每天晚上都在看海，他的船在山的那边。";
const TAIWANESE = "從前有一個守燈塔的人，他每天晚上都在看海，他的船在山的那邊。";
const FRENCH = "« Où étais-tu ? » demanda-t-elle. L’été s’achevait, déjà ; le gardien n’était pas là.";
const GERMAN = "„Schön“, sagte er – über die Brücke ging, wer grüßte. Äpfel und Öl.";
const RUSSIAN = "Жил-был на острове смотритель маяка. Каждый вечер он смотрел на море.";

for (const [name, text] of [
  ["shift_jis", JAPANESE],
  ["euc-jp", JAPANESE],
  ["euc-kr", KOREAN],
  ["gb18030", CHINESE],
  ["big5", TAIWANESE],
  ["windows-1252", FRENCH.replaceAll("’", "'")], // Node 20 knows no typographic signs of it; test_carrying_stories.py has them
  ["windows-1252", GERMAN.replace(/[„“–]/g, "-")],
  ["macintosh", FRENCH],
  ["macintosh", GERMAN],
  ["windows-1251", RUSSIAN],
  ["koi8-r", RUSSIAN],
])
  test(`a text in ${name} is read as it is: ${text.slice(0, 12)}`, async () => {
    for (const long of [text, text.repeat(40)]) {
      const found = textIn(inEncoding(long, name));
      assert.deepEqual([found.text, found.encoding], [long, name]);
      const story = (await read("draft.txt", inEncoding(long, name))).stories[0].toJSON();
      assert.equal(manuscript(story), long);
    }
  });

test("a plain text with one accent is Windows-1252, as old editors write it", () => {
  assert.deepEqual(textIn(bytes("636166e9")), { text: "café", encoding: "windows-1252", damaged: 0 });
});

test("UTF-16 without a mark is read, and with one", () => {
  const text = "Once upon a time.\nThere was fog.";
  for (const isBig of [false, true]) {
    assert.equal(textIn(utf16(text, isBig)).text, text);
    assert.equal(textIn(utf16(`\ufeff${text}`, isBig)).text, text);
  }
});

test("a long UTF-8 text with a damaged byte stays UTF-8, and it is said", async () => {
  const good = encoded(`${FRENCH} ${GERMAN} `.repeat(50));
  const space = good.indexOf(0x20, 1000);
  const damaged = Uint8Array.of(...good.subarray(0, space), 0xff, ...good.subarray(space));
  const found = await read("draft.txt", damaged);
  assert.deepEqual(found.remarks, ["1 byte is damaged: the sign \ufffd stands there."]);
  assert.ok(manuscript(found.stories[0].toJSON()).includes("étais"));
});

test("bytes that are no text are refused", async () => {
  for (const each of [bytes("01000200ff"), Uint8Array.from({ length: 500 }, (_, at) => (at * 7) % 256)])
    assert.match((await read("x.bin", each)).error ?? "", /is not a text file/);
});

for (const [name, text] of Object.entries({ JAPANESE, CHINESE, TAIWANESE }))
  for (const isBig of [false, true])
    test(`UTF-16 without a mark, ${isBig ? "big" : "little"} end first: ${name}`, () => {
      const found = textIn(utf16(text, isBig));
      assert.deepEqual([found?.text, found?.encoding], [text, isBig ? "utf-16be" : "utf-16le"]);
    });
