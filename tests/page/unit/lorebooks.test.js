import assert from "node:assert/strict";
import { test } from "node:test";
import { readLorebook, writeLorebook, writeWorldInfo } from "../../../srb/page/formats/lorebook_files.js";
import { entryOf, MOST } from "../../../srb/page/lore/entries.js";
import { Story } from "../../../srb/page/story.js";

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
  [info({ content: "\ud83d" }), /its text has half of a character/],
  [info({ content: "x".repeat(MOST.text + 1) }), /“text” has 20001 characters/],
  [info({ key: Array.from({ length: 65 }, (_, key) => `k${key}`) }), /“keys” has 65 keywords/],
  [info({ key: ["k".repeat(121)] }), /a keyword of “keys” has 121 characters/],
  [info({ order: "high" }), /“order” is not a number/],
  [info({ disable: 1 }), /“disable” is a number, neither true nor false/],
  [{ entries: { 0: "x" } }, /Entry 1 of the lorebook is a string, not an object/],
  [
    { entries: Object.fromEntries(Array.from({ length: 2001 }, (_, uid) => [uid, { key: ["a"], content: "x" }])) },
    /more than 2,000 entries/,
  ],
  [{ format: "srb-lorebook", version: 2, entries: [] }, /is of version 2; this page reads version 1/],
  [{ lorebookVersion: 5, entries: {} }, /The lorebook's list of entries is an object, not a list/],
  [{ spec: "chara_card_v2", data: { name: 5 } }, /The card's name is a number/],
  ["[]", /is no lorebook or card/],
  ['"text"', /is no lorebook or card/],
  ["{", /is not valid JSON/],
])
  test(`a file that is no lorebook is refused: ${says.source}`, () =>
    assert.throws(
      () => readBook(file),
      (error) => error.name === "StoryError" && says.test(error.message),
    ));

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
  assert.deepEqual(readBook(writeLorebook(story)).entries, entries);
  const info = writeWorldInfo(story);
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
