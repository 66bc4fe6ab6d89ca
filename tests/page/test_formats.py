"""The dialog that imports and exports stories: by file, drop, paste and download, by keyboard, and for screen readers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness

pytestmark = pytest.mark.e2e

STORIES = Path(__file__).parent / "stories"
TEXT = "Fog – and “a lamp” 🌕.\n"  # of the harness's story
DROP = """([target, type, files]) => {
  const dataTransfer = new DataTransfer();
  for (const [name, text] of files) dataTransfer.items.add(new File([text], name));
  const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
  document.querySelector(target).dispatchEvent(event);
  return event.defaultPrevented;
}"""


@pytest.fixture
def dialog(page: Page) -> Locator:
    """The open dialog, on a page of its own."""
    open_harness(page, "formats")
    page.click("#open")
    dialog = page.get_by_role("dialog", name="Import and export")
    expect(dialog).to_be_visible()
    return dialog


def choose(dialog: Locator, *names: str) -> None:
    dialog.get_by_label("Choose files").set_input_files([STORIES / name for name in names])


def imported(page: Page) -> list[dict[str, Any]]:
    """Return what the desk was given to import, as srb-story JSON."""
    stories: list[dict[str, Any]] = page.evaluate("desk.imported.map((story) => story.toJSON())")
    return stories


def notices(page: Page) -> list[dict[str, str]]:
    found: list[dict[str, str]] = page.evaluate("desk.notices")
    return found


def test_a_chosen_file_is_imported_and_its_counts_are_told(page: Page, dialog: Locator) -> None:
    choose(dialog, "obsidian_loom_note.json")
    expect(dialog).to_be_hidden()
    note = json.loads((STORIES / "obsidian_loom_note.json").read_text())
    [story] = imported(page)
    [notice] = notices(page)
    assert re.fullmatch(r"Imported [1-9]\d* words from Obsidian Loom\.", notice["text"])
    assert len(story["nodes"]) == len(note["nodes"])


def test_what_a_file_has_beside_the_story_is_told_before_the_dialog_closes(page: Page, dialog: Locator) -> None:
    choose(dialog, "kobold_lite.json")
    words = re.compile(r"from KoboldAI Lite\. Pictures \(1\) were left out\. The personal notes were left out\.$")
    expect(dialog.get_by_role("status")).to_have_text(words)
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    assert len(imported(page)) == 1


def test_of_several_stories_in_a_file_those_that_are_chosen_are_imported(page: Page, dialog: Locator) -> None:
    choose(dialog, "obsidian_loom_data.json")
    boxes = dialog.get_by_role("checkbox")
    expect(boxes).to_have_count(3)
    expect(boxes.first).to_be_focused()
    assert imported(page) == []
    dialog.get_by_role("checkbox", name=re.compile("Zwei Anfänge")).uncheck()
    assert violations(page) == []
    dialog.get_by_role("button", name="Import the chosen").click()
    expect(dialog.get_by_role("status")).to_contain_text("Imported 2 stories with")
    assert [story["title"] for story in imported(page)] == ["Skarholm", "früh"]


def test_a_file_that_is_no_story_is_refused_and_nothing_imported(page: Page, dialog: Locator) -> None:
    for name, content, words in (
        ("recipe.json", '{"flour": 2}', "“recipe.json” is JSON, but no story of"),
        (
            "torn.json",
            '{"current": "a", "nodes": {"a": {"tex',
            "“torn.json” is not valid JSON; perhaps it was cut short",
        ),
        ("book.docx", "PK\x03\x04", "“book.docx” is damaged: its archive cannot be unpacked."),
    ):
        file = {"name": name, "mimeType": "", "buffer": content.encode()}
        dialog.get_by_label("Choose files").set_input_files([file])  # type: ignore[list-item]
        expect(dialog.get_by_role("alert")).to_contain_text(words)
    assert violations(page) == []
    assert imported(page) == []


def test_one_bad_file_among_several_keeps_all_of_them_out(page: Page, dialog: Locator) -> None:
    good = {"name": "good.txt", "mimeType": "text/plain", "buffer": b"Once"}
    bad = {"name": "bad.json", "mimeType": "", "buffer": b"{}"}
    dialog.get_by_label("Choose files").set_input_files([good, bad])  # type: ignore[list-item]
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing was imported.")
    assert imported(page) == []


def test_a_file_too_large_is_refused_before_it_is_read(page: Page, dialog: Locator) -> None:
    page.evaluate("""() => {
      const file = new File(["x"], "huge.json");
      Object.defineProperty(file, "size", { value: 64 * 2 ** 20 + 1 });
      file.arrayBuffer = () => { throw new Error("it was read"); };
      formats.take([file]);
    }""")
    expect(dialog.get_by_role("alert")).to_contain_text(
        "“huge.json” has 65 MB; the largest file that can be read has 64 MB"
    )


def test_a_file_in_an_old_encoding_is_read_with_its_quotation_marks(page: Page, dialog: Locator) -> None:
    text = "Der Leuchtturm – „dunkel“ seit elf Jahren.\r\nGrüße.\r\n"
    file = {"name": "alt.txt", "mimeType": "text/plain", "buffer": text.encode("cp1252")}
    dialog.get_by_label("Choose files").set_input_files([file])  # type: ignore[list-item]
    expect(dialog).to_be_hidden()
    [story] = imported(page)
    assert [node["text"] for node in story["nodes"].values()] == [text.replace("\r\n", "\n")]


def test_a_file_dropped_anywhere_is_imported_and_goes_nowhere_else(page: Page) -> None:
    open_harness(page, "formats")
    over = ["#elsewhere", "dragover", [["story.txt", "x"]]]
    assert page.evaluate(DROP, over)
    hint = page.get_by_text("or a story to import it")
    expect(hint).to_be_visible()
    assert page.evaluate(DROP, ["#elsewhere", "drop", [["lamp.txt", "Once upon a lamp"]]])
    page.wait_for_function("() => desk.imported.length === 1")
    expect(hint).to_be_hidden()
    [story] = imported(page)
    assert (story["title"], [node["text"] for node in story["nodes"].values()]) == ("lamp", ["Once upon a lamp"])
    assert [notice["text"] for notice in notices(page)] == ["Imported 4 words from text."]


def test_a_dropped_file_that_is_no_story_opens_the_dialog_with_the_reason(page: Page) -> None:
    open_harness(page, "formats")
    page.evaluate(DROP, ["#elsewhere", "drop", [["x.json", "[]"]]])
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("“x.json” is JSON, but no story of")


def test_text_that_is_dragged_is_left_alone(page: Page) -> None:
    open_harness(page, "formats")
    assert not page.evaluate(DROP, ["#elsewhere", "dragover", []])
    expect(page.get_by_text("or a story to import it")).to_be_hidden()


def test_pasted_text_becomes_a_story(page: Page, dialog: Locator) -> None:
    area = dialog.get_by_label("Or paste a story")
    area.fill("Once upon a time, <img src=x onerror=alert(1)>")
    dialog.get_by_role("button", name="Import what was pasted").click()
    expect(dialog).to_be_hidden()
    [story] = imported(page)
    assert [node["text"] for node in story["nodes"].values()] == ["Once upon a time, <img src=x onerror=alert(1)>"]


def test_markup_in_titles_and_errors_is_text(page: Page, dialog: Locator) -> None:
    state = {
        f"<img src=x onerror=alert({i})>.md": {"current": "a", "nodes": {"a": {"text": "x", "parentId": None}}}
        for i in (1, 2)
    }
    data = {"name": "data.json", "mimeType": "", "buffer": json.dumps({"state": state}).encode()}
    dialog.get_by_label("Choose files").set_input_files([data])  # type: ignore[list-item]
    expect(dialog.get_by_role("checkbox", name="<img src=x onerror=alert(1)>")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    bad = {"name": "<img src=x onerror=alert(3)>.json", "mimeType": "", "buffer": b"{}"}
    dialog.get_by_label("Choose files").set_input_files([bad])  # type: ignore[list-item]
    expect(dialog.get_by_role("alert")).to_contain_text("“<img src=x onerror=alert(3)>.json”")
    assert page.locator("img").count() == 0


EXPORTS = {
    "SRB story": "The lighthouse.json",
    "Plain text": "The lighthouse.txt",
    "Markdown": "The lighthouse.md",
    "Word": "The lighthouse.docx",
    "EPUB": "The lighthouse.epub",
    "Obsidian Loom": "The lighthouse.obsidian.json",
}


def test_each_export_is_a_download_with_the_storys_name(page: Page, dialog: Locator) -> None:
    for button, name in EXPORTS.items():
        with page.expect_download() as download:
            dialog.get_by_role("button", name=button, exact=True).click()
        assert download.value.suggested_filename == name
        content = download.value.path().read_bytes()
        if name.endswith((".docx", ".epub")):
            with ZipFile(download.value.path()) as archive:
                assert archive.testzip() is None
        else:
            assert "Fog – and “a lamp” 🌕." in content.decode()
        if name.endswith(".txt"):
            assert content.decode() == TEXT
        expect(dialog.get_by_role("status")).to_have_text(f"“{name}” is among your downloads.")


def test_an_exported_story_can_be_imported_again(page: Page, dialog: Locator) -> None:
    before = page.evaluate("desk.story.toJSON()")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="SRB story").click()
    dialog.get_by_label("Choose files").set_input_files(download.value.path())
    expect(dialog).to_be_hidden()
    assert imported(page) == [before]


def test_the_dialog_works_without_a_mouse(page: Page) -> None:
    open_harness(page, "formats")
    page.focus("#open")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Import and export")
    reached = []
    for _ in range(15):
        reached.append(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
            )
        )
        page.keyboard.press("Tab")
    buttons = ["SRB story", "Plain text", "Markdown", "Word", "EPUB", "Obsidian Loom"]
    assert [each for each in reached if each in buttons] == buttons
    assert "Close" in reached
    assert "Import what was pasted" in reached
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#open")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
def test_the_dialog_passes_axe_in_light_and_dark_and_on_a_phone(page: Page, dialog: Locator, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    assert violations(page) == []
    page.set_viewport_size({"width": 412, "height": 839})
    assert violations(page) == []
    assert page.evaluate("document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth")


def test_a_file_that_takes_long_can_be_given_up_and_the_next_one_is_read(page: Page, dialog: Locator) -> None:
    page.route("**/formats/reading_worker.js", lambda route: None)  # a worker that never comes to an end
    choose(dialog, "obsidian_loom_note.json")
    stop = dialog.get_by_role("button", name="Stop reading")
    stop.click()
    expect(dialog.get_by_role("alert")).to_have_text("“obsidian_loom_note.json” was not read.")
    expect(stop).to_be_hidden()
    page.unroute("**/formats/reading_worker.js")
    choose(dialog, "obsidian_loom_note.json")
    expect(dialog).to_be_hidden()
    assert len(imported(page)) == 1


def test_a_word_file_is_read_by_a_worker_under_the_pages_policy(page: Page, dialog: Locator, tmp_path: Path) -> None:
    document = (
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:rPr><w:i/></w:rPr>'
        "<w:t>Fog.</w:t></w:r></w:p></w:body></w:document>"
    )
    with ZipFile(tmp_path / "fog.docx", "w") as archive:
        archive.writestr("word/document.xml", document)
    with page.expect_worker() as worker:
        dialog.get_by_label("Choose files").set_input_files(tmp_path / "fog.docx")
    assert worker.value.url.endswith("/formats/reading_worker.js")
    expect(dialog).to_be_hidden()
    [story] = imported(page)
    assert [node["text"] for node in story["nodes"].values()] == ["*Fog.*"]


def test_a_folder_of_chapters_is_a_story(page: Page, dialog: Locator, tmp_path: Path) -> None:
    folder = tmp_path / "novel"
    folder.mkdir()
    for name, words in (("2.md", "# Two\n\nSo."), ("1.md", "# One\n\nOnce."), ("cover.bin", "\x00")):
        (folder / name).write_text(words)
    dialog.get_by_label("Or a folder").set_input_files(folder)
    expect(dialog).to_be_hidden()
    [story] = imported(page)
    assert [node["text"] for node in story["nodes"].values()] == ["# One\n\nOnce.", "\n\n# Two\n\nSo."]
    assert story["title"] == "novel"


def test_a_folder_without_chapters_is_refused_with_a_sentence(page: Page, dialog: Locator, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"\xff\xd8\xff")
    dialog.get_by_label("Or a folder").set_input_files(tmp_path / "photos")
    expect(dialog.get_by_role("alert")).to_contain_text("“photos” holds no project")


def test_a_worker_says_what_is_wrong_in_the_pages_language(make_page: MakePage) -> None:
    page = make_page(locale="de-DE")
    open_harness(page, "formats")
    page.click("#open")
    dialog = page.get_by_role("dialog")
    dialog.locator("input[type=file][multiple]").set_input_files(
        {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"}
    )
    expect(dialog.get_by_role("alert")).to_contain_text("„a.pdf“ ist ein PDF")
