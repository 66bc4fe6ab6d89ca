// Files as other programs write them: what a made-up, tidy file does not have. Nothing is lost without a word.
import assert from "node:assert/strict";
import { test } from "node:test";
import { read } from "../../../srb/page/formats/detect.js";
import { writeDocx } from "../../../srb/page/formats/docx.js";
import { strToU8, zipSync } from "../../../srb/page/vendor/zip.js";
import { encoded, manuscript } from "./formats_oracle.js";

const open = async (name, content) => {
  const found = await read(name, content);
  assert.ok(!("error" in found), found.error);
  const json = found.stories[0].toJSON();
  return { ...found, json, text: manuscript(json) };
};
const zip = (files) => zipSync(Object.fromEntries(Object.entries(files).map(([name, text]) => [name, strToU8(text)])));

// ---- Word

const URI = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
const W = `xmlns:w="${URI}"`;
const p = (runs, of = "") => `<w:p>${of && `<w:pPr>${of}</w:pPr>`}${runs}</w:p>`;
const r = (text, look = "") => `<w:r>${look && `<w:rPr>${look}</w:rPr>`}<w:t xml:space="preserve">${text}</w:t></w:r>`;
const STYLES = `<w:styles ${W}>
  <w:style w:type="character" w:styleId="Secret"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>
  <w:style w:type="character" w:styleId="Em"><w:name w:val="Emphasis"/><w:rPr><w:i/></w:rPr></w:style>
  <w:style w:type="paragraph" w:styleId="Letter"><w:name w:val="Letter"/><w:rPr><w:i/></w:rPr></w:style>
  <w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>
</w:styles>`;
const docx = (body, more = {}) =>
  zip({
    "word/document.xml": `<?xml version="1.0"?><w:document ${W}><w:body>${body}</w:body></w:document>`,
    "word/styles.xml": STYLES,
    ...more,
  });
const box = (text) =>
  `<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent>${p(r(text))}</w:txbxContent></wps:txbx></w:drawing></mc:Choice>` +
  `<mc:Fallback><w:pict><v:textbox><w:txbxContent>${p(r(text))}</w:txbxContent></v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>`;
const change = (look) => `<w:rPrChange w:id="1" w:author="E"><w:rPr>${look}</w:rPr></w:rPrChange>`;
const prose = (...lines) => lines.map((line) => p(line && r(line))).join("");

for (const [name, body, text, remarks] of [
  ["hidden words", p(r("a ") + r("one two ", "<w:vanish/>") + r("b")), "a b", ["Hidden words (2) were left out."]],
  [
    "words hidden by a style",
    p(r("a ") + r("x ", '<w:rStyle w:val="Secret"/>') + r("b")),
    "a b",
    ["Hidden words (1) were left out."],
  ],
  ["words that hide no more", p(r("a ") + r("x", '<w:rStyle w:val="Secret"/><w:vanish w:val="0"/>')), "a x", []],
  [
    "a box of text, once, behind its paragraph",
    p(r("Dear") + box("A letter.") + r(" me")) + p(r("b")),
    "Dear me\n\nA letter.\n\nb",
    [],
  ],
  [
    "a box in the old form alone",
    p(`${r("a")}<w:r><w:pict><v:textbox><w:txbxContent>${p(r("b"))}</w:txbxContent></v:textbox></w:pict></w:r>`),
    "a\n\nb",
    [],
  ],
  [
    "a picture in both forms, once",
    p(
      `${r("a")}<w:r><mc:AlternateContent><mc:Choice><w:drawing><pic:pic/></w:drawing></mc:Choice><mc:Fallback><w:pict/></mc:Fallback></mc:AlternateContent></w:r>`,
    ),
    "a",
    ["Pictures (1) were left out."],
  ],
  ["a look that was changed: it was italic", p(r("plain", change("<w:i/>"))), "plain", []],
  ["a look that was changed: it is italic", p(r("now", `<w:i/>${change("")}`)), "*now*", []],
  [
    "a paragraph whose look was changed",
    `<w:p><w:pPr><w:pPrChange w:id="1"><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:pPrChange></w:pPr>${r("text")}</w:p>`,
    "text",
    [],
  ],
  [
    "ruby",
    p(`<w:r><w:ruby><w:rt>${r("かんじ")}</w:rt><w:rubyBase>${r("漢字")}</w:rubyBase></w:ruby></w:r>${r("です。")}`),
    "漢字です。",
    [],
  ],
  [
    "an empty paragraph between scenes",
    prose("1.", "2.", "3.", "4.", "", "Later.", "6."),
    "1.\n\n2.\n\n3.\n\n4.\n\n\nLater.\n\n6.",
    [],
  ],
  ["a paragraph of a space between scenes", prose("1.", "2.", "3.", " ", "Later."), "1.\n\n2.\n\n3.\n\n\nLater.", []],
  [
    "empty paragraphs between all, and two between scenes",
    prose("1.", "", "2.", "", "3.", "", "", "Later.", "", "5."),
    "1.\n\n2.\n\n3.\n\n\nLater.\n\n5.",
    [],
  ],
  ["empty paragraphs between all", prose("1.", "", "2.", "", "3."), "1.\n\n2.\n\n3.", []],
  [
    "empty paragraphs beside a heading",
    p(r("One"), '<w:outlineLvl w:val="0"/>') + prose("", "1.", "2.", "3."),
    "# One\n\n1.\n\n2.\n\n3.",
    [],
  ],
  [
    "signs that are words",
    prose(
      "The note said *do not run* in chalk.",
      "_old_ max_old_count",
      "# 5 Mill Lane",
      "> so",
      "*.txt and then *.bak",
    ),
    "The note said \\*do not run\\* in chalk.\n\n\\_old\\_ max_old_count\n\n\\# 5 Mill Lane\n\n> so\n\n*.txt and then *.bak",
    [],
  ],
  [
    "a quotation in italics before a letter",
    p(r("“Stop!”", "<w:i/>") + r("he said")),
    "*“Stop!*”he said",
    ["Emphasis that has no signs in Markdown was left out in lines (1)."],
  ],
  [
    "a style and a paragraph's style that both say italic",
    p(r("a ") + r("b", '<w:rStyle w:val="Em"/>') + r(" c"), '<w:pStyle w:val="Letter"/>'),
    "*a* b *c*",
    [],
  ],
  [
    "a paragraph's end that was deleted",
    `${p(r("One "), "<w:rPr><w:del/></w:rPr>")}${p(r("sentence."))}`,
    "One sentence.",
    [],
  ],
  [
    "a table of contents",
    `<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr><w:sdtContent>${p(r("Chapter One"))}</w:sdtContent></w:sdt>${p(r("a"))}`,
    "a",
    ["Words of menus, forms, tables of contents and drawings (2) were left out."],
  ],
  [
    "a table of contents by its styles",
    p(r("One\t3"), '<w:pStyle w:val="TOC1"/>') + p(r("a")),
    "a",
    ["Words of menus, forms, tables of contents and drawings (2) were left out."],
  ],
  [
    "underlining",
    p(r("a ") + r("b", '<w:u w:val="single"/>')),
    "a b",
    ["Underlining and words that are struck through (1) became plain."],
  ],
  [
    "a list",
    p(r("a"), '<w:numPr><w:numId w:val="1"/></w:numPr>') + p(r("b")),
    "a\n\nb",
    ["Numbers and bullets of lists (1) were left out."],
  ],
  [
    "signs of symbol fonts",
    p(`${r("a")}<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r><w:r><w:sym w:font="Symbol" w:char="2192"/></w:r>`),
    "a→",
    ["Signs of symbol fonts (1) were left out."],
  ],
  ["characters that no text has", p(r("a\ufeffb\u2028c")), "ab\nc", []],
])
  test(`Word: ${name}`, async () => {
    const found = await open("x.docx", docx(body));
    assert.deepEqual([found.text, found.remarks], [text, remarks]);
  });

test("Word: the document is the part that the file names, whatever its prefixes", async () => {
  const rels = (target) =>
    `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="${target}"/></Relationships>`;
  const body = `<ns0:document xmlns:ns0="${URI}"><ns0:body><ns0:p><ns0:r><ns0:rPr><ns0:i/></ns0:rPr><ns0:t>a</ns0:t></ns0:r></ns0:p></ns0:body></ns0:document>`;
  for (const target of ["word/document2.xml", "/word/document2.xml"])
    assert.equal((await open("x.docx", zip({ "_rels/.rels": rels(target), "word/document2.xml": body }))).text, "*a*");
  const strict = body.replaceAll(URI, "http://purl.oclc.org/ooxml/wordprocessingml/main");
  assert.equal((await open("x.docx", zip({ "word/document.xml": strict }))).text, "*a*");
});

test("Word: notes become comments on the words before them", async () => {
  const note = `<w:footnotes ${W}><w:footnote w:id="2"><w:p>${r("See the log.")}</w:p></w:footnote></w:footnotes>`;
  const body = p(`${r("The lamp")}<w:r><w:footnoteReference w:id="2"/></w:r>${r(" died.")}`);
  const { json, text, remarks } = await open("x.docx", docx(body, { "word/footnotes.xml": note }));
  const comments = Object.entries(json).filter(([key]) => key.startsWith("comment"));
  assert.deepEqual(
    [text, remarks, comments.map(([, { text, quote }]) => [text, quote])],
    ["The lamp died.", [], [["See the log.", "lamp"]]],
  );
});

test("Word: our own file that others have made their own is the same text", async () => {
  const { stories } = await open("x.docx", docx(prose("1.", "2.", "3.", "", "Later.")));
  stories[0].setMeta("author", "Ann Writer");
  const again = await open("y.docx", writeDocx(stories[0]));
  assert.deepEqual(
    [again.text, again.json.title, again.json.author],
    ["1.\n\n2.\n\n3.\n\n\nLater.", "x", "Ann Writer"],
  );
});

// ---- HTML

for (const [name, page, text, remarks = []] of [
  ["a head and a body that are not closed", "<head><title>Foo</title><body><p>One<p>Two", "One\n\nTwo"],
  ["a head without a body", "<head><title>Foo</title><p>One", "One"],
  [
    "a menu that is not closed",
    "<body><p>One</p><nav><a>Home</a>",
    "One",
    ["Words of menus, forms, tables of contents and drawings (1) were left out."],
  ],
  [
    "hidden parts",
    '<p>a<span style="display:none">one</span><span hidden>two three</span>b',
    "ab",
    ["Hidden words (3) were left out."],
  ],
  [
    "Google's clipboard",
    '<b style="font-weight:normal" id="docs-internal-guid-1"><p><span style="font-weight:400;font-style:normal">It was </span><span style="font-weight:700;font-style:italic">dark</span></p></b>',
    "It was ***dark***",
  ],
  [
    "Google's page",
    "<style>.c1{font-style:italic}.c2{font-weight:700}#x{font-style:italic}</style><p class=c0>a <span class=c1>b</span> <span class='c0 c2'>c</span> <span id=x>d</span>",
    "a *b* **c** *d*",
  ],
  [
    "a class that takes an emphasis away",
    "<style>em.n{font-style:normal} .non-italic{}</style><p><em class=n>a</em> <i>b</i> <span class=non-italic>c</span>",
    "a *b* c",
  ],
  [
    "an id that is more special than a class",
    "<style>#a{font-style:normal}.b{font-style:italic}</style><p><span id=a class=b>x</span>",
    "x",
  ],
  ["characters by their names", "<p>&hearts; &alpha; &rarr; &NotEqualTilde; &copy 2001", "♥ α → ≂̸ © 2001"],
  ["an empty paragraph between scenes", "<p>1<p>2<p>3<p>&#160;</p><p>Later", "1\n\n2\n\n3\n\n\nLater"],
  ["a line end between scenes", "<p>1<p>2<p>3<p><br></p><p>Later", "1\n\n2\n\n3\n\n\nLater"],
  [
    "a box between scenes",
    "<div>1</div><div>2</div><div>3</div><div><br></div><div>Later</div>",
    "1\n\n2\n\n3\n\n\nLater",
  ],
  ["line ends instead of paragraphs", "One.<br><br>Two.<br><br>Three.", "One.\n\nTwo.\n\nThree."],
  ["verse", "<p>One,<br>two,</p><p>three.", "One,\ntwo,\n\nthree."],
  ["spaces at the ends of emphasis", "<p>a<i> b </i> c", "a *b* c"],
  [
    "struck-through words",
    "<p>a <s>b</s> <u>c <b>d</b></u>",
    "a b c **d**",
    ["Underlining and words that are struck through (2) became plain."],
  ],
  [
    "signs that are words",
    "<p>The note said *do not run*.<p># 5 Mill Lane",
    "The note said \\*do not run\\*.\n\n\\# 5 Mill Lane",
  ],
])
  test(`HTML: ${name}`, async () => {
    const found = await open("x.html", encoded(page));
    assert.deepEqual([found.text, found.remarks], [text, remarks]);
  });

// ---- EPUB

const item = (id) => `<item id="${id}" href="${id}.xhtml" media-type="application/xhtml+xml"/>`;
/** @param {Record<string, string>} pages @param {Record<string, string>} [more] */
const epub = (pages, more = {}) =>
  zip({
    mimetype: "application/epub+zip",
    "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    "OPS/book.opf":
      `<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>B</dc:title><dc:creator>Ann</dc:creator></metadata>` +
      `<manifest>${Object.keys(pages).map(item).join("")}</manifest>` +
      `<spine>${Object.keys(pages)
        .map((id) => `<itemref idref="${id}"/>`)
        .join("")}</spine></package>`,
    ...Object.fromEntries(Object.entries(pages).map(([id, page]) => [`OPS/${id}.xhtml`, page])),
    ...more,
  });
const xhtml = (head, body) =>
  `<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head>${head}</head><body>${body}</body></html>`;

for (const [name, head, body, text] of [
  ["an empty title", "<title/>", "<p>One</p>", "One"],
  ["an empty style", "<title>t</title><style/>", "<p>One</p>", "One"],
  ["an empty script", '<title>t</title><script src="x.js"/>', "<p>One</p>", "One"],
  ["an empty field", "<title>t</title>", "<p>One <textarea/>two</p><xmp/><p>three</p>", "One two\n\nthree"],
  ["an empty anchor", "<title/>", '<p><a id="p1"/>One <i/>two</p>', "One two"],
  ["characters by their names", "<title/>", "<p>A&nbsp;&hearts;&mdash;B</p>", "A\u00a0♥—B"],
  [
    "the book's own styles",
    '<title/><link rel="stylesheet" href="css/a.css"/>',
    '<p class="body">a <span class="calibre3">b</span></p>',
    "a *b*",
  ],
  ["a page that is no XML", "<title>t</title>", "<p>One<p>Two<br>three &copy 1", "One\n\nTwo\nthree © 1"],
])
  test(`EPUB: ${name}`, async () => {
    const found = await open(
      "x.epub",
      epub({ one: xhtml(head, body) }, { "OPS/css/a.css": "p.body{} .calibre3 { font-style: italic }" }),
    );
    assert.deepEqual([found.text, found.json.author, found.remarks], [text, "Ann", []]);
  });

test("EPUB: a page that cannot be read is named, and the others come", async () => {
  const deep = xhtml("<title/>", `${"<i>".repeat(3000)}x${"</i>".repeat(3000)}`);
  const { text, remarks } = await open(
    "x.epub",
    epub({ one: xhtml("<title/>", "<p>One</p>"), two: deep, three: xhtml("<title/>", "<p>Three</p>") }),
  );
  assert.deepEqual([text, remarks], ["One\n\nThree", ["Pages of the book could not be read: “OPS/two.xhtml”."]]);
});

// ---- Rich Text

for (const [name, body, text, remarks = []] of [
  [
    "an empty paragraph between scenes",
    "One.\\par Two.\\par Three.\\par Four.\\par\\par Later.",
    "One.\n\nTwo.\n\nThree.\n\nFour.\n\n\nLater.",
  ],
  ["empty paragraphs between all", "One.\\par\\par Two.\\par\\par Three.", "One.\n\nTwo.\n\nThree."],
  [
    "signs that are words",
    "The note said *do not run*.\\par # 5 Mill Lane",
    "The note said \\*do not run\\*.\n\n\\# 5 Mill Lane",
  ],
  ["a character beyond the first 65,536 by its number", "a\\u127765?b\\u-10179?\\u-9003?", "a🌕b📕"],
  ["hidden words", "a{\\v one two}b", "ab", ["Hidden words (2) were left out."]],
  ["underlining", "a {\\ul b}", "a b", ["Underlining and words that are struck through (1) became plain."]],
])
  test(`Rich Text: ${name}`, async () => {
    const found = await open(
      "x.rtf",
      Uint8Array.from(`{\\rtf1\\ansi ${body}}`, (letter) => letter.charCodeAt(0)),
    );
    assert.deepEqual([found.text, found.remarks], [text, remarks]);
  });

// ---- OpenDocument

const ODF = ["office", "text", "style", "drawing"]
  .map((each) => `xmlns:${each === "drawing" ? "draw" : each}="urn:oasis:names:tc:opendocument:xmlns:${each}:1.0"`)
  .concat(
    'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"',
  )
  .join(" ");
const odt = (body, styles = "") =>
  zip({
    mimetype: "application/vnd.oasis.opendocument.text",
    "content.xml": `<office:document-content ${ODF}><office:automatic-styles>
      <style:style style:name="T1" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>
      <style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>
      <style:style style:name="T3" style:family="text"><style:text-properties text:display="none"/></style:style>
      <style:style style:name="P1" style:family="paragraph" style:parent-style-name="Heading_20_2"/>${styles}</office:automatic-styles>
      <office:body><office:text>${body}</office:text></office:body></office:document-content>`,
    "meta.xml": `<office:document-meta ${ODF}><office:meta><dc:title>The Lamp</dc:title><dc:creator>Ann</dc:creator></office:meta></office:document-meta>`,
  });
const T = (style, words) => `<text:span text:style-name="${style}">${words}</text:span>`;
const P = (words, style = "Standard") => `<text:p text:style-name="${style}">${words}</text:p>`;

for (const [name, body, text, remarks = []] of [
  ["emphasis", P(`a ${T("T1", `b ${T("T2", "c")}`)} d`), "a *b **c*** d"],
  ["spaces, tabs and lines", P('a<text:s text:c="2"/>b  \n c<text:tab/>d<text:line-break/>e'), "a  b c\td\ne"],
  [
    "headings by element and by style",
    `<text:h text:outline-level="1">One</text:h>${P("a")}${P("Two", "P1")}${P("b")}`,
    "# One\n\na\n\n## Two\n\nb",
  ],
  ["a title by its style", P("The Lamp", "Title") + P("a"), "a"],
  ["gaps between scenes", P("1") + P("2") + P("3") + P("") + P("4"), "1\n\n2\n\n3\n\n\n4"],
  ["hidden words", P(`a ${T("T3", "one two ")}b`), "a b", ["Hidden words (2) were left out."]],
  [
    "deleted words",
    `<text:tracked-changes><text:changed-region>${P("gone")}</text:changed-region></text:tracked-changes>${P("a")}`,
    "a",
  ],
  [
    "a table of contents",
    `<text:table-of-content>${P("One 3")}</text:table-of-content>${P("a")}`,
    "a",
    ["Words of menus, forms, tables of contents and drawings (2) were left out."],
  ],
  [
    "a box and a picture",
    P(`a<draw:frame><draw:text-box>${P("boxed")}</draw:text-box></draw:frame><draw:frame><draw:image/></draw:frame>`) +
      P("b"),
    "a\n\nboxed\n\nb",
    ["Pictures (1) were left out."],
  ],
  [
    "ruby",
    P("<text:ruby><text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text></text:ruby>です"),
    "漢字です",
  ],
  ["signs that are words", P("*so* and _so_"), "\\*so\\* and \\_so\\_"],
])
  test(`OpenDocument: ${name}`, async () => {
    const found = await open("x.odt", odt(body));
    assert.deepEqual([found.format, found.text, found.remarks], ["OpenDocument", text, remarks]);
    assert.deepEqual([found.json.title, found.json.author], ["The Lamp", "Ann"]);
  });

test("OpenDocument: remarks and notes are comments on their words", async () => {
  const remark = `<office:annotation office:name="r1"><dc:creator>Ed</dc:creator>${P("Check.")}</office:annotation>`;
  const note = `<text:note><text:note-citation>1</text:note-citation><text:note-body>${P("See the log.")}</text:note-body></text:note>`;
  const { json, text } = await open(
    "x.odt",
    odt(P(`The ${remark}old lamp<office:annotation-end office:name="r1"/> died${note}.`)),
  );
  const found = Object.entries(json).filter(([key]) => key.startsWith("comment"));
  assert.equal(text, "The old lamp died.");
  assert.deepEqual(found.map(([, { text: words, quote, author = "" }]) => [words, quote, author]).sort(), [
    ["Check.", "old lamp", "Ed"],
    ["See the log.", "died", ""],
  ]);
});

// ---- Projects and folders

const scriv = (items, files) =>
  zip({
    "Fog.scriv/Fog.scrivx": `<?xml version="1.0"?><ScrivenerProject Version="2.0"><Binder><BinderItem UUID="D" Type="DraftFolder"><Title>Draft</Title><Children>${items}</Children></BinderItem><BinderItem UUID="R" Type="ResearchFolder"><Title>Research</Title></BinderItem></Binder></ScrivenerProject>`,
    ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`Fog.scriv/Files/Data/${path}`, text])),
  });
const entry = (id, title, children = "") =>
  `<BinderItem UUID="${id}" Type="Text"><Title>${title}</Title>${children && `<Children>${children}</Children>`}</BinderItem>`;

test("Scrivener: folders are chapters, texts in them scenes, synopses notes", async () => {
  const items =
    entry("A", "Arrival", entry("B", "The quay") + entry("C", "The lamp")) + entry("E", "Leaving &amp; after");
  const file = scriv(items, {
    "A/synopsis.txt": "She comes.",
    "B/content.rtf": "{\\rtf1 The {\\i quay}.\\par}",
    "C/content.rtf": "{\\rtf1 The lamp.}",
    "C/notes.rtf": "{\\rtf1 a note}",
    "E/content.rtf": "{\\rtf1 Gone.}",
    "Z/content.rtf": "{\\rtf1 In no binder.}",
  });
  const { format, json, text, remarks } = await open("Fog.zip", file);
  assert.deepEqual([format, json.title, text], ["Scrivener", "Fog", "The *quay*.\n\n***\n\nThe lamp.\n\nGone."]);
  const marks = Object.values(json.marks).map(({ name, note }) => [name, note]);
  assert.deepEqual(marks, [
    ["Arrival", "She comes."],
    ["Leaving & after", undefined],
  ]);
  assert.deepEqual(remarks, ["Notes of documents (1) were left out; synopses came."]);
});

test("Scrivener: a text that is damaged is counted, and the others come", async () => {
  const file = scriv(entry("A", "One") + entry("B", "Two"), {
    "A/content.rtf": "{\\rtf1 a {b}",
    "B/content.rtf": "{\\rtf1 Two.}",
  });
  const { text, remarks } = await open("Fog.zip", file);
  assert.match(text, /Two\.$/);
  assert.deepEqual(remarks, ["Texts of the project (1) could not be read."]);
});

test("a folder of Markdown is a story in the order of front matter, else of names", async () => {
  const { format, json, text } = await open(
    "novel.zip",
    zip({
      "novel/10 End.md": "The end.",
      "novel/2 Middle.md": "# Middle\n\nIt *went* on.",
      "novel/1 Begin.md": "---\ntitle: The Beginning\n---\n\nOnce.",
      "novel/.obsidian/app.md": "no",
      "novel/cover.txt": "no",
    }),
  );
  assert.deepEqual([format, json.title, text], ["Markdown", "novel", "Once.\n\n# Middle\n\nIt *went* on.\n\nThe end."]);
  assert.deepEqual(
    Object.values(json.marks).map(({ name }) => name),
    ["The Beginning", "10 End"],
  );
  const ordered = zip({ "a.md": "---\norder: 2\n---\nb", "b.md": "---\norder: 1\n---\na" });
  assert.equal((await open("n.zip", ordered)).text, "a\n\nb");
});

test("a project of Longform has its scenes in its order, also within one another, and nothing else", async () => {
  const index = '---\nlongform:\n  format: scenes\n  title: The Lamp\n  scenes:\n    - Second\n    - - "First"\n---\n';
  const { json, text, remarks } = await open(
    "v.zip",
    zip({ "v/Index.md": index, "v/First.md": "1", "v/Second.md": "2", "v/Other.md": "3" }),
  );
  assert.deepEqual(
    [json.title, text, remarks],
    ["The Lamp", "2\n\n1", ["Files that the project does not list (1) were left out."]],
  );
});

test("a project of novelWriter has its novel in its order, without tags and notes", async () => {
  const item = (handle, parent, order, kind, layout) =>
    `<item handle="${handle}" parent="${parent}" root="r" order="${order}" type="FILE" class="${kind}" layout="${layout}"><name>x</name></item>`;
  const project = `<?xml version="1.0"?><novelWriterXML><project><name>The Lamp</name></project><content>${item("s2", "c1", 1, "NOVEL", "DOCUMENT")}${item("c1", "r", 0, "NOVEL", "DOCUMENT")}${item("s1", "c1", 0, "NOVEL", "DOCUMENT")}${item("n1", "None", 2, "CHARACTER", "NOTE")}<item handle="r" parent="None" root="r" order="0" type="ROOT" class="NOVEL"><name>Novel</name></item></content></novelWriterXML>`;
  const { format, json, text, remarks } = await open(
    "p.zip",
    zip({
      "p/nwProject.nwx": project,
      "p/content/c1.nwd": "%%~name: c\n## Chapter One\n\n@pov: Ann\n% a comment\n",
      "p/content/s1.nwd": "### Scene\n\n%Synopsis: no\nShe *came*.\n",
      "p/content/s2.nwd": "### Scene\n\nShe went.\n",
      "p/content/n1.nwd": "# Ann\n",
    }),
  );
  assert.deepEqual(
    [format, json.title, text],
    ["novelWriter", "The Lamp", "## Chapter One\n\nShe *came*.\n\nShe went."],
  );
  assert.deepEqual(remarks, ["Notes of the project (1) were left out."]);
});

// ---- Rules of styles

for (const [name, css, body, text] of [
  ["within another element", "em em{font-style:normal}em{font-style:italic}", "<em>a <em>b</em></em>", "*a* b"],
  ["a child", ".x > i{font-style:normal}", "<span class=x><i>a</i></span> <i>b</i>", "a *b*"],
  ["beside another element: not read", "p + p i{font-style:normal}", "<i>a</i>", "*a*"],
  ["a state: not read", "i:hover{font-style:normal}", "<i>a</i>", "*a*"],
  ["a comment and a bad rule", "/* i{} */ }} { i{font-style:normal", "<i>a</i>", "*a*"],
])
  test(`styles: ${name}`, async () =>
    assert.equal((await open("x.html", encoded(`<style>${css}</style><p>${body}`))).text, text));
