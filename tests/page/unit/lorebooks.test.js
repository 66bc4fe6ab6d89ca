import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync as zlibSync } from "node:zlib";
import { readLorebook, writeLorebook, writeWorldInfo } from "../../../srb/page/formats/lorebook_files.js";
import { entriesOf, entryOf, MOST } from "../../../srb/page/lore/entries.js";
import { Story } from "../../../srb/page/story.js";
import { strToU8, zipSync } from "../../../srb/page/vendor/zip.js";

const bytes = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const readBook = (value, name = "book.json") => readLorebook(name, bytes(value));

/** What of an entry differs from an empty one. */
const said = (entry) => {
  const empty = entryOf();
  return Object.fromEntries(
    Object.entries(entry).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(empty[name])),
  );
};

const CARD = {
  spec: "chara_card_v2",
  spec_version: "2.0",
  data: {
    name: "Mara",
    description: "{{char}} rows.",
    personality: "Quiet.",
    scenario: "",
    first_mes: "Hello, {{user}}.",
    mes_example: "",
    character_book: {
      extensions: {},
      entries: [
        {
          keys: ["mill"],
          secondary_keys: ["old"],
          selective: true,
          content: "The mill.",
          extensions: { selectiveLogic: 3 },
          enabled: false,
          insertion_order: 7,
          case_sensitive: true,
          name: "Mill",
          constant: false,
        },
      ],
    },
  },
};
const MILL = {
  name: "Mill",
  keys: ["mill"],
  text: "The mill.",
  off: true,
  cased: true,
  order: 7,
  others: ["old"],
  rule: "all",
};
const MARA = { name: "Mara", keys: ["Mara"], text: "Mara rows.\nQuiet." };

for (const [name, file, format, wanted, remarks] of [
  [
    "SillyTavern's world info",
    {
      entries: {
        0: {
          uid: 0,
          key: ["Tom", " the smith "],
          keysecondary: ["sea"],
          comment: "Tom",
          content: "Old.",
          constant: false,
          selective: true,
          selectiveLogic: 2,
          order: 42,
          position: 0,
          disable: false,
          probability: 100,
          useProbability: true,
          caseSensitive: null,
        },
        1: {
          uid: 1,
          key: [],
          keysecondary: [],
          comment: "",
          content: "An island.",
          constant: true,
          disable: true,
          order: 1,
        },
        2: { uid: 2, key: [], keysecondary: [], comment: "", content: "", constant: false },
        3: {
          uid: 3,
          key: ["/m[ai]ll/i"],
          content: "The mall.",
          useProbability: true,
          probability: 50,
          keysecondary: ["x"],
          selective: false,
        },
      },
    },
    "SillyTavern",
    [
      { name: "Tom", keys: ["Tom", "the smith"], text: "Old.", order: 42, others: ["sea"], rule: "none" },
      { text: "An island.", always: true, off: true, order: 1 },
      { keys: ["/m[ai]ll/i"], text: "The mall." },
    ],
    [/^1 keyword is a pattern/, /^1 entry comes by chance/],
  ],
  ["a card of the second version", CARD, "SillyTavern", [MARA, MILL], [/greeting and examples were left out/]],
  ["a card of the third version", { ...CARD, spec: "chara_card_v3" }, "SillyTavern", [MARA, MILL], [/greeting/]],
  [
    "a card of the first version",
    { name: "Mara", description: "Rows.", personality: "", scenario: "", first_mes: "", mes_example: "" },
    "SillyTavern",
    [{ name: "Mara", keys: ["Mara"], text: "Rows." }],
    [],
  ],
  ["a book of a card by itself", CARD.data.character_book, "SillyTavern", [MILL], []],
  [
    "a book as the third version has it",
    { spec: "lorebook_v3", data: CARD.data.character_book },
    "SillyTavern",
    [MILL],
    [],
  ],
  [
    "NovelAI's",
    {
      lorebookVersion: 5,
      entries: [
        {
          text: "Old.",
          displayName: "Tom",
          id: "1",
          keys: ["Tom"],
          enabled: true,
          forceActivation: false,
          category: "",
          contextConfig: { prefix: "", suffix: "\n", budgetPriority: 400 },
        },
        {
          text: "Sea.",
          displayName: "Sea",
          keys: ["sea"],
          enabled: true,
          forceActivation: true,
          category: "c",
          contextConfig: { prefix: "(", suffix: ")" },
        },
      ],
      settings: { orderByKeyLocations: false },
      categories: [{ id: "c", name: "Off", enabled: false }],
    },
    "NovelAI",
    [
      { name: "Tom", keys: ["Tom"], text: "Old.", order: 400 },
      { name: "Sea", keys: ["sea"], text: "(Sea.)", always: true, off: true },
    ],
    [],
  ],
  [
    "KoboldAI's",
    [
      {
        key: "Tom, the smith",
        keysecondary: "sea",
        keyanti: "",
        content: "Old.",
        comment: "Tom",
        selective: true,
        constant: false,
        probability: "50",
        widisabled: true,
      },
      {
        key: "mill",
        keysecondary: "",
        keyanti: "sea",
        content: "The mill.",
        comment: "",
        selective: false,
        constant: false,
      },
    ],
    "KoboldAI",
    [
      { name: "Tom", keys: ["Tom", "the smith"], text: "Old.", off: true, others: ["sea"] },
      { keys: ["mill"], text: "The mill.", others: ["sea"], rule: "none" },
    ],
    [/1 entry comes by chance/],
  ],
  [
    "mikupad's",
    {
      mikuPediaVersion: 1,
      entries: [{ displayName: "Tom", text: "Old.", keys: ["Tom"], search: "" }],
      prefix: "",
      suffix: "",
    },
    "mikupad",
    [{ name: "Tom", keys: ["Tom"], text: "Old." }],
    [],
  ],
])
  test(`${name} comes in as entries`, () => {
    const found = readBook(file);
    assert.equal(found.format, format);
    assert.deepEqual(found.entries.map(said), wanted);
    assert.equal(found.remarks.length, remarks.length, found.remarks.join());
    for (const [index, each] of remarks.entries()) assert.match(found.remarks[index], each);
  });

const info = (entry) => ({ entries: { 0: { key: ["a"], content: "x", ...entry } } });

for (const [file, says] of [
  [info({ key: 5 }), /Entry 1 of the lorebook: its list of keywords is a number, not a list/],
  [info({ key: [null, {}] }), /Entry 1 of the lorebook: a keyword is an object, not a text/],
  [info({ content: ["x"] }), /Entry 1 of the lorebook: its text is a list, not a text/],
  [{ entries: { 0: "x" } }, /Entry 1 of the lorebook is a string, not an object/],
  [
    { entries: Object.fromEntries(Array.from({ length: 2001 }, (_, uid) => [uid, { key: ["a"], content: "x" }])) },
    /more than 2,000 entries/,
  ],
  [{ format: "srb-lorebook", version: 2, entries: [] }, /is of version 2; this page reads version 1/],
  [{ lorebookVersion: 5, entries: {} }, /The lorebook's list of entries is an object, not a list/],
  ["[]", /is no lorebook or card/],
  ['"text"', /is no lorebook or card/],
  ["{", /is not valid JSON/],
])
  test(`a file that is no lorebook is refused: ${says.source}`, () =>
    assert.throws(
      () => readBook(file),
      (error) => error.name === "StoryError" && says.test(error.message),
    ));

for (const [name, given, wanted, says] of [
  ["numbers in texts", { content: "x", order: "250" }, { order: 250 }, []],
  ["an order that is no number", { order: "high" }, { order: 100 }, []],
  ["0 and 1", { disable: 0, constant: 1, caseSensitive: "" }, { off: false, always: true, cased: false }, []],
  ["true and false in texts", { disable: "true", constant: "false" }, { off: true, always: false }, []],
  ["null", { disable: null, order: null, comment: null, keysecondary: null }, { off: false, name: "", others: [] }, []],
  ["a number as its text", { content: 7 }, { text: "7" }, []],
  ["half of a character", { content: "a\ud83d" }, { text: "a\ufffd" }, [/Halves of characters \(1\)/]],
  [
    "a text that is too long",
    { content: "x".repeat(MOST.text + 5) },
    { text: "x".repeat(MOST.text) },
    [/\(1\) were cut/],
  ],
  ["too many keywords", { key: Array.from({ length: 66 }, (_, key) => `k${key}`) }, {}, [/\(2\) were cut/]],
  ["a keyword that is too long", { key: ["k".repeat(121), "a"] }, { keys: ["a"] }, [/\(1\) were cut/]],
])
  test(`an odd value keeps no file out: ${name}`, () => {
    const { entries, remarks } = readBook(info(given));
    for (const [key, value] of Object.entries(wanted)) assert.deepEqual(entries[0][key], value, key);
    assert.equal(remarks.length, says.length, remarks.join());
    for (const [index, each] of says.entries()) assert.match(remarks[index], each);
  });

test("Risu's and Agnai's books, world info as a list, and a card in an archive come in", () => {
  const risu = {
    type: "risu",
    ver: 1,
    data: [
      {
        key: "Tom, the smith",
        secondkey: "old",
        insertorder: 300,
        comment: "Tom",
        content: "Old.",
        alwaysActive: false,
        selective: true,
      },
      { mode: "folder", key: "", content: "", comment: "People" },
    ],
  };
  const tom = { name: "Tom", keys: ["Tom", "the smith"], others: ["old"], text: "Old.", order: 300 };
  assert.deepEqual(readBook(risu).entries, [entryOf(tom)]);
  const agnai = {
    kind: "memory",
    name: "B",
    entries: [{ name: "Mill", keywords: ["mill"], entry: "The mill.", priority: 2, weight: 1, enabled: false }],
  };
  assert.deepEqual(readBook(agnai).entries, [
    entryOf({ name: "Mill", keys: ["mill"], text: "The mill.", order: 2, off: true }),
  ]);
  const list = { entries: [{ key: ["mill"], content: "The mill." }] };
  assert.deepEqual(readBook(list).entries, [entryOf({ keys: ["mill"], text: "The mill." })]);
  const card = JSON.stringify({ spec: "chara_card_v3", data: { name: "Ann", description: "A smith." } });
  const found = readLorebook(
    "ann.charx",
    zipSync({ "card.json": strToU8(card), "assets/icon.png": new Uint8Array(9) }),
  );
  assert.deepEqual(found.entries, [entryOf({ name: "Ann", keys: ["Ann"], text: "A smith." })]);
});

for (const [kind, chunk] of [
  ["zTXt", (text) => [...strToU8("chara"), 0, 0, ...zlibSync(strToU8(text))]],
  ["iTXt", (text) => [...strToU8("chara"), 0, 0, 0, 0, 0, ...strToU8(text)]],
  ["iTXt that is packed", (text) => [...strToU8("chara"), 0, 1, 0, ...strToU8("en"), 0, 0, ...zlibSync(strToU8(text))]],
])
  test(`a card in a picture's ${kind} comes in`, () => {
    const card = btoa(JSON.stringify({ spec: "chara_card_v2", data: { name: "Ann", description: "A smith." } }));
    const found = readLorebook("ann.png", pngOf(kind.slice(0, 4), chunk(card)));
    assert.deepEqual(found.entries, [entryOf({ name: "Ann", keys: ["Ann"], text: "A smith." })]);
  });

test("a packed card that is damaged or unpacks to too much is refused", () => {
  const chunk = (bytes) => pngOf("zTXt", [...strToU8("chara"), 0, 0, ...bytes]);
  assert.throws(() => readLorebook("a.png", chunk([1, 2, 3, 4])), /cannot be unpacked/);
  assert.throws(
    () => readLorebook("a.png", chunk(zlibSync(new Uint8Array(70 * 2 ** 20)))),
    /too large when it is unpacked/,
  );
});

/** A picture of one chunk. @param {string} kind @param {number[]} data */
function pngOf(kind, data) {
  const size = [data.length >>> 24, (data.length >>> 16) & 255, (data.length >>> 8) & 255, data.length & 255];
  const end = [0, 0, 0, 0, ...strToU8("IEND"), 0, 0, 0, 0];
  return Uint8Array.from([
    0x89,
    0x50,
    0x4e,
    0x47,
    13,
    10,
    26,
    10,
    ...size,
    ...strToU8(kind),
    ...data,
    0,
    0,
    0,
    0,
    ...end,
  ]);
}

test("what is exported comes in again as it was, and is what SillyTavern's program reads", () => {
  const story = Story.create();
  const entries = [
    entryOf({ name: "Tom", keys: ["Tom", "the smith"], text: "Old\n“man”.", always: true, order: 300 }),
    entryOf({
      name: "Mill",
      keys: ["mill"],
      text: "The mill.",
      off: true,
      cased: true,
      others: ["old"],
      rule: "not all",
      order: 200,
    }),
  ];
  for (const [index, each] of entries.entries()) story.setMeta(`lore.e${index}`, each);
  assert.deepEqual(readBook(writeLorebook(entriesOf(story))).entries, entries);
  const info = writeWorldInfo(entriesOf(story));
  assert.deepEqual(readBook(info).entries, entries);
  const { key, keysecondary, comment, content, constant, disable, order, selectiveLogic } = JSON.parse(info).entries[1];
  assert.deepEqual(
    [key, keysecondary, comment, content, constant, disable, order, selectiveLogic],
    [["mill"], ["old"], "Mill", "The mill.", false, true, 200, 1],
  );
});

test("keys of an entry that no program writes are not kept", () => {
  const [entry] = readBook(info({ __proto__: { evil: 1 }, extensions: { deep: 1 } })).entries;
  assert.deepEqual(Object.keys(entry).sort(), Object.keys(entryOf()).sort());
});
