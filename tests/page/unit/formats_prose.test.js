import assert from "node:assert/strict";
import { test } from "node:test";
import { commentOn, commentsOf, PREFIX, rangesOf } from "../../../srb/page/desk/comments.js";
import { read } from "../../../srb/page/formats/detect.js";
import { writeDocx } from "../../../srb/page/formats/docx.js";
import { writeEpub } from "../../../srb/page/formats/epub.js";
import { Story } from "../../../srb/page/story.js";
import { strToU8, zipSync } from "../../../srb/page/vendor/zip.js";
import { encoded, manuscript } from "./formats_oracle.js";

const open = async (name, content) => {
  const found = await read(name, content);
  assert.ok(!("error" in found), found.error);
  const json = found.stories[0].toJSON();
  return { ...found, json, text: manuscript(json) };
};
const refuses = async (name, content, says) =>
  assert.match((await read(name, content)).error ?? "nothing was refused", says);
const zip = (files) => zipSync(Object.fromEntries(Object.entries(files).map(([name, text]) => [name, strToU8(text)])));

// ---- Word

const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';
const STYLES = `<w:styles ${W}>
  <w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/><w:rPr><w:b/></w:rPr></w:style>
  <w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="My Chapter"/><w:basedOn w:val="H1"/></w:style>
  <w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
  <w:style w:type="character" w:styleId="E"><w:name w:val="Emphasis"/><w:rPr><w:i/></w:rPr></w:style>
  <w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
</w:styles>`;
const p = (runs, style) => `<w:p>${style ? `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>` : ""}${runs}</w:p>`;
const r = (text, look = "") =>
  `<w:r>${look ? `<w:rPr>${look}</w:rPr>` : ""}<w:t xml:space="preserve">${text}</w:t></w:r>`;
const docx = (body, more = {}) =>
  zip({
    "word/document.xml": `<?xml version="1.0"?><w:document ${W}><w:body>${body}</w:body></w:document>`,
    "word/styles.xml": STYLES,
    ...more,
  });

for (const [name, body, text] of [
  ["paragraphs", p(r("One.")) + p(r("Two &amp; three.")), "One.\n\nTwo & three."],
  ["runs that Word has cut", p(r("On") + r("e", "") + r(".")), "One."],
  [
    "italics and bold",
    p(r("She said ") + r("never", "<w:i/>") + r(" and ") + r("always", "<w:b/>") + r(".")),
    "She said *never* and **always**.",
  ],
  ["both at once", p(r("a ") + r("b", "<w:i/><w:b/>")), "a ***b***"],
  ["spaces outside of the signs", p(r("a") + r(" b ", "<w:i/>") + r("c")), "a *b* c"],
  ["emphasis over two runs", p(r("no", "<w:i/>") + r("thing", "<w:i/>")), "*nothing*"],
  ["emphasis that is switched off", p(r("a", '<w:i w:val="0"/>') + r("b", '<w:b w:val="false"/>')), "ab"],
  ["a style of characters", p(r("a ") + r("b", '<w:rStyle w:val="E"/>')), "a *b*"],
  [
    "headings, by a style's name or what it is based on",
    p(r("I"), "H1") + p(r("x")) + p(r("II"), "Mine"),
    "# I\n\nx\n\n# II",
  ],
  ["a heading by its level", `<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr>${r("Two")}</w:p>`, "## Two"],
  ["a heading's emphasis, without its bold", p(r("The ", "<w:b/>") + r("Sea", "<w:i/>"), "H1"), "# The *Sea*"],
  ["breaks between scenes", p(r("a")) + p(r("* * *")) + p(r("b")) + p(r("⁂")) + p(r("c")), "a\n\n***\n\nb\n\n***\n\nc"],
  ["lines of a poem", p(`${r("a")}<w:r><w:br/></w:r>${r("b")}`), "a\nb"],
  ["a page's end", p(`${r("a")}<w:r><w:br w:type="page"/></w:r>`) + p(r("b")), "a\n\nb"],
  [
    "deleted and inserted words",
    p(`${r("a")}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins>${r("b")}</w:ins>`),
    "ab",
  ],
  ["empty paragraphs", `${p("")}${p(r("a"))}${p("")}<w:p/>${p(r("b"))}`, "a\n\nb"],
  ["a table", `<w:tbl><w:tr><w:tc>${p(r("a"))}</w:tc><w:tc>${p(r("b"))}</w:tc></w:tr></w:tbl>`, "a\n\nb"],
  [
    "a box of text once",
    p(
      `${r("a")}<mc:AlternateContent><mc:Choice><w:drawing>${p(r("box"))}</w:drawing></mc:Choice><mc:Fallback><w:pict>${p(r("box"))}</w:pict></mc:Fallback></mc:AlternateContent>`,
    ),
    "a",
  ],
  ["a field's words, not its code", p(`<w:r><w:instrText>PAGE</w:instrText></w:r>${r("7")}`), "7"],
  ["a style that is based on itself", p(r("a"), "Loop"), "a"],
  ["markup in words", p(r("&lt;b&gt;x&lt;/b&gt; &#8212; &#x1F315;")), "<b>x</b> — 🌕"],
])
  test(`Word: ${name}`, async () => assert.equal((await open("x.docx", docx(body))).text, text));

test("Word: the title is the story's, chapters are nodes, and what is left out is told", async () => {
  const body =
    p(r("Fog"), "T") +
    p(r("One"), "H1") +
    p(`${r("a")}<w:r><w:footnoteReference w:id="2"/><w:drawing/></w:r>`) +
    p(r("Two"), "H1") +
    p(r("b"));
  const { json, text, remarks, format } = await open("draft.docx", docx(body));
  assert.deepEqual([format, json.title, text], ["Word", "Fog", "# One\n\na\n\n# Two\n\nb"]);
  assert.deepEqual(
    Object.values(json.nodes).map((node) => node.text),
    ["# One\n\na", "\n\n# Two\n\nb"],
  );
  assert.deepEqual(remarks, ["Pictures (1) were left out.", "1 footnote was left out."]);
  assert.equal((await open("draft.docx", docx(p(r("a"))))).json.title, "draft");
  const core = "<cp:coreProperties><dc:title>The &amp; Sea</dc:title></cp:coreProperties>";
  assert.equal((await open("draft.docx", docx(p(r("a")), { "docProps/core.xml": core }))).json.title, "The & Sea");
});

test("Word: a damaged file is refused", async () => {
  const good = docx(p(r("a".repeat(5000))));
  await refuses("x.docx", good.subarray(0, good.length - 40), /“x.docx” is damaged/);
  await refuses("x.docx", zip({ "word/document.xml": "<w:document><w:body><w:p>" }), /was cut short/);
  await refuses("x.docx", docx(""), /holds no text/);
  await refuses("x.zip", zip({ "a.txt": "a" }), /is an archive, but no Word file/);
});

/** An archive that says another size of its file than it has. */
function lying(files, size) {
  const bytes = zip(files);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let at = 0; at + 46 < bytes.length; at += 1) {
    if (view.getUint32(at, true) === 0x02014b50) view.setUint32(at + 24, size, true);
  }
  return bytes;
}

test("an archive that unpacks to too much is refused before it is, by what it says and by what it is", async () => {
  const xml = `<w:document><w:body>${" ".repeat(4 * 2 ** 20)}</w:body></w:document>`;
  await refuses("bomb.docx", zip({ "word/document.xml": xml.padEnd(40 * 2 ** 20) }), /too large when it is unpacked/);
  await refuses("bomb.docx", lying({ "word/document.xml": "<w:document/>" }, 2 ** 31), /too large when it is unpacked/);
  await refuses(
    "bomb.docx",
    lying({ "word/document.xml": `<w:document>${p(r("a".repeat(9000)))}</w:document>` }, 100),
    /is damaged/,
  );
  const many = Object.fromEntries(Array.from({ length: 20_001 }, (_, index) => [`f${index}`, ""]));
  await refuses("many.docx", zip(many), /more than 20,000 files/);
});

// ---- HTML

for (const [name, body, text] of [
  ["paragraphs and spaces", "<p>One\n  two.<p>Three.", "One two.\n\nThree."],
  [
    "emphasis",
    "<p>She <em>said</em> <b>no</b> <i>now </i>and <strong><i>x</i></strong>.",
    "She *said* **no** *now* and ***x***.",
  ],
  [
    "emphasis by style or class",
    '<p><span style="font-style:italic">a</span> <span class="calibre italic">b</span> <span style="font-weight: 700">c</span>',
    "*a* *b* **c**",
  ],
  ["tags that are never closed, or in a wrong order", "<p><i>a<b>b</i>c</p><p>d", "*ab*c\n\n**d**"],
  [
    "headings",
    "<h1>The <em>Sea</em></h1><h2><b>Two</b></h2><p>x</p><h3>Three</h3>",
    "# The *Sea*\n\n## Two\n\nx\n\n### Three",
  ],
  ["breaks", "<p>a</p><hr><hr/><p>b</p><p>***</p><p>c</p>", "a\n\n***\n\nb\n\n***\n\nc"],
  ["lines", "<p>a<br>b<br/>\n c</p>", "a\nb\nc"],
  [
    "entities",
    "<p>&ldquo;Caf&eacute;&rdquo; &mdash; &#8230; &#x2014; &unknown; AT&T &lt;b&gt;</p>",
    "“Café” — … — &unknown; AT&T <b>",
  ],
  [
    "scripts and styles",
    "<style>p{}</style><script>if (a<b) alert('<p>x</p>')</script><p>a</p><noscript>n</noscript><svg><text>t</text></svg>",
    "a",
  ],
  ["comments", "<p>a<!-- <p>b</p> -->c</p>", "ac"],
  ["signs that are no tags", "<p>1 < 2 > 1 <3 a < b", "1 < 2 > 1 <3 a < b"],
  ["a quotation mark in a tag", '<p title="a>b">x</p>', "x"],
  ["lists and tables", "<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", "a\n\nb\n\nc\n\nd"],
  ["ruby", "<p><ruby>灯台<rp>(</rp><rt>とうだい</rt></ruby>守", "灯台守"],
])
  test(`HTML: ${name}`, async () =>
    assert.equal((await open("x.html", encoded(`<!doctype html><body>${body}`))).text, text));

test("HTML: its title, what is no HTML, and its encoding", async () => {
  const page =
    "<html><head><title>Fog &amp; Sea</title></head><body><p>a<img src='https://elsewhere.test/x.png'></p></body></html>";
  const { json, format, remarks } = await open("x", encoded(page));
  assert.deepEqual([format, json.title, remarks], ["HTML", "Fog & Sea", ["Pictures (1) were left out."]]);
  assert.equal((await open("x.txt", encoded(page))).format, "text");
  assert.equal((await open("", encoded("a < b <html> c"))).format, "text");
  const latin = Uint8Array.from('<html><meta charset="iso-8859-2"><p>\xb1\xe6', (letter) => letter.charCodeAt(0));
  assert.equal((await open("x.htm", latin)).text, "ąć");
  await refuses("x.html", encoded("<html><body><img></body></html>"), /holds no text/);
});

test("HTML: work grows with the page, whatever is in it", async () => {
  for (const part of ["<", '<a "', "<a ", "<!--", "<![CDATA[", "<p><i>", "</p>", "&#", "<script>"]) {
    const text = `<html><p>x</p>${part.repeat(300_000)}`;
    const found = await read("x.html", encoded(text));
    assert.ok("stories" in found || "error" in found);
  }
});

// ---- EPUB

const OPF = (items, spine, title = "The Book") =>
  `<?xml version="1.0"?><package><metadata><dc:title>${title}</dc:title></metadata><manifest>${items}</manifest><spine>${spine}</spine></package>`;
const item = (id, href, more = "") => `<item id="${id}" href="${href}" media-type="application/xhtml+xml" ${more}/>`;
const ref = (id, more = "") => `<itemref idref="${id}" ${more}/>`;
const epub = (files) =>
  zip({
    mimetype: "application/epub+zip",
    "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    ...files,
  });
const page = (body) =>
  `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>${body}</body></html>`;

test("EPUB: its pages come in the spine's order, without what is not read along", async () => {
  const { json, text, format, remarks } = await open(
    "b.epub",
    epub({
      "OPS/book.opf": OPF(
        item("n", "nav.xhtml", 'properties="nav"') +
          item("b", "text/two%20b.xhtml") +
          item("a", "text/one.xhtml") +
          item("x", "x.xhtml"),
        ref("n") + ref("a") + ref("b") + ref("a") + ref("x", 'linear="no"') + ref("gone"),
      ),
      "OPS/nav.xhtml": page("<p>Contents</p>"),
      "OPS/x.xhtml": page("<p>aside</p>"),
      "OPS/text/one.xhtml": page("<h1>The Book</h1><h2>One</h2><p>a <i>b</i></p>"),
      "OPS/text/two b.xhtml": page("<h2>Two</h2><p>c</p>"),
    }),
  );
  assert.deepEqual([format, json.title, text], ["EPUB", "The Book", "## One\n\na *b*\n\n## Two\n\nc"]);
  assert.equal(Object.keys(json.nodes).length, 2);
  assert.deepEqual(remarks, []);
});

test("EPUB: a locked or damaged book is refused, and a missing page is told", async () => {
  const files = {
    "OPS/book.opf": OPF(item("a", "a.xhtml") + item("b", "b.xhtml"), ref("a") + ref("b")),
    "OPS/a.xhtml": page("<p>a</p>"),
  };
  assert.deepEqual((await open("b.epub", epub(files))).remarks, ["Pages of the book (1) are missing in the file."]);
  const lock = (uri) => ({ "META-INF/encryption.xml": `<e><enc:CipherReference URI="${uri}"/></e>` });
  await refuses("b.epub", epub({ ...files, ...lock("OPS/a.xhtml") }), /locked by a copy protection/);
  assert.equal((await open("b.epub", epub({ ...files, ...lock("OPS/font.otf") }))).text, "a");
  await refuses("b.epub", epub({}), /“OPS\/book.opf” is missing/);
});

// ---- Rich Text

const rtf = (body, head = "\\ansi\\ansicpg1252") =>
  Uint8Array.from(`{\\rtf1${head} ${body}}`, (letter) => letter.charCodeAt(0));

for (const [name, body, text] of [
  ["paragraphs", "One.\\par Two.\r\n\\par\r\nThree.", "One.\n\nTwo.\n\nThree."],
  ["emphasis", "She {\\i said} \\b no\\b0  and \\i\\b x\\plain .", "She *said* **no** and ***x***."],
  ["code page", "caf\\'e9 \\'abx\\'bb \xe9t\xe9", "café «x» été"],
  [
    "Unicode with what stands for it",
    "\\u8212?a\\u-10179?\\u-9003?b {\\uc2\\u233\\'65\\'65}c{\\uc0\\u233}d",
    "—a🌕b éc\u00e9d".replace("🌕", "\ud83d\udcd5"),
  ],
  ["signs", "a\\emdash b\\~c\\_d \\{x\\} \\ldblquote y\\rdblquote", "a—b\u00a0c\u2011d {x} “y”"],
  [
    "fonts of other scripts",
    "{\\fonttbl{\\f0\\fcharset0 Arial;}{\\f1\\fcharset204 Cyr;}{\\f2\\fcharset128 Gothic;}}\\f1 \\'cc\\'e0\\'ff\\'ea\\f0  x \\f2 \\'93\\'94\\'91\\'e4",
    "Маяк x 灯台"
      .replace("灯台", "\u9262\u53f0")
      .replace("\u9262\u53f0", new TextDecoder("shift_jis").decode(Uint8Array.of(0x93, 0x94, 0x91, 0xe4))),
  ],
  [
    "tables of fonts, colours and styles",
    "{\\fonttbl{\\f0 Times;}}{\\colortbl;\\red0;}{\\stylesheet{\\s1 heading 1;}}{\\*\\generator X;}a",
    "a",
  ],
  ["headings", "\\pard\\outlinelevel0\\b One\\b0\\par\\pard a\\par", "# One\n\na"],
  ["hidden and deleted words", "a{\\v hidden}{\\deleted gone}b", "ab"],
  ["lines and breaks", "a\\line b\\par * * *\\par c", "a\nb\n\n***\n\nc"],
  ["fields", "{\\field{\\*\\fldinst HYPERLINK x}{\\fldrslt link}} y", "link y"],
])
  test(`Rich Text: ${name}`, async () => assert.equal((await open("x.rtf", rtf(body))).text, text));

test("Rich Text: its title, what is left out, and a damaged one", async () => {
  const { json, remarks } = await open(
    "x.rtf",
    rtf("{\\info{\\title Fog}{\\author A}}a{\\footnote note}{\\pict\\bin4 }}}}b}"),
  );
  assert.equal(json.title, "Fog");
  assert.deepEqual(remarks, ["Pictures (1) were left out.", "1 footnote was left out."]);
  await refuses("x.rtf", encoded("{\\rtf1 a {b}"), /was cut short/);
  await refuses("x.rtf", encoded(`{\\rtf1 ${"{".repeat(2000)}`), /nested too deeply/);
  await refuses("x.rtf", encoded("{\\rtf1 }"), /holds no text/);
});

// ---- There and back

test("what the page writes as Word or EPUB comes in with its title, chapters and words", async () => {
  const story = Story.create("Fog");
  story.head = story.edit({ node: "", at: 0 }, 0, 0, "Once.\n\nTwice & “thrice”.\n\nThe end 🌕.");
  story.closeAll();
  for (const [name, bytes] of [
    ["x.docx", writeDocx(story)],
    ["x.epub", writeEpub(story)],
  ]) {
    const { json, text } = await open(name, bytes);
    assert.equal(json.title, "Fog");
    assert.equal(text.replace(/^#+ .*\n\n/, ""), "Once.\n\nTwice & “thrice”.\n\nThe end 🌕.", name);
  }
});

// ---- Comments of Word

const C = (id, author, text) =>
  `<w:comment w:id="${id}" w:author="${author}"><w:p><w:r><w:annotationRef/></w:r>${r(text)}</w:p></w:comment>`;
const comments = (...list) => ({ "word/comments.xml": `<w:comments ${W}>${list.join("")}</w:comments>` });
const begin = (id) => `<w:commentRangeStart w:id="${id}"/>`;
const end = (id) => `<w:commentRangeEnd w:id="${id}"/><w:r><w:commentReference w:id="${id}"/></w:r>`;

/** The comments of a story: author, words, and the words that they are on. */
function commentsIn(story) {
  const text = story.text(story.head.node, story.head.at);
  const found = commentsOf(story);
  const ranges = rangesOf(story, story.head, found);
  return [...found]
    .map(([id, { author = "", text: words, quote }]) => {
      const { from, to } = ranges.get(id);
      assert.ok(text.slice(from, to).replace(/\s+/gu, " ").trim().startsWith(quote));
      return [from, author, words, text.slice(from, to)];
    })
    .sort(([a], [b]) => a - b)
    .map(([, ...rest]) => rest);
}

for (const [name, body, text, on] of [
  ["a word", p(r("The ") + begin(0) + r("lake") + end(0) + r(" froze.")), "The lake froze.", "lake"],
  [
    "the middle of an italic word",
    p(r("no", "<w:i/>") + begin(0) + r("th", "<w:i/>") + end(0) + r("ing", "<w:i/>")),
    "*nothing*",
    "th",
  ],
  ["italics with spaces around them", p(r("a") + begin(0) + r(" b ", "<w:i/>") + end(0) + r("c")), "a *b* c", " *b* "],
  ["two paragraphs", p(begin(0) + r("One.")) + p(r("Two.") + end(0)), "One.\n\nTwo.", "One.\n\nTwo."],
  ["a heading", p(begin(0) + r("I") + end(0), "H1") + p(r("x")), "# I\n\nx", "I"],
  ["marks in an empty paragraph", p(r("a")) + p(begin(0)) + p(r("b") + end(0)), "a\n\nb", "b"],
  ["a break between scenes", p(r("a")) + p(begin(0) + r("* * *") + end(0)) + p(r("b")), "a\n\n***\n\nb", "***"],
  [
    "no words: then the word before",
    p(`${r("The lake")}<w:r><w:commentReference w:id="0"/></w:r>${r(" froze.")}`),
    "The lake froze.",
    "lake",
  ],
  ["words before the title's end", p(begin(0) + r("Title"), "T") + p(r("The lake") + end(0)), "The lake", "lake"],
])
  test(`Word: a comment on ${name}`, async () => {
    const found = await open("x.docx", docx(body, comments(C(0, "Ann &amp; Co", "Check the year."))));
    assert.equal(found.text, text);
    assert.deepEqual(commentsIn(found.stories[0]), [["Ann & Co", "Check the year.", on]]);
  });

test("Word: comments that overlap, that have no words in the text, and wrong numbers", async () => {
  const body = p(begin(0) + r("a ") + begin(1) + r("b ") + end(0) + r("c") + end(1) + begin("x") + end(77));
  const found = await open("x.docx", docx(body, comments(C(0, "A", "one"), C(1, "", "two"), C(5, "B", "nowhere"))));
  assert.equal(found.text, "a b c");
  assert.deepEqual(commentsIn(found.stories[0]), [
    ["A", "one", "a b "],
    ["", "two", "b c"],
  ]);
  assert.equal((await open("x.docx", docx(p(r("\ufdd05\ufdd2a"))))).text, "5a");
});

test("Word: comments that were exported come in again, on the same words", async () => {
  const text =
    "## The *lamp*\n\nIt was *very very* cold, and nobody\u200b came.\n\n***\n\nHome. ![x](srb:00000000000000000000000000000000) End.";
  const story = Story.create("T");
  story.head = story.edit({ node: "", at: 0 }, 0, 0, text);
  story.closeAll();
  story.setMeta("author", "Ida");
  const wanted = ["lamp", "very cold", "came.\n\n***\n\nHome", "nobody", "x](srb", "very very"];
  for (const words of wanted) {
    const from = words === "very cold" ? text.indexOf("very* cold") : text.indexOf(words);
    const to = from + (words === "very cold" ? "very* cold".length : words.length);
    story.setMeta(
      PREFIX + words.slice(0, 4).trim() + from,
      commentOn(story, story.head, { from, to }, `On ${words}\n& more`),
    );
  }
  story.setMeta(`${PREFIX}empty`, commentOn(story, story.head, { from: 3, to: 5 }));
  const { stories } = await open("x.docx", writeDocx(story));
  const found = commentsIn(stories[0]);
  assert.deepEqual(new Set(found.map(([author]) => author)), new Set(["Ida"]));
  const plain = (words) => words.replace(/[*#]/g, "").replace(/\s+/g, " ").trim();
  const on = Object.fromEntries(found.map(([, words, range]) => [words, plain(range)]));
  for (const words of wanted.filter((each) => each !== "x](srb")) assert.equal(on[`On ${words}\n& more`], plain(words));
  assert.equal(found.length, wanted.length);
});
