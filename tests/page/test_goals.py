"""Goals: words of the day and of a chapter, in the header."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e


def line(writer: Writer) -> Locator:
    return writer.page.locator("srb-goals-line")


def set_goals(writer: Writer, day: int, chapter: int) -> None:
    dialog = writer.open_dialog("goals")
    dialog.get_by_label("Words a day").fill(str(day))
    dialog.get_by_label("Words of each chapter").fill(str(chapter))
    writer.press("Enter", "Escape")
    expect(dialog).to_be_hidden()


def test_without_goals_the_header_has_no_line_of_them(writer: Writer) -> None:
    writer.write("One two.")
    expect(line(writer)).to_have_text("")


def test_the_header_says_the_words_of_the_day_and_of_the_chapter(writer: Writer) -> None:
    page = writer.write("One two three.").page
    set_goals(writer, 4, 20)
    page.locator("srb-manuscript").click()
    writer.press("Control+End").write(" Four five six.")
    expect(line(writer)).to_have_text("3 of 4 today 6 of 20 in the chapter")
    writer.write(" Seven.")
    expect(line(writer)).to_have_text("✓ 4 of 4 today 7 of 20 in the chapter")
    writer.wait_until_saved().reload()
    expect(line(writer)).to_have_text("✓ 4 of 4 today 7 of 20 in the chapter")
    line(writer).get_by_role("button").click()
    expect(page.get_by_role("dialog", name="Goals")).to_be_visible()


@in_each_look
def test_goals_have_no_barriers(make_page: MakePage, server: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, server.url).write("One two three.")
    dialog = writer.open_dialog("goals")
    assert violations(page) == []
    dialog.get_by_label("Words a day").fill("100")
    writer.press("Enter", "Escape")
    expect(line(writer)).to_have_text("0 of 100 today")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
