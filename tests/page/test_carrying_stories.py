"""A story that was written with the desk is carried elsewhere in a file, and stories of other programs come in whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import MakePage
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

STORIES = Path(__file__).parent / "stories"


@pytest.fixture
def written(writer: Writer) -> Writer:
    """A story with two rounds, an edit in its middle, a star, a name, a note and a pruned branch."""
    writer.set(max_tokens=8).write(START).press("Control+Enter").wait_for_end().to_cards()
    writer.press("b", "ArrowRight", "x", "Shift+Digit1").to_text()
    writer.press("Control+Home", "Control+Shift+ArrowRight").write("Twice")
    writer.press("Control+End", "Enter").write("Then – “quiet” 🌕.").press("Control+Enter").wait_for_end()
    writer.page.evaluate(
        "desk.setNodeMark(desk.head.node, 'name', 'Two'); desk.setMemory('A lamp.'); desk.setTitle('Fog')"
    )
    return writer.wait_until_saved()


def export(writer: Writer, name: str) -> Path:
    """Return the file that a button of the export dialog downloads."""
    dialog = writer.open_dialog("formats")
    with writer.page.expect_download() as download:
        dialog.get_by_role("button", name=name, exact=True).click()
    writer.press("Escape")
    expect(dialog).to_be_hidden()
    return Path(download.value.path())


def import_file(page: Page, server: Server, file: Path) -> Writer:
    writer = Writer(page, server.url)
    before = writer.story()["id"]
    dialog = writer.open_dialog("formats")
    dialog.get_by_label("Choose files").set_input_files(
        {"name": "story.json", "mimeType": "", "buffer": file.read_bytes()}
    )
    return writer.wait("desk.story.id !== argument", before)


def test_text_is_dragged_into_fields_and_files_are_not(page: Page, slow: Server) -> None:
    """A browser drops text where nothing keeps it from doing so; a dropped file would take the page's place."""
    writer = Writer(page, slow.url)
    field = writer.open_dialog("stories").get_by_role("searchbox")
    drag = """(field, [kind, value]) => {
      const dataTransfer = new DataTransfer();
      if (kind === "text") dataTransfer.setData("text/plain", value);
      else dataTransfer.items.add(new File([value], "story.txt"));
      const event = new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true });
      field.dispatchEvent(event);
      return event.defaultPrevented;
    }"""
    assert not field.evaluate(drag, ["text", "a lamp"])
    assert field.evaluate(drag, ["file", "a lamp"])


def test_a_books_author_and_language_are_kept_with_the_story_and_are_in_its_files(writer: Writer) -> None:
    writer.write("Es war einmal.").wait_until_saved()
    dialog = writer.open_dialog("formats")
    language = dialog.get_by_label("Language")
    expect(language).to_have_value("en-US")  # the browser's
    language.fill("deutsch?")
    dialog.get_by_label("Author").fill("Ida Holm")
    expect(dialog.get_by_role("alert")).to_contain_text("“deutsch?” is no language")
    language.fill("de-ch")
    dialog.get_by_label("Author").focus()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    expect(language).to_have_accessible_description("Swiss High German")
    writer.press("Escape").wait_until_saved().reload()
    for name in ("EPUB", "Word"):
        with ZipFile(export(writer, name)) as archive:
            part = archive.read("OEBPS/content.opf" if name == "EPUB" else "docProps/core.xml").decode()
        assert "<dc:creator>Ida Holm</dc:creator>" in part
        assert "<dc:language>de-CH</dc:language>" in part


def content(story: dict[str, Any]) -> dict[str, Any]:
    """All of a story but the times of its marks, and which cards were in view."""
    kept = {
        name: {key: mark[key] for key in mark.keys() - {"changed", "seen"}} for name, mark in story["marks"].items()
    }
    marks = {name: mark for name, mark in kept.items() if mark}
    return {**{key: story.get(key) for key in ("title", "memory", "nodes", "runs", "head")}, "marks": marks}


@pytest.mark.smoke
def test_the_exported_text_is_the_manuscript(written: Writer) -> None:
    file = export(written, "Plain text")
    assert file.read_bytes().decode() == written.page.evaluate("desk.text")
    assert written.text == written.page.evaluate("desk.text")


@pytest.mark.smoke
def test_an_exported_story_is_the_same_in_another_browser_and_server(
    written: Writer, make_page: MakePage, server: Server
) -> None:
    there = import_file(make_page(), server, export(written, "SRB story"))
    assert there.text == written.text
    assert content(there.story()) == content(written.story())
    pieces = "desk.story.pieces(desk.head.node, desk.head.at).map(({ from, to, by }) => [from, to, by])"
    assert there.page.evaluate(pieces) == written.page.evaluate(pieces)
    there.wait_until_saved().reload()
    assert content(there.story()) == content(written.story())


def test_an_edited_file_of_a_story_that_is_there_becomes_a_story_of_its_own(written: Writer, slow: Server) -> None:
    page, file = written.page, json.loads(export(written, "SRB story").read_text())
    written.wait_until_saved()
    before, text = file["id"], written.text
    first = next(node for node in file["nodes"].values() if "parent" not in node)
    first["text"] = first["text"].replace("Once", "Only")
    dialog = written.open_dialog("formats")
    dialog.get_by_label("Choose files").set_input_files(
        {"name": "story.json", "mimeType": "", "buffer": json.dumps(file).encode()}
    )
    expect(dialog.get_by_role("status")).to_contain_text("is a story of its own now")
    assert page.evaluate("desk.story.id") != before
    assert written.text == text
    written.press("Escape").wait("desk.saved.state === 'saved' && !desk.story.changed")
    for story, beginning in ((before, "Once"), (page.evaluate("desk.story.id"), "Only")):
        saved = slow.get(f"/v1/srb/stories/{story}").json()["nodes"].values()
        assert next(node for node in saved if "parent" not in node)["text"].startswith(beginning)


def socketteer(node: dict[str, Any]) -> Iterator[str]:
    yield node["text"]
    for child in node.get("children", []):
        yield from socketteer(child)


def texts_of(name: str) -> list[str]:
    """The texts of a fixture's nodes, read without the page's code."""
    file = json.loads((STORIES / name).read_text())
    if name.startswith("obsidian"):
        return [node["text"] for node in file["nodes"].values()]
    if name.startswith("socketteer"):
        return list(socketteer(file.get("root", file)))
    chunks = groupby(json.loads(file["prompt"]), key=lambda chunk: chunk.get("type"))  # a chunk is a token of the model
    return ["".join(chunk["content"] for chunk in of_one_author) for _, of_one_author in chunks]


@pytest.mark.parametrize(
    "name",
    [
        *("obsidian_loom_note.json", "socketteer_loom.json", "socketteer_simple.json"),
        pytest.param("mikupad_session.json", marks=pytest.mark.smoke),
    ],
)
def test_a_story_of_another_program_comes_in_whole_and_is_saved(page: Page, server: Server, name: str) -> None:
    writer = import_file(page, server, STORIES / name)
    texts = sorted(texts_of(name))
    assert sorted(node["text"] for node in writer.story()["nodes"].values()) == texts
    writer.wait_until_saved()
    saved = server.get(f"/v1/srb/stories/{writer.story()['id']}").json()["nodes"].values()
    assert sorted(node["text"] for node in saved) == texts


def word_file(text: str) -> bytes:
    """A Word file of two paragraphs, the first one in italics."""
    body = f"<w:p><w:r><w:rPr><w:i/></w:rPr><w:t>Once</w:t></w:r></w:p><w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr("word/document.xml", f"<w:document><w:body>{body}</w:body></w:document>")
    return file.getvalue()


FOREIGN = "&lt;img src=x onerror=boom()&gt;"


TEXTS = [
    ("a.docx", word_file(FOREIGN), "*Once*\n\n<img src=x onerror=boom()>"),
    (
        "a.html",
        f"<html><script>boom()</script><p onclick=boom()><i>Once</i><p>{FOREIGN}<img src=x onerror=boom()>".encode(),
        "*Once*\n\n<img src=x onerror=boom()>",
    ),
    ("a.rtf", b"{\\rtf1 {\\i Once}\\par <b>caf\\'e9</b>}", "*Once*\n\n<b>café</b>"),
    ("a.jsonl", b'{"user_name":"A"}\n{"mes":"<b>Once</b>"}\n{"mes":"upon"}', "<b>Once</b>\n\nupon"),
    ("a.txt", "昔々、ある所に灯台守がいた。".encode("cp932"), "昔々、ある所に灯台守がいた。"),
    ("a.txt", "“Café,” she said – it’s late.".encode("cp1252"), "“Café,” she said – it’s late."),
    ("b.txt", "“Café,” she said – it’s late.".encode("mac_roman"), "“Café,” she said – it’s late."),
    ("c.rtf", b"{\\rtf1\\ansicpg1252 \\'93Caf\xe9\x94}", "“Café”"),
]


def test_a_text_of_another_program_comes_in_as_words(page: Page, slow: Server) -> None:
    writer = Writer(page, slow.url)
    for name, content, text in TEXTS:
        dialog = writer.open_dialog("formats")
        dialog.get_by_label("Choose files").set_input_files({"name": name, "mimeType": "", "buffer": content})
        writer.wait("desk.text === argument", text)
        writer.wait_until_saved()
        assert page.locator("srb-manuscript img").count() == 0
        writer.press("Escape")  # what was left out is told before the dialog closes
        expect(dialog).to_be_hidden()
        page.evaluate("desk.newStory()")
        writer.wait("desk.text === ''")
