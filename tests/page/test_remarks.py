"""Comments on passages of the text: in the side panel, under the words in the manuscript, in other windows."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

TEXT = "The lake was still. Nobody came. It froze."
WORDS = "Nobody came"


def select(page: Page, words: str = WORDS) -> None:
    page.evaluate(
        "(words) => { const at = desk.text.indexOf(words); desk.manuscript.select(at, at + words.length) }", words
    )


def panel(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Memory and note")


def comment_on(writer: Writer, words: str = WORDS) -> Locator:
    """Begin a comment by the list of all actions."""
    page = writer.page
    select(page, words)
    writer.choose_action("comment on the sel")
    field = panel(page).get_by_label(f"Comment on “{words}”", exact=True)
    expect(field).to_be_focused()
    return field


def marked(page: Page) -> Locator:
    return page.locator("srb-manuscript .comment")


def test_a_comment_is_written_on_selected_words_and_moves_with_them(writer: Writer) -> None:
    page = writer.write(TEXT).page
    comment_on(writer)
    page.keyboard.type("Check <b>the</b> year.")
    expect(marked(page)).to_have_text(WORDS)
    page.locator("srb-manuscript").click()
    writer.press("Control+Home").write("Once. ")
    expect(marked(page)).to_have_text(WORDS)
    writer.wait_until_saved().reload()
    expect(marked(page)).to_have_text(WORDS)
    expect(panel(page).get_by_label(f"Comment on “{WORDS}”", exact=True)).to_have_value("Check <b>the</b> year.")
    writer.press("Control+Home")
    panel(page).get_by_role("button", name=f"“{WORDS}”", exact=True).click()
    assert page.evaluate("desk.selected") == WORDS


def test_what_a_round_reads_has_no_comment(writer: Writer) -> None:
    page = writer.write(TEXT).page
    comment_on(writer)
    page.keyboard.type("Secret.")
    page.locator("srb-manuscript").click()
    writer.press("Control+End")
    with page.expect_request("**/v1/srb/completions") as request:
        writer.press("Control+Enter")
    assert "Secret" not in (request.value.post_data or "")


def test_a_comment_is_taken_away_and_comes_back(writer: Writer) -> None:
    page = writer.write(TEXT).page
    comment_on(writer)
    page.keyboard.type("Check.")
    panel(page).get_by_role("button", name=f"Take away the comment on “{WORDS}”").click()
    expect(marked(page)).to_have_count(0)
    page.locator("srb-banner").get_by_role("button", name="Undo").click()
    expect(marked(page)).to_have_text(WORDS)
    expect(panel(page).get_by_label(f"Comment on “{WORDS}”", exact=True)).to_have_value("Check.")


def test_comments_stand_in_the_order_of_their_words_and_one_without_words_last(writer: Writer) -> None:
    page = writer.write(TEXT).page
    for words in ("froze", "Nobody", "lake"):
        comment_on(writer, words)
    quotes = panel(page).locator("srb-comments .quote")
    expect(quotes).to_have_text(["“lake”", "“Nobody”", "“froze”"])
    page.locator("srb-manuscript").click()
    select(page, "The lake was still. ")
    writer.press("Delete")
    expect(quotes).to_have_text(["“Nobody”", "“froze”", "“lake” not in this text"])


def test_another_window_shows_a_comment(writer: Writer) -> None:
    page = writer.write(TEXT).wait_until_saved().page
    other = page.context.new_page()
    Writer(other, page.url, is_new=False)
    comment_on(writer)
    page.keyboard.type("Check.")
    expect(marked(other)).to_have_text(WORDS)


@in_each_look
def test_comments_have_no_barriers(make_page: MakePage, server: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, server.url).write(TEXT)
    comment_on(writer).fill("Check.")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
