"""The lorebook in the side panel: entries that the model reads while the text speaks of them, and their files."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

WORLD_INFO = {
    "entries": {
        "0": {
            "uid": 0,
            "key": ["Mara"],
            "keysecondary": [],
            "comment": "Mara",
            "content": "Mara <b>rows</b>.",
            "order": 5,
        }
    }
}


def panel(page: Page) -> Locator:
    """The lorebook in the open side panel."""
    book = page.locator("srb-lorebook")
    if not book.is_visible():
        page.get_by_role("button", name="Memory and note").click()
    expect(book).to_be_visible()
    return book


def add(page: Page, name: str, keys: str, text: str) -> Locator:
    """Add an entry as a person does, and return its row."""
    book = panel(page)
    book.get_by_role("button", name="Add an entry").click()
    expect(book.get_by_label("Name")).to_be_focused()
    page.keyboard.type(name)
    book.get_by_label("Keywords", exact=True).fill(keys)
    book.get_by_label("Text").fill(text)
    return row(page, name)


def row(page: Page, name: str) -> Locator:
    return page.locator("srb-lorebook li").filter(has=page.get_by_text(name, exact=True))


def lore(writer: Writer) -> list[dict[str, Any]]:
    """The entries of the story, as they are kept."""
    return [value for key, value in sorted(writer.story().items()) if key.startswith("lore.")]


def prompt_of_next(writer: Writer) -> str:
    with writer.page.expect_request(lambda request: request.url.endswith("/completions")) as asked:
        writer.page.evaluate("void desk.go()")
    prompt: str = asked.value.post_data_json["prompt"]
    return prompt


def import_file(page: Page, name: str, content: bytes) -> Locator:
    book = panel(page)
    files = book.locator("details.files")
    if files.get_attribute("open") is None:
        files.locator("summary").click()
    book.get_by_label("A lorebook or a card").set_input_files(
        [{"name": name, "mimeType": "application/octet-stream", "buffer": content}]
    )
    return files


def png(text: dict[str, str]) -> bytes:
    """A picture of one pixel, with texts."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    texts = [chunk(b"tEXt", key.encode() + b"\0" + base64.b64encode(value.encode())) for key, value in text.items()]
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(texts) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def test_an_entry_is_read_while_the_text_speaks_of_it_and_its_row_says_so(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=8).write(f"{START} Tom came.").page
    tom = add(page, "Tom", "Tom, the smith", "Tom is old.")
    expect(tom.locator(".state")).to_have_text("“Tom”")
    add(page, "Mara", "Mara", "Mara rows.")
    assert prompt_of_next(writer) == f"[Tom is old.]\n\n{START} Tom came."
    expect(tom.locator(".state")).to_contain_text("in this round")
    expect(row(page, "Mara").locator(".state")).to_be_empty()
    writer.wait_for_end().wait_until_saved().reload()
    expect(tom.locator(".state")).to_contain_text("in this round")  # the round has kept it
    assert {entry["name"]: entry["keys"] for entry in lore(writer)} == {"Tom": ["Tom", "the smith"], "Mara": ["Mara"]}


def test_what_is_always_read_stands_first_and_what_is_off_is_not_read(writer: Writer) -> None:
    page = writer.write(f"{START} Tom came.").page
    add(page, "World", "", "An island.")
    panel(page).get_by_label("Always read").check()
    add(page, "Tom", "Tom", "Tom is old.")
    panel(page).get_by_label("On", exact=True).uncheck()
    expect(row(page, "Tom").locator(".state")).to_have_text("off")
    assert prompt_of_next(writer) == f"An island.\n\n{START} Tom came."
    expect(row(page, "World").locator(".state")).to_have_text("in this round · always")


def test_an_entry_says_something_else_from_a_place_on_and_a_branch_from_before_does_not_know_it(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=4).write(f"{START} Tom came.\n\nTom fell on the stairs.").page
    tom = add(page, "Tom", "Tom", "Tom is whole.")
    book = panel(page)
    book.get_by_role("button", name="Another text from here on").click()
    later = book.get_by_label("Text from “Tom fell on the stairs.” on")
    expect(later).to_be_focused()
    expect(later).to_have_value("Tom is whole.")
    later.fill("Tom has a <i>scar</i>.")
    expect(tom.locator(".state")).to_contain_text("from “Tom fell on the stairs.” on")
    assert prompt_of_next(writer) == f"[Tom has a <i>scar</i>.]\n\n{START} Tom came.\n\nTom fell on the stairs."
    writer.wait_for_end()
    page.evaluate("desk.manuscript.select(desk.text.indexOf('came') + 5)")  # before the place
    expect(tom.locator(".state")).not_to_contain_text("on the stairs")
    assert prompt_of_next(writer).startswith(f"[Tom is whole.]\n\n{START} Tom came.")
    writer.wait_for_end().wait_until_saved().reload()
    fork = f"{{node: desk.head.node, at: {len(START) + 10}}}"
    page.evaluate(f"desk.openNode({fork}.node, {fork}.at)")
    tom.locator("button.title").click()
    expect(book.get_by_text("not in this text")).to_be_visible()
    assert prompt_of_next(writer) == f"[Tom is whole.]\n\n{START} Tom came."
    writer.wait_for_end()
    page.evaluate("desk.goBack()")
    expect(tom.locator(".state")).to_contain_text("from “Tom fell on the stairs.” on")


def test_a_later_text_of_an_entry_is_a_step_of_undo(writer: Writer) -> None:
    page = writer.write(f"{START} Tom came.").page
    add(page, "Tom", "Tom", "Tom is whole.")
    book = panel(page)
    book.get_by_role("button", name="Another text from here on").click()
    later = book.get_by_label("Text from “Once upon a time, Tom came.” on")
    later.fill("Tom has a scar.")
    page.keyboard.press("Tab")
    page.evaluate("desk.undo()")
    expect(later).to_have_value("Tom is whole.")
    page.evaluate("desk.undo()")
    expect(later).to_be_hidden()
    page.evaluate("desk.redo()")
    page.evaluate("desk.redo()")
    expect(later).to_have_value("Tom has a scar.")
    assert [value["text"] for key, value in writer.story().items() if key.startswith("lore_from.")] == [
        "Tom has a scar."
    ]


def test_an_entry_for_which_there_is_no_room_says_so(writer: Writer) -> None:
    page = writer.write(f"{START} Tom came.").page
    tom = add(page, "Tom", "Tom", "Tom is old. " * 20)
    page.get_by_label("Tokens that the entries may take").fill("20")
    page.keyboard.press("Tab")
    expect(tom.locator(".state")).to_have_text("no room")
    assert prompt_of_next(writer) == f"{START} Tom came."
    assert writer.story()["settings"]["lore_tokens"] == 20


def test_a_deleted_entry_is_gone_and_comes_back_by_the_message(writer: Writer) -> None:
    page = writer.write(START).page
    tom = add(page, "Tom", "Tom", "Tom is old.")
    tom.get_by_role("button", name="Delete").click()
    expect(tom).to_be_hidden()
    expect(panel(page).get_by_role("button", name="Add an entry")).to_be_focused()
    page.get_by_role("button", name="Undo", exact=True).last.click()
    expect(tom).to_be_visible()
    assert [entry["text"] for entry in lore(writer)] == ["Tom is old."]


def test_a_row_keeps_its_place_and_the_caret_while_its_entry_is_written(writer: Writer) -> None:
    page = writer.page
    add(page, "Mara", "Mara", "Mara rows.")
    add(page, "Tom", "Tom", "Tom is old.")
    name = panel(page).get_by_label("Name")
    name.fill("Abel")
    panel(page).get_by_label("Text").focus()
    page.keyboard.type("!")
    expect(panel(page).get_by_label("Text")).to_have_value("Tom is old.!")
    assert sorted(entry["name"] for entry in lore(writer)) == ["Abel", "Mara"]


def test_two_windows_write_two_entries(make_page: MakePage, slow: Server) -> None:
    first = Writer(make_page(), slow.url).write(START)
    add(first.page, "Tom", "Tom", "Tom is old.")
    first.wait_until_saved()
    second = Writer(first.page.context.new_page(), slow.url, is_new=False)
    add(second.page, "Mara", "Mara", "Mara rows.")
    second.wait_until_saved()
    expect(row(first.page, "Mara")).to_be_visible()
    expect(row(second.page, "Tom")).to_be_visible()
    row(first.page, "Mara").get_by_role("button").click()
    expect(panel(first.page).get_by_label("Text")).to_have_value("Mara rows.")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("world.json", json.dumps(WORLD_INFO).encode()),
        (
            "card.png",
            png(
                {
                    "chara": json.dumps(
                        {
                            "spec": "chara_card_v2",
                            "data": {
                                "name": "Mara",
                                "description": "",
                                "character_book": {"entries": [{"keys": ["Mara"], "content": "Mara <b>rows</b>."}]},
                            },
                        }
                    )
                }
            ),
        ),
    ],
)
def test_a_lorebook_comes_in_from_a_file_and_its_text_is_never_markup(
    writer: Writer, name: str, content: bytes
) -> None:
    page = writer.write(f"{START} Mara").page
    import_file(page, name, content)
    expect(page.locator("srb-lorebook .files")).to_contain_text("came in")
    mara = row(page, "Mara").first
    expect(mara).to_be_visible()
    assert "[Mara <b>rows</b>.]" in prompt_of_next(writer)
    assert page.locator("srb-lorebook b").count() == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.json",
            b'{"entries": {"0": {"key": [{}], "content": "x"}}}',
            "Entry 1 of the lorebook: a keyword is an object",
        ),
        ("a.json", b'{"story": 1}', "is no lorebook or card"),
        ("a.json", b'{"entries": ', "is not valid JSON"),
        ("a.png", png({"other": "x"}), "a picture without a card"),
        ("a.png", png({"chara": "{}"})[:50], "was cut short"),
    ],
)
def test_a_file_that_is_no_lorebook_is_refused_by_its_field_and_nothing_comes_in(
    writer: Writer, name: str, content: bytes, says: str
) -> None:
    files = import_file(writer.page, name, content)
    expect(files.get_by_role("alert")).to_contain_text(says)
    assert lore(writer) == []


@pytest.mark.parametrize("button", ["Export for SRB", "Export for SillyTavern"])
def test_an_exported_lorebook_comes_in_again_as_it_was(writer: Writer, button: str, tmp_path: Path) -> None:
    page = writer.page
    add(page, "Tom", "Tom, the smith", "Tom is old.")
    panel(page).get_by_label("Capitals count").check()
    before = lore(writer)
    panel(page).locator("details.files summary").click()
    with page.expect_download() as download:
        panel(page).get_by_role("button", name=button).click()
    file = tmp_path / "book.json"
    download.value.save_as(file)
    page.evaluate("desk.newStory()")
    assert lore(writer) == []
    expect(import_file(page, "book.json", file.read_bytes())).to_contain_text("1 entry came in.")
    assert lore(writer) == before


def test_a_lorebook_in_the_dialog_of_stories_is_told_where_it_belongs(writer: Writer) -> None:
    dialog = writer.open_dialog("formats")
    dialog.get_by_label("Choose files").set_input_files(
        [{"name": "world.json", "mimeType": "application/json", "buffer": json.dumps(WORLD_INFO).encode()}]
    )
    expect(dialog.get_by_role("alert")).to_contain_text("is a lorebook: open a story, and import it in the side panel")


@in_each_look
def test_the_lorebook_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, Any]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).write(f"{START} Tom")
    add(page, "Tom, who keeps the old mill on the hill above the sea", "Tom", "Tom is old.")
    panel(page).locator(".edit summary").click()
    panel(page).get_by_label("Second keywords").fill("mill, sea")
    panel(page).locator("details.files summary").click()
    expect(panel(page).get_by_label("of which the text has")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for part in ("srb-side-panel", "srb-lorebook"):
        assert page.locator(part).evaluate("(each) => each.scrollWidth <= each.clientWidth"), part
    assert writer.text == f"{START} Tom"
