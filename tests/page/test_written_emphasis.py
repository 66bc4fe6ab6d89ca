"""Emphasis, headings and breaks between scenes in the files that the page writes, read again."""

from __future__ import annotations

import json
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest

from tests.needs import need
from tests.page.test_units import OLDEST, node_version
from tests.page.test_written_files import WORD, XHTML
from tests.processes import DEADLINE, ROOT

WRITE = """
import { readFileSync, writeFileSync } from "node:fs";
import { WRITERS } from "./srb/page/formats/write.js";
import { storyOf } from "./srb/page/story/read.js";

const [from, to] = process.argv.slice(-2);
const story = storyOf(JSON.parse(readFileSync(from, "utf8")));
for (const { write, ending } of WRITERS) writeFileSync(`${to}/story${ending}`, write(story));
"""
TEXT = """Before *all* chapters.

# Part *One*

## The Salt Road

She said *never*, **always** and ***both***.
snake_case, 2 * 3 and \\*so\\*.

* * *

\u05e9\u05dc\u05d5\u05dd *\u05e2\u05d5\u05dc\u05dd*

### A *small* heading

The **bold *and italic* words** end.
"""
Run = tuple[str, str]  # words, and of "b" and "i" what they are

PLAIN = ""
PARAGRAPHS: list[tuple[str, list[Run]]] = [
    ("Title", [("The Road", PLAIN)]),
    ("", [("Before ", PLAIN), ("all", "i"), (" chapters.", PLAIN)]),
    ("Heading1", [("Part ", PLAIN), ("One", "i")]),
    ("Heading2", [("The Salt Road", PLAIN)]),
    (
        "",
        [
            ("She said ", PLAIN),
            ("never", "i"),
            (", ", PLAIN),
            ("always", "b"),
            (" and ", PLAIN),
            ("both", "bi"),
            (".", PLAIN),
        ],
    ),
    ("Line", [("snake_case, 2 * 3 and *so*.", PLAIN)]),
    ("SceneBreak", [("* * *", PLAIN)]),
    ("", [("\u05e9\u05dc\u05d5\u05dd ", PLAIN), ("\u05e2\u05d5\u05dc\u05dd", "i")]),
    ("Heading3", [("A ", PLAIN), ("small", "i"), (" heading", PLAIN)]),
    ("", [("The ", PLAIN), ("bold ", "b"), ("and italic", "bi"), (" words", "b"), (" end.", PLAIN)]),
]
CHAPTERS = [
    "<p>Before <em>all</em> chapters.</p>",
    '<h2 class="part">Part <em>One</em></h2><p></p>',
    (
        "<h2>The Salt Road</h2>"
        "<p>She said <em>never</em>, <strong>always</strong> and <strong><em>both</em></strong>.</p>"
        '<p class="next-line">snake_case, 2 * 3 and *so*.</p><hr/>'
        '<p dir="rtl">\u05e9\u05dc\u05d5\u05dd <em>\u05e2\u05d5\u05dc\u05dd</em></p>'
        "<h3>A <em>small</em> heading</h3>"
        "<p>The <strong>bold </strong><strong><em>and italic</em></strong><strong> words</strong> end.</p>"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a story of one node in every format."""
    need(node_version() >= OLDEST, "Node 20.19 or newer")
    folder = tmp_path_factory.mktemp("written")
    story = {
        "format": "srb-story",
        "version": 1,
        "id": "s1",
        "title": "The Road",
        "head": {"node": "a", "at": len(TEXT)},
        "nodes": {"a": {"text": TEXT, "by": "person", "made": 1}},
    }
    (folder / "story.in").write_text(json.dumps(story), encoding="utf-8")
    command = ["node", "--input-type=module", "-e", WRITE, "--", folder / "story.in", folder]
    subprocess.run(command, cwd=ROOT, check=True, timeout=DEADLINE)
    return folder


def read(folder: Path, archive: str, name: str) -> ElementTree.Element:
    with ZipFile(folder / archive) as files:
        return ElementTree.fromstring(files.read(name))


def runs(paragraph: ElementTree.Element) -> list[Run]:
    return [
        (
            "".join(each.itertext()),
            "".join(name for name in "bi" if each.find(f"{WORD}rPr/{WORD}{name}") is not None),
        )
        for each in paragraph.iter(f"{WORD}r")
    ]


def test_a_word_file_has_runs_headings_and_breaks(folder: Path) -> None:
    document = read(folder, "story.docx", "word/document.xml")
    found = []
    for paragraph in document.iter(f"{WORD}p"):
        style = paragraph.find(f"{WORD}pPr/{WORD}pStyle")
        found.append(("" if style is None else style.attrib[f"{WORD}val"], runs(paragraph)))
    assert found == PARAGRAPHS
    styles = read(folder, "story.docx", "word/styles.xml")
    defined = {style.attrib[f"{WORD}styleId"]: style for style in styles.iter(f"{WORD}style")}
    assert {style for style, _ in PARAGRAPHS if style} <= defined.keys()
    levels = [defined[f"Heading{level}"].find(f"{WORD}pPr/{WORD}outlineLvl") for level in (1, 2, 3)]
    assert [each is not None and each.attrib[f"{WORD}val"] for each in levels] == ["0", "1", "2"]


def test_a_word_file_begins_chapters_and_no_other_headings_on_a_page(folder: Path) -> None:
    styles = read(folder, "story.docx", "word/styles.xml")
    breaking = [
        style.get(f"{WORD}styleId")
        for style in styles.iter(f"{WORD}style")
        if style.find(f"{WORD}pPr/{WORD}pageBreakBefore") is not None
    ]
    assert breaking == ["ChapterName", "Heading1", "Heading2"]


def test_each_runs_properties_are_in_the_order_of_the_schema(folder: Path) -> None:
    order = ["b", "bCs", "i", "iCs", "rtl"]
    for properties in read(folder, "story.docx", "word/document.xml").iter(f"{WORD}rPr"):
        names = [each.tag.removeprefix(WORD) for each in properties]
        assert names == sorted(names, key=order.index)


def test_an_epub_has_a_file_for_each_chapter_with_its_emphasis_and_breaks(folder: Path) -> None:
    for number, expected in enumerate(CHAPTERS, 1):
        page = read(folder, "story.epub", f"OEBPS/chapter-{number}.xhtml")
        section = page.find(f"{XHTML}body/{XHTML}section")
        assert section is not None
        wanted = ElementTree.fromstring(f'<section xmlns="http://www.w3.org/1999/xhtml">{expected}</section>')
        assert shape(section) == shape(wanted)
    links = [each.text for each in read(folder, "story.epub", "OEBPS/nav.xhtml").iter(f"{XHTML}a")]
    assert links == ["Before all chapters.", "Part One", "The Salt Road"]


def shape(element: ElementTree.Element) -> list[object]:
    """The element's names, directions and words, without the line ends between blocks."""
    inner: list[object] = [shape(each) for each in element]
    words = [element.text or "", *((each.tail or "") for each in element)]
    return [element.tag, element.get("dir"), [each for each in words if each.strip("\n")], inner]


class Body(HTMLParser):
    """The tags and words of a page, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += "".join([f"<{tag}", *(f' {name}="{value}"' for name, value in attrs), ">"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += f"<{tag}/>"

    def handle_endtag(self, tag: str) -> None:
        self.found += f"</{tag}>"

    def handle_data(self, data: str) -> None:
        self.found += data.replace("\n", "")


def test_a_web_page_has_the_same_chapters_as_an_epub(folder: Path) -> None:
    body = Body()
    body.feed((folder / "story.html").read_text(encoding="utf-8").split("<body>")[1].split("</body>")[0])
    sections = "".join(f"<section>{each}</section>" for each in CHAPTERS)
    assert body.found == f"<h1>The Road</h1>{sections}"


def test_text_and_markdown_keep_the_signs(folder: Path) -> None:
    assert (folder / "story.txt").read_text(encoding="utf-8") == TEXT
    assert (folder / "story.md").read_text(encoding="utf-8") == f"# The Road\n\n{TEXT}"
