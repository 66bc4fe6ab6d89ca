"""A book of 100,000 words, one paragraph of it of 10,800, is written like any other text. `make bench-page` measures it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.writer import Writer
from tests.servers import MakeServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LONG = 900 * "The keeper climbed the stairs again, as on every evening of that year. "  # 12 words and more each
PARAGRAPHS = [LONG, *("She wrote it down before the ink was dry, page after page." for _ in range(7_400))]
BOOK = "\n\n".join(PARAGRAPHS)
WORDS = len(BOOK.split())


def test_a_book_is_imported_written_at_both_ends_continued_and_there_after_a_reload(
    page: Page, make_server: MakeServer
) -> None:
    assert WORDS > 100_000
    writer = Writer(page, make_server(model="fake:", n_ctx=4096).start().url).set(n=2, max_tokens=8)
    page.keyboard.insert_text(LONG[:800])
    writer.go().wait_for_end()  # the page knows then how many characters a token of this model has
    before = writer.story()["id"]
    dialog = writer.open_dialog("formats")
    dialog.get_by_label("Choose files").set_input_files(
        {"name": "book.txt", "mimeType": "text/plain", "buffer": BOOK.encode()}
    )
    writer.wait("desk.story.id !== argument", before)
    writer.press("Escape")
    expect(dialog).to_be_hidden()
    page.locator("srb-manuscript").evaluate("(manuscript) => manuscript.focus()")
    writer.press("Control+Home").write("First. ").press("Control+End").write(" Last.")
    assert page.evaluate("desk.text") == f"First. {BOOK} Last."
    assert page.locator("srb-manuscript .cm-line").count() < 500, "the editor draws only what is in view"
    writer.set(n=2, max_tokens=8).go().wait_for_end()
    assert page.evaluate("desk.words") == WORDS + 2
    writer.wait_until_saved().reload()
    writer.wait("desk.head.at > 0 && desk.round")
    assert page.evaluate("desk.manuscript.text") == f"First. {BOOK} Last."
    assert len(writer.slots()) == 2
