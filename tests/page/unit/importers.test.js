import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { ENDINGS, IMPORTERS, loadAll } from "../../../srb/page/formats/importers.js";
import { bytesOf, encoded, manuscript } from "./formats_oracle.js";

/** Let loads be counted while `act` runs; return the labels of those that were asked for. */
async function loadsOf(act) {
  const kept = IMPORTERS.map(({ load }) => load);
  const asked = [];
  for (const importer of IMPORTERS) {
    const { load, label } = importer;
    importer.load = () => {
      asked.push(label);
      return load();
    };
  }
  try {
    await act();
  } finally {
    for (const [place, load] of kept.entries()) IMPORTERS[place].load = load;
  }
  return asked;
}

for (const [name, content, label] of [
  ["x.json", bytesOf("exoloom.json"), "Exoloom"],
  ["x.json", bytesOf("srb_story.json"), "SRB"],
  ["x.md", encoded("# Once\n\nupon"), "Markdown"],
  ["x.rtf", encoded("{\\rtf1 Once}"), "Rich Text"],
  ["", encoded("Once"), "text"],
])
  test(`of all formats only the module of the file's own is loaded: ${label}`, async () => {
    assert.deepEqual(await loadsOf(() => read(name, content)), [label]);
  });

test("no module is loaded for a file that no importer knows", async () => {
  for (const [name, content] of [
    ["x.json", encoded("{}")],
    ["x.pdf", encoded("%PDF-1.7")],
    ["x.txt", encoded(" ")],
  ]) {
    const asked = await loadsOf(async () => assert.ok("error" in (await read(name, content))));
    assert.deepEqual(asked, name === "x.txt" ? ["text"] : []);
  }
});

test("a module that cannot be loaded is a sentence, and the file can be read later", async () => {
  const importer = IMPORTERS.find(({ label }) => label === "Rich Text");
  const { load } = importer;
  const file = encoded("{\\rtf1 Once}");
  importer.load = () => Promise.reject(new TypeError("Failed to fetch"));
  try {
    assert.match((await read("x.rtf", file)).error, /could not be loaded. Try again/);
  } finally {
    importer.load = load;
  }
  assert.equal((await read("x.rtf", file)).format, "Rich Text");
});

test("a row in the table is all that a new format needs", async () => {
  IMPORTERS.unshift({
    label: "Rope",
    endings: [".rope"],
    isJson: true,
    knows: ({ value }) => value?.rope !== undefined,
    load: async () => ({
      read: ({ value, name }) => [{ json: { ...story, title: name, nodes: { n: node(value.rope) } }, remarks: [] }],
    }),
  });
  try {
    const found = await read("my.rope", encoded({ rope: "Once" }));
    assert.equal(found.format, "Rope");
    assert.equal(manuscript(found.stories[0].toJSON()), "Once");
    assert.match((await read("x.json", encoded("{}"))).error, /no story of Rope, SRB, /);
  } finally {
    IMPORTERS.shift();
  }
});

test("every row has a module that reads, and endings as a form's field takes them", async () => {
  for (const { read: reads } of await loadAll()) assert.equal(typeof reads, "function");
  assert.ok(ENDINGS.every((ending) => /^\.[a-z]+$/.test(ending)));
  assert.equal(new Set(ENDINGS).size, ENDINGS.length);
});

const node = (text) => ({ text, by: "person", made: 1 });
const story = { format: "srb-story", version: 1, id: "s1", head: { node: "n", at: 4 } };
