/** The page's words in its languages: what languages.js makes of a catalog, and that catalogs have all words of the page. */

import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { keyOf } from "../../../srb/page/languages.js";
import "./file_fetch.js";

const PAGE = fileURLToPath(new URL("../../../srb/page/", import.meta.url));
const SECTIONS = JSON.parse(readFileSync(join(PAGE, "languages/de.json"), "utf8"));
const german = Object.assign({}, ...Object.values(SECTIONS));
const PACKAGES = new URL("../../../build/page/node_modules/", import.meta.url);

// ---- The page with a catalog of ours

const folders = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

/** Load languages.js anew, with a German catalog or none, in a browser of so many languages in which one was chosen, or none. */
async function languages(catalog, { kept = null, wished = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "srb-languages-"));
  folders.push(folder);
  cpSync(join(PAGE, "languages.js"), join(folder, "languages.js"));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  mkdirSync(join(folder, "languages"));
  if (catalog) writeFileSync(join(folder, "languages", "de.json"), JSON.stringify({ "a.js": catalog }));
  const storage = new Map(kept === null ? [] : [["srb.language", kept]]);
  const given = {
    document: {},
    navigator: { languages: wished },
    localStorage: {
      getItem: (key) => storage.get(key) ?? null,
      setItem: (key, value) => storage.set(key, value),
      removeItem: (key) => storage.delete(key),
    },
  };
  for (const [name, value] of Object.entries(given))
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  return import(pathToFileURL(join(folder, "languages.js")).href);
}

test("a text is said in the chosen language, its values where that language wants them", async () => {
  const catalog = { "{0} may read {1}": "{1} darf {0} lesen", Close: "Schließen", "twice {0}": "{0} und {0}" };
  const { LANGUAGE, msg } = await languages(catalog, { kept: "de" });
  assert.equal(LANGUAGE, "de");
  assert.equal(msg`${"Ann"} may read ${"it"}`, "it darf Ann lesen");
  assert.equal(msg`Close`, "Schließen");
  assert.equal(msg`twice ${2}`, "2 und 2");
});

test("a text that the catalog lacks is said in English", async () => {
  const { msg } = await languages({ Close: "Schließen" }, { kept: "de" });
  assert.equal(msg`${"Ann"} may read ${"it"}`, "Ann may read it");
  assert.equal(msg`Open`, "Open");
});

test("a page whose catalog cannot be loaded is there, in English", async () => {
  const { LANGUAGE, msg } = await languages(null, { kept: "de" });
  assert.equal(LANGUAGE, "de");
  assert.equal(msg`${1} of ${2}`, "1 of 2");
});

test("the chosen language goes before the browser's, of which the first counts that the page speaks", async () => {
  const of = async (options) => (await languages({}, options)).LANGUAGE;
  assert.equal(await of({ wished: ["fr-CH", "de-CH", "en"] }), "de");
  assert.equal(await of({ wished: ["en-GB", "de"] }), "en");
  assert.equal(await of({ wished: ["fr"] }), "en");
  assert.equal(await of({ kept: "en", wished: ["de"] }), "en");
  assert.equal(await of({ kept: "tlh", wished: ["de"] }), "de");
});

test("a choice is kept until it is taken back", async () => {
  const { choose, chosen } = await languages({});
  assert.equal(chosen(), null);
  choose("de");
  assert.equal(chosen(), "de");
  choose(null);
  assert.equal(chosen(), null);
});

// ---- All words of the page

const acorn = await import(new URL("acorn/dist/acorn.mjs", PACKAGES).href).catch(() => null);
const walk = await import(new URL("acorn-walk/dist/walk.mjs", PACKAGES).href).catch(() => null);
const isMissing = acorn === null || walk === null;
const skip = isMissing && !process.env.CI ? "needs acorn and acorn-walk, which `make page` installs" : false;

const FILES = readdirSync(PAGE, { recursive: true })
  .filter((file) => file.endsWith(".js") && !file.startsWith("vendor") && !file.startsWith("languages/"))
  .sort();
const LABELS = ["aria-label", "title", "placeholder", "alt", "label"];
const NAMES = [
  "Exoloom",
  "KoboldAI Lite",
  "Markdown",
  "mikupad",
  "NovelAI",
  "Obsidian Loom",
  "socketteer's loom",
  "SRB",
];
const NAMES_OF_SAMPLERS = ["DRY", "Min-p", "Mirostat", "Top-k", "Top-n-sigma", "Top-p", "Typical-p", "XTC"];
/** Names that are the same in all languages. */
const SAME = new Set([
  ...NAMES,
  ...NAMES_OF_SAMPLERS,
  "EPUB",
  "HTML",
  "OpenDocument",
  "Rich Text",
  "Scrivener",
  "SillyTavern",
  "Word",
  "novelWriter",
]);
/** Calls that say an argument to a person: which one it is. */
const SAYING = {
  ...{ ApiError: 0, Error: 0, MediaError: 0, StoryError: 0, Trouble: 1 },
  ...{ fail: 0, notice: 0, say: 0, must: 1 },
  ...{ checkLength: 1, checkPlace: 2, faultOfEntry: 1, listOf: 1, objectOf: 1, optionalText: 1, parse: 1, textOf: 1 },
};
const SAID = ["description", "holds", "label", "words"]; // fields
/** Files whose `Error` tells of a fault of ours, and not of one that a person can mend. */
const OF_OURS = ["parts/styles.js", "story.js", "story/tree.js"];
const TAG = /<!--.*?-->|<\/?([a-zA-Z][\w-]*)((?:"[^"]*"|'[^']*'|[^>"'])*)>/gsu;
const LABEL = new RegExp(`(?<![\\w.-])(?:${LABELS.join("|")})=("[^"]*"|'[^']*')`, "gu");
const HOLE = "\u0000"; // stands for a value of a template
const UNTRANSLATED = ["code", "kbd", "svg", "style"]; // elements

/** The templates of a file that have a tag: name of the tag, parts, and the line. */
function templatesOf(source) {
  const found = [];
  const tree = acorn.parse(source, { ecmaVersion: "latest", sourceType: "module", locations: true });
  walk.simple(tree, {
    TaggedTemplateExpression({ tag, quasi, loc }) {
      const parts = quasi.quasis.map(({ value }) => value.cooked);
      found.push({ tag: tag.name, parts, line: loc.start.line });
    },
  });
  return found;
}

/** The words that a value has in English by itself, whichever of its parts it becomes. */
function plainWordsIn(node) {
  switch (node?.type) {
    case "Literal":
      return [String(node.value)];
    case "TemplateLiteral":
      return [node.quasis.map(({ value }) => value.cooked).join(HOLE), ...node.expressions.flatMap(plainWordsIn)];
    case "ConditionalExpression":
      return [node.consequent, node.alternate].flatMap(plainWordsIn);
    case "LogicalExpression":
    case "BinaryExpression":
      return [node.left, node.right].flatMap(plainWordsIn);
    case "ArrowFunctionExpression":
      return plainWordsIn(node.body);
    default:
      return []; // a message, or a value
  }
}

/** What a file says in English by errors, notices, remarks and labels that are in no template: the words, and their line. */
function plainWordsOf(source, isOfOurs = false) {
  const found = [];
  const look = (node) => {
    const words = plainWordsIn(node).filter((each) => /\p{L}{2}/u.test(each) && !SAME.has(each));
    found.push(...words.map((each) => ({ words: each, line: node.loc.start.line })));
  };
  const call = ({ callee, arguments: given }) => {
    const { object, property } = callee;
    const name = callee.name ?? property?.name;
    if (Object.hasOwn(SAYING, name) && !(name === "Error" && isOfOurs)) look(given[SAYING[name]]);
    if (name === "push" && [object?.name, object?.property?.name].includes("remarks")) given.forEach(look);
    if (name === "setAttribute" && LABELS.includes(given[0]?.value)) look(given[1]);
  };
  walk.simple(acorn.parse(source, { ecmaVersion: "latest", sourceType: "module", locations: true }), {
    NewExpression: call,
    CallExpression: call,
    Property: ({ key, value }) => SAID.includes(key.name) && look(value),
  });
  return found;
}

/** What a template of HTML says in English by itself: its texts, and its labels. */
function wordsOf(parts) {
  const markup = parts.join(HOLE);
  const said = [];
  let [at, hidden] = [0, ""];
  for (const tag of [...markup.matchAll(TAG), null]) {
    if (!hidden) said.push(markup.slice(at, tag?.index));
    if (tag === null) break;
    const [text, name] = tag;
    at = tag.index + text.length;
    for (const [, label] of text.matchAll(LABEL)) said.push(label);
    if (text === `</${hidden}>`) hidden = "";
    else if (!hidden && UNTRANSLATED.includes(name) && !text.startsWith("</")) hidden = name;
  }
  return said.map((each) => each.replaceAll(/&\w+;/g, "").trim()).filter((each) => /\p{L}/u.test(each));
}

/** The values and tags of a message; labels of tags are words. */
function holesOf(words) {
  const tags = [...words.matchAll(TAG)].map(([tag]) => tag.replaceAll(LABEL, "").replaceAll(/\{\d\}/g, ""));
  return { values: [...new Set(words.match(/\{\d\}/g))].sort(), tags: tags.sort() };
}

const templates =
  skip || isMissing
    ? []
    : FILES.flatMap((file) => templatesOf(readFileSync(join(PAGE, file), "utf8")).map((each) => ({ file, ...each })));
const messages = templates.filter(({ tag }) => tag === "msg" || tag === "msgHtml");

test("the packages that read the page's modules are there", { skip }, () => {
  assert.ok(!isMissing, "make page");
  assert.ok(messages.length > 0);
});

test("each text of the page is in the catalog, and nothing else", { skip }, () => {
  const said = new Set(messages.map(({ parts }) => keyOf(parts)));
  const lacking = messages.filter(({ parts }) => !Object.hasOwn(german, keyOf(parts)));
  assert.deepEqual(
    lacking.map(({ file, line, parts }) => `${file}:${line}: ${keyOf(parts)}`),
    [],
  );
  assert.deepEqual(
    Object.keys(german).filter((key) => !said.has(key)),
    [],
  );
});

test("each text stands once in the catalog", { skip }, () => {
  const texts = Object.values(SECTIONS).flatMap(Object.keys); // within a section, biome finds those that stand twice
  assert.deepEqual(
    texts.filter((text, place) => texts.indexOf(text) !== place),
    [],
  );
});

test("a text in German has the values and the markup that it has in English", { skip }, () => {
  const wrong = Object.entries(german).filter(([english, words]) => {
    const [asked, has] = [holesOf(english), holesOf(words)];
    return JSON.stringify(asked) !== JSON.stringify(has);
  });
  assert.deepEqual(wrong, []);
});

test("no template of HTML says English words by itself", { skip }, () => {
  const wrong = templates
    .filter(({ tag }) => tag === "html")
    .flatMap(({ file, line, parts }) => wordsOf(parts).map((words) => `${file}:${line}: ${words}`));
  assert.deepEqual(wrong, []);
});

test("no error, notice, remark or label says English words by itself", { skip }, () => {
  const wrong = FILES.flatMap((file) =>
    plainWordsOf(readFileSync(join(PAGE, file), "utf8"), OF_OURS.includes(file)).map(
      ({ words, line }) => `${file}:${line}: ${words}`,
    ),
  );
  assert.deepEqual(wrong, []);
});

test("words in a template of HTML are found, and values, code and keys are none", { skip }, () => {
  assert.deepEqual(wordsOf(["<p>Hello, <b>you</b> ", "</p>"]), ["Hello,", "you"]);
  assert.deepEqual(wordsOf(['<a title="Go" aria-label=', ' class="far" data-title="x">', " &nbsp;× 12</a>"]), ['"Go"']);
  assert.deepEqual(wordsOf(["<p><kbd>Esc</kbd> <svg><title>a</title></svg><code>n</code>", "</p>"]), []);
  assert.deepEqual(wordsOf(["of ", ""]), [`of ${HOLE}`]);
});

test("words that a call or a field says are found, and messages, names and faults of ours are none", { skip }, () => {
  const found = (source, isOfOurs) => plainWordsOf(source, isOfOurs).map(({ words }) => words);
  assert.deepEqual(found('throw new StoryError(isBig ? "Too large." : msg`Empty.`)'), ["Too large."]);
  assert.deepEqual(found('must(good, () => "No text."); listOf(a, `Line ${n}`)'), ["No text.", `Line ${HOLE}`]);
  assert.deepEqual(found('desk.notice(msg`Done.`, "error", { label: "Undo" })'), ["Undo"]);
  assert.deepEqual(found('draft.remarks.push(`${n} notes`); list.push("a note")'), [`${HOLE} notes`]);
  assert.deepEqual(found('const one = { label: "Top-k", words: how || "all" }'), ["all"]);
  assert.deepEqual(found('throw new Error("no such node")'), ["no such node"]);
  assert.deepEqual(found('throw new Error("no such node")', true), []);
});
