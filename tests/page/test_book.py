"""A book of 100,000 words, one paragraph of it of 10,800, is written like any other text. `make bench-page` measures it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Troubles
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


HUGE = (
    20_000 * "彼女は灯台の階段を上り、"
)  # 240,000 characters without a break, each twice as wide as the editor takes it to be
DRAWN = "desk.manuscript.shadowRoot.querySelector('.cm-content').textContent.length"
CARET_IS_SEEN = """(() => {
  const { top = -1, bottom = -1 } = desk.manuscript.rect(desk.manuscript.caret()) ?? {};
  return top >= 0 && bottom <= innerHeight;
})()"""
FRAMES = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))"


def expect_drawn_in_part(page: Page, what: str) -> None:
    page.evaluate(FRAMES)
    drawn = page.evaluate(DRAWN)
    assert 0 < drawn < 45_000, f"{what}: {drawn} characters are drawn"


def test_of_a_paragraph_of_a_books_size_a_part_is_drawn_wherever_somebody_writes_and_looks(
    page: Page, server_with: MakeServer, troubles: Troubles
) -> None:
    troubles.allow("Viewport failed to stabilize|status of 400")  # heights are guesses; no model has read so much
    writer, tail = Writer(page, server_with(n_ctx=300_000).url), 400 * "\n\nThe end came."
    page.evaluate("(text) => desk.manuscript.insert(text)", HUGE + tail)
    expect_drawn_in_part(page, "pasted")
    half = len(HUGE) // 2
    page.evaluate("(at) => { desk.manuscript.select(at); desk.manuscript.focus(); }", half)
    expect_drawn_in_part(page, "the middle")
    writer.press("Enter")
    expect_drawn_in_part(page, "cut in two")
    writer.write("a")
    page.evaluate("desk.manuscript.shadowRoot.querySelector('.cm-scroller').scrollTop = 1e9")
    page.evaluate(FRAMES)
    assert not page.evaluate(CARET_IS_SEEN)
    expect_drawn_in_part(page, "somewhere else")
    writer.write("b")
    expect_drawn_in_part(page, "back at the caret")
    written = f"{HUGE[:half]}\nab{HUGE[half:]}{tail}"
    assert page.evaluate("desk.text") == written
    writer.wait_until_saved().reload()
    writer.wait("desk.text.length === argument", len(written))
    expect_drawn_in_part(page, "after a reload")
    assert page.evaluate("desk.manuscript.text") == page.evaluate("desk.text") == written
