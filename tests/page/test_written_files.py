"""Word and EPUB files that the page writes: whole archives, well-formed XML, the manuscript's words and pictures in them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path, PurePosixPath
from struct import pack
from typing import Any
from xml.etree import ElementTree
from zipfile import ZIP_STORED, ZipFile

import pytest

from tests.media import b64, png, wav
from tests.needs import need
from tests.page.test_units import OLDEST, node_version
from tests.processes import DEADLINE, ROOT

WRITE = """
import { readFileSync, writeFileSync } from "node:fs";
import { writeDocx } from "./srb/page/formats/docx.js";
import { writeEpub } from "./srb/page/formats/epub.js";
import { storyOf } from "./srb/page/story/read.js";

const [from, to] = process.argv.slice(-2);
const file = JSON.parse(readFileSync(from, "utf8"));
const story = storyOf(file);
writeFileSync(`${to}/story.docx`, writeDocx(story, file.media));
writeFileSync(`${to}/story.epub`, writeEpub(story, file.media));
"""
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
XHTML = "{http://www.w3.org/1999/xhtml}"
OPF = "{http://www.idpf.org/2007/opf}"
DC = "{http://purl.org/dc/elements/1.1/}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
IN_WORD = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"


def jpeg(width: int, height: int) -> bytes:
    """Return a JPEG's header, which is all of it that a writer reads."""
    frame = pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8\xff\xe0" + pack(">H", 4) + b"JF" + b"\xff\xc0" + pack(">H", len(frame) + 2) + frame + b"\xff\xd9"


MAP, LAMP, BELL = png(40, 30, seed=1), jpeg(6000, 3000), wav(0.01)
MEDIA = {hashlib.sha256(data).hexdigest()[:32]: data for data in (MAP, LAMP, BELL)}
TYPES = ("image/png", "image/jpeg", "audio/wav")
MAP_ID, LAMP_ID, BELL_ID = MEDIA
GONE_ID = 32 * "0"

AUTHOR = "Ida <Holm> & Söhne"
TITLE = 'The lamp & the "sea" <of Skarholm>'
NODES = [
    ("", "Fog came first.\n\nThen the boat.\n\n"),
    (
        "The stairs",
        "One hundred & twelve steps, <b>all</b> of them wet.\n\n\u05e9\u05dc\u05d5\u05dd, said no one.\n\n\n",
    ),
    ("", "\x1b[31mRed\x1b[0m\x00, and a tab:\there 🌕.\n\n"),
    ('Page "40" & after', "“Then who,” she asked, “has been lighting it?”\n"),
    (
        "Pictures",
        (
            f'A map ![map & "sea"](srb:{MAP_ID}) of it.\n\n![](srb:{LAMP_ID})\n\n'
            f"![bell.wav](srb:{BELL_ID}) rang. ![map](srb:{MAP_ID})![gone](srb:{GONE_ID})"
        ),
    ),
]
PARAGRAPHS = [
    ("", ["Fog came first.", "Then the boat."]),
    (
        "The stairs",
        [
            "One hundred & twelve steps, <b>all</b> of them wet.",
            "\u05e9\u05dc\u05d5\u05dd, said no one.",
            "[31mRed[0m, and a tab:\there 🌕.",  # XML has no control characters
        ],
    ),
    ('Page "40" & after', ["“Then who,” she asked, “has been lighting it?”"]),
    ("Pictures", ["A map  of it.", "", "♪ bell.wav rang. 🖼 gone"]),
]


def story() -> dict[str, Any]:
    """A story of four nodes in a row, of which two have names."""
    nodes: dict[str, Any] = {}
    marks = {}
    length = 0
    for index, (name, text) in enumerate(NODES):
        place = {"parent": f"n{index - 1}", "keep": length} if index else {}
        nodes[f"n{index}"] = {**place, "text": text, "by": "person", "made": index + 1}
        length += len(text.encode("utf-16-le")) // 2
        if name:
            marks[f"n{index}"] = {"name": name, "changed": 1}
    head = {"node": f"n{len(NODES) - 1}", "at": length}
    return {
        "format": "srb-story",
        "version": 1,
        "id": "s1",
        "title": TITLE,
        "author": AUTHOR,
        "language": "de-ch",
        "head": head,
        "comment.one": {"text": "Which <boat>?", "quote": "boat", "on": [{"node": "n0", "from": 26, "to": 30}]},
        "comment.two": {
            "text": "All of it.",
            "quote": "hundred",
            "on": [{"node": "n1", "from": 4, "to": 57}],
            "author": "Ann",
        },
        "nodes": nodes,
        "marks": marks,
        "media": {
            name: {"type": kind, "data": b64(data)} for (name, data), kind in zip(MEDIA.items(), TYPES, strict=True)
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the story as story.docx and story.epub."""
    need(node_version() >= OLDEST, "Node 20.19 or newer")
    folder = tmp_path_factory.mktemp("written")
    (folder / "story.json").write_text(json.dumps(story()), encoding="utf-8")
    command = ["node", "--input-type=module", "-e", WRITE, "--", folder / "story.json", folder]
    subprocess.run(command, cwd=ROOT, check=True, timeout=DEADLINE)
    return folder


@pytest.mark.parametrize("name", ["story.docx", "story.epub"])
def test_an_archive_is_whole_and_its_xml_well_formed(folder: Path, name: str) -> None:
    with ZipFile(folder / name) as archive:
        assert archive.testzip() is None
        for each in archive.namelist():
            if PurePosixPath(each).suffix in (".xml", ".rels", ".opf", ".xhtml"):
                ElementTree.fromstring(archive.read(each))
    if unzip := shutil.which("unzip"):
        subprocess.run([unzip, "-t", folder / name], check=True, capture_output=True, timeout=DEADLINE)


def test_a_word_file_has_the_title_the_names_and_every_paragraph(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        document = ElementTree.fromstring(archive.read("word/document.xml"))
        core = ElementTree.fromstring(archive.read("docProps/core.xml"))
        styles = ElementTree.fromstring(archive.read("word/styles.xml"))
    found = [(_style(paragraph), _words(paragraph)) for paragraph in document.iter(f"{WORD}p")]
    expected: list[tuple[str, str]] = [("Title", TITLE), ("Author", AUTHOR)]
    for name, paragraphs in PARAGRAPHS:
        expected += [("ChapterName", name)] if name else []
        expected += [("", text) for text in paragraphs]
    assert [each for each in found if each[1]] == [each for each in expected if each[1]]
    assert [core.findtext(f"{DC}{name}") for name in ("title", "creator", "language")] == [TITLE, AUTHOR, "de-CH"]
    defined = {style.get(f"{WORD}styleId") for style in styles.iter(f"{WORD}style")}
    assert {style for style, _ in expected if style} <= defined


def test_a_word_file_begins_each_chapter_on_a_page_of_its_own_and_says_its_language(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        styles = ElementTree.fromstring(archive.read("word/styles.xml"))
    breaking = [
        style.get(f"{WORD}styleId")
        for style in styles.iter(f"{WORD}style")
        if style.find(f"{WORD}pPr/{WORD}pageBreakBefore") is not None
    ]
    assert breaking == ["ChapterName", "Heading1", "Heading2"]
    assert [each.attrib for each in styles.iter(f"{WORD}lang")] == [{f"{WORD}val": "de-CH"}]


def test_a_word_file_has_its_pictures_in_their_places_with_their_names_and_sizes(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        document = ElementTree.fromstring(archive.read("word/document.xml"))
        rels = ElementTree.fromstring(archive.read("word/_rels/document.xml.rels"))
        targets = {each.attrib["Id"]: archive.read(f"word/{each.attrib['Target']}") for each in rels}
        types = ElementTree.fromstring(archive.read("[Content_Types].xml"))
    shown = [
        (
            inline.find(f"{IN_WORD}docPr").attrib["descr"],  # type: ignore[union-attr]
            targets[blip.attrib[f"{RELATION}embed"]],
            {name: int(size) for name, size in extent.attrib.items()},
        )
        for inline in document.iter(f"{IN_WORD}inline")
        for blip in inline.iter(f"{DRAWING}blip")
        for extent in inline.findall(f"{IN_WORD}extent")
    ]
    small = {"cx": 40 * 9525, "cy": 30 * 9525}
    wide = {"cx": 9026 * 635, "cy": 9026 * 635 // 2}  # as wide as the lines
    assert shown == [('map & "sea"', MAP, small), ("Picture", LAMP, wide), ("map", MAP, small)]
    numbers = [each.attrib["id"] for each in document.iter(f"{IN_WORD}docPr")]
    assert len(set(numbers)) == len(numbers)
    assert {"png", "jpeg"} <= {each.get("Extension") for each in types}


def test_an_epub_has_its_pictures_in_their_places_with_their_names(folder: Path) -> None:
    with ZipFile(folder / "story.epub") as archive:
        package = ElementTree.fromstring(archive.read("OEBPS/content.opf"))
        kinds = {item.attrib["href"]: item.attrib["media-type"] for item in package.iter(f"{OPF}item")}
        images = list(archive_chapter(folder, 4).iter(f"{XHTML}img"))
        shown = [(each.get("alt"), archive.read(f"OEBPS/{each.attrib['src']}")) for each in images]
    assert shown == [('map & "sea"', MAP), ("Picture", LAMP), ("map", MAP)]
    assert [kinds[each.attrib["src"]] for each in images] == ["image/png", "image/jpeg", "image/png"]
    assert len([kind for kind in kinds.values() if kind.startswith("image/")]) == 2


def test_a_word_file_has_every_part_that_it_names(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        names = set(archive.namelist())
        for rels, base in (("_rels/.rels", ""), ("word/_rels/document.xml.rels", "word/")):
            for each in ElementTree.fromstring(archive.read(rels)):
                assert base + each.attrib["Target"] in names
        types = ElementTree.fromstring(archive.read("[Content_Types].xml"))
    assert {each.attrib["PartName"][1:] for each in types if "PartName" in each.attrib} <= names


def test_a_paragraph_from_right_to_left_says_so(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        document = ElementTree.fromstring(archive.read("word/document.xml"))
        chapter = archive_chapter(folder, 2)
    [bidi] = [each for each in document.iter(f"{WORD}p") if each.find(f"{WORD}pPr/{WORD}bidi") is not None]
    assert _words(bidi).startswith("\u05e9")
    assert [each.get("dir") for each in chapter.iter(f"{XHTML}p")] == [None, "rtl", None]


def test_an_epub_begins_with_its_type_uncompressed(folder: Path) -> None:
    with ZipFile(folder / "story.epub") as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", ZIP_STORED, b"")
        assert archive.read("mimetype") == b"application/epub+zip"


def test_comments_stand_on_their_words_and_have_their_authors(folder: Path) -> None:
    with ZipFile(folder / "story.docx") as archive:
        document = ElementTree.fromstring(archive.read("word/document.xml"))
        comments = ElementTree.fromstring(archive.read("word/comments.xml"))
        types = archive.read("[Content_Types].xml").decode()
        relations = archive.read("word/_rels/document.xml.rels").decode()
    assert 'PartName="/word/comments.xml"' in types
    assert 'relationships/comments" Target="comments.xml"' in relations
    found = {each.attrib[f"{WORD}id"]: each for each in comments.iter(f"{WORD}comment")}
    assert [(each.attrib[f"{WORD}author"], _words(each)) for each in found.values()] == [
        (AUTHOR, "Which <boat>?"),
        ("Ann", "All of it."),
    ]
    on: dict[str, str] = {}
    begun: set[str] = set()
    for each in document.iter():
        number = each.attrib.get(f"{WORD}id", "")
        if each.tag == f"{WORD}commentRangeStart":
            begun.add(number)
        elif each.tag == f"{WORD}commentRangeEnd":
            begun.remove(number)
        elif each.tag == f"{WORD}t":
            on |= {number: on.get(number, "") + (each.text or "") for number in begun}
    assert on == {"0": "boat", "1": "hundred & twelve steps, <b>all</b> of them wet.\u05e9\u05dc\u05d5\u05dd"}
    assert [each.attrib[f"{WORD}id"] for each in document.iter(f"{WORD}commentReference")] == ["0", "1"]


def test_an_epub_leads_from_its_container_to_every_chapter(folder: Path) -> None:
    with ZipFile(folder / "story.epub") as archive:
        container = ElementTree.fromstring(archive.read("META-INF/container.xml"))
        [root] = [each.attrib["full-path"] for each in container.iter() if "full-path" in each.attrib]
        package = ElementTree.fromstring(archive.read(root))
        items = {item.attrib["id"]: item.attrib["href"] for item in package.iter(f"{OPF}item")}
        spine = [ref.attrib["idref"] for ref in package.iter(f"{OPF}itemref")]
        [nav] = [i.attrib["href"] for i in package.iter(f"{OPF}item") if i.get("properties") == "nav"]
        links = [
            (a.get("href"), a.text) for a in ElementTree.fromstring(archive.read(f"OEBPS/{nav}")).iter(f"{XHTML}a")
        ]
        assert {f"OEBPS/{href}" for href in items.values()} < set(archive.namelist())
    assert spine == ["title", "chapter-1", "chapter-2", "chapter-3", "chapter-4"]
    assert set(spine) <= set(items)
    opening = "Fog came first. Then the boat."  # the first words of a chapter without a name
    assert links == [(items[f"chapter-{index + 1}"], name or opening) for index, (name, _) in enumerate(PARAGRAPHS)]
    assert package.findtext(f".//{DC}title") == TITLE
    assert package.findtext(f".//{DC}creator") == AUTHOR
    assert package.findtext(f".//{DC}identifier")
    assert package.findtext(f".//{DC}language") == "de-CH"
    assert [each.get("property") for each in package.iter(f"{OPF}meta")] == ["dcterms:modified"]


def test_an_epubs_pages_have_their_language_and_the_first_one_the_title_and_its_author(folder: Path) -> None:
    with ZipFile(folder / "story.epub") as archive:
        pages = {name: archive.read(name) for name in archive.namelist() if name.endswith(".xhtml")}
    roots = {PurePosixPath(name).stem: ElementTree.fromstring(page) for name, page in pages.items()}
    languages = [[root.get("lang"), root.get("{http://www.w3.org/XML/1998/namespace}lang")] for root in roots.values()]
    assert languages == [["de-CH", "de-CH"]] * len(roots)
    title = roots["title"]
    assert [each.text for each in title.iter() if each.tag in (f"{XHTML}h1", f"{XHTML}p")] == [TITLE, AUTHOR]
    kinds = {name: root.find(f".//{XHTML}section") for name, root in roots.items() if name != "nav"}
    epub = "{http://www.idpf.org/2007/ops}type"
    assert {name: section.get(epub) for name, section in kinds.items() if section is not None} == {
        "title": "titlepage",
        **{f"chapter-{number}": "chapter" for number in range(1, 5)},
    }


def test_an_epubs_chapters_are_cut_at_the_names(folder: Path) -> None:
    for index, (name, paragraphs) in enumerate(PARAGRAPHS):
        chapter = archive_chapter(folder, index + 1)
        assert [each.text for each in chapter.iter(f"{XHTML}h2")] == ([name] if name else [])
        assert ["".join(each.itertext()) for each in chapter.iter(f"{XHTML}p")] == paragraphs


def archive_chapter(folder: Path, number: int) -> ElementTree.Element:
    with ZipFile(folder / "story.epub") as archive:
        return ElementTree.fromstring(archive.read(f"OEBPS/chapter-{number}.xhtml"))


def _style(paragraph: ElementTree.Element) -> str:
    style = paragraph.find(f"{WORD}pPr/{WORD}pStyle")
    return "" if style is None else style.attrib[f"{WORD}val"]


def _words(paragraph: ElementTree.Element) -> str:
    parts = (each for each in paragraph.iter() if each.tag in (f"{WORD}t", f"{WORD}tab"))
    return "".join("\t" if each.tag == f"{WORD}tab" else each.text or "" for each in parts)
