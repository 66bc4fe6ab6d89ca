"""The chapters in the side panel: to jump by, with the words of each, and to be moved; by keys, by mouse and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

PARAGRAPH = "She climbed the stairs again, as on every evening of that year.\n\n"
NAMES = ["The Salt Road", "The Lamp", "Home"]
BOOK = "".join(f"## {name}\n\n{(10 + 10 * place) * PARAGRAPH}" for place, name in enumerate(NAMES))


def opened(writer: Writer, text: str = BOOK) -> Locator:
    """The list, opened by its key in a text whose caret is at the end."""
    writer.page.keyboard.insert_text(text)
    writer.press("Alt+c")
    chapters = writer.page.get_by_role("region", name="Chapters")
    expect(chapters.locator(".name").first).to_be_visible()
    return chapters


def test_the_list_has_each_chapter_with_its_words_and_marks_the_one_with_the_caret(writer: Writer) -> None:
    chapters = opened(writer, "A quote.\n\n" + BOOK)
    words = 12
    expect(chapters.locator(".chapter .name")).to_have_text(["A quote.", *NAMES])
    expect(chapters.locator(".goal")).to_have_text(["2", *(f"{each * words}" for each in (10, 20, 30))])
    expect(chapters.get_by_role("button", name="240 words. Goal of words: The Lamp")).to_be_visible()
    expect(chapters.locator("[aria-current=true]")).to_contain_text("Home")
    expect(chapters.locator("[aria-current=true]")).to_be_focused()


def test_enter_goes_to_a_chapter_and_shows_its_beginning(writer: Writer) -> None:
    chapters = opened(writer)
    writer.press("Home", "ArrowDown", "Enter")
    expect(chapters.locator("[aria-current=true]")).to_have_text("The Lamp")
    expect(writer.page.locator("srb-manuscript")).to_be_focused()
    assert writer.page.evaluate("desk.manuscript.caret()") == BOOK.index("## The Lamp")
    expect(writer.page.locator("srb-manuscript .heading", has_text="The Lamp")).to_be_in_viewport()
    writer.write("Here: ")
    assert "Here: ## The Lamp" in writer.page.evaluate("desk.text")


def test_keys_move_a_chapter_as_one_step(writer: Writer) -> None:
    chapters = opened(writer)
    writer.press("Alt+ArrowUp")
    expect(chapters.locator(".chapter .name")).to_have_text(["The Salt Road", "Home", "The Lamp"])
    expect(chapters.get_by_role("status")).to_have_text("“Home” is 2 of 3 now.")
    expect(chapters.locator("[aria-current=true]")).to_contain_text("Home")
    expect(chapters.locator("[aria-current=true]")).to_be_focused()
    writer.press("Alt+ArrowUp")
    expect(chapters.locator(".chapter .name")).to_have_text(["Home", "The Salt Road", "The Lamp"])
    writer.press("Alt+ArrowUp")  # there is no place above the first
    moved: str = writer.page.evaluate("desk.text")
    assert sorted(moved.split()) == sorted(BOOK.split())
    assert [moved.index(name) for name in ("Home", "The Salt Road", "The Lamp")] == sorted(map(moved.index, NAMES))
    writer.press("Control+z")
    expect(chapters.locator(".chapter .name")).to_have_text(["The Salt Road", "Home", "The Lamp"])
    writer.press("Escape")
    writer.press("Control+z")
    assert writer.page.evaluate("desk.text") == BOOK
    assert not writer.page.locator("srb-notice, .notice").count()


def test_a_chapter_is_cut_out_of_the_text_that_is_there_when_it_moves(writer: Writer) -> None:
    """The list is drawn some time after the last key."""
    chapters = opened(writer)
    up = chapters.get_by_role("button", name="Move up: Home")
    at = BOOK.index("She")
    up.evaluate("(up, at) => { desk.manuscript.select(at); desk.manuscript.insert('Fog came. '); up.click(); }", at)
    expect(chapters.locator(".chapter .name")).to_have_text(["The Salt Road", "Home", "The Lamp"])
    parts = [part.strip() for part in writer.page.evaluate("desk.text").split("## ")[1:]]
    first, lamp, home = (part.strip() for part in BOOK.split("## ")[1:])
    assert parts == [first.replace("She", "Fog came. She", 1), home, lamp]


def test_a_goal_is_asked_for_no_more_when_chapters_move_and_the_focus_stays(writer: Writer) -> None:
    chapters = opened(writer)
    chapters.get_by_role("button", name="Goal of words: Home").click()
    expect(chapters.get_by_label("Words of this chapter")).to_be_focused()
    chapters.get_by_role("button", name="Move up: Home").click()
    expect(chapters.get_by_role("status")).to_have_text("“Home” is 2 of 3 now.")
    expect(chapters.get_by_label("Words of this chapter")).to_have_count(0)
    writer.press("Control+z")
    expect(chapters.locator(".chapter .name")).to_have_text(NAMES)
    expect(chapters.locator(".name:focus")).to_have_count(1)


def test_a_chapter_has_a_goal_of_its_own_by_the_keyboard(writer: Writer) -> None:
    chapters = opened(writer)
    counts = chapters.locator(".goal")
    writer.press("Home", "Tab", "Tab", "Enter")
    field = chapters.get_by_label("Words of this chapter")
    expect(field).to_be_focused()
    writer.write("100").press("Enter")
    expect(counts).to_have_text(["✓ 120 of 100", "240", "360"])
    expect(chapters.get_by_role("status")).to_have_text("“The Salt Road” is to have 100 words.")
    button = chapters.get_by_role("button", name="Goal of words: The Salt Road")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")
    writer.press("Enter").write("900").press("Escape")
    expect(field).to_have_count(0)
    expect(button).to_be_focused()
    writer.press("Enter").write("500").press("Enter")
    expect(counts.first).to_have_text("120 of 500")
    writer.press("Control+z")
    expect(counts.first).to_have_text("✓ 120 of 100")
    writer.press("Control+z")
    expect(counts.first).to_have_text("120")
    writer.press("Control+Shift+z", "Control+Shift+z", "Escape")
    writer.page.evaluate("desk.manuscript.select(20)")
    expect(writer.page.locator("srb-goals-line")).to_have_text("120 of 500 in the chapter")
    writer.page.evaluate("desk.setMeta('goals', { day: 0, chapter: 300 })")
    writer.press("Alt+c")
    expect(counts).to_have_text(["120 of 500", "240 of 300", "✓ 360 of 300"])
    writer.press("Escape")
    writer.wait_until_saved().reload()
    writer.press("Alt+c")
    expect(counts.first).to_have_text("120 of 500")


def test_a_name_and_authors_go_with_a_moved_branch(writer: Writer) -> None:
    writer.set(n=1, max_tokens=8).write("Once upon a time,").go().wait_for_end()
    writer.page.evaluate("desk.take(0, { go: false })")
    writer.wait("desk.text.length > 'Once upon a time,'.length")
    taken = writer.page.evaluate("desk.text.slice('Once upon a time,'.length).trim()")
    writer.page.evaluate("desk.setNodeMark(desk.head.node, 'name', 'First night')")
    place = writer.page.locator(".crumb")
    expect(place).to_have_text("First night · paragraph 1")
    writer.page.evaluate("desk.setNodeMark(desk.head.node, 'name', null)")
    expect(place).to_have_text("Paragraph 1")
    writer.page.evaluate("desk.setNodeMark(desk.head.node, 'name', 'First night')")
    expect(place).to_have_text("First night · paragraph 1")
    writer.page.keyboard.insert_text("\n\n## Second night\n\nNobody came.")
    writer.press("Alt+c")
    chapters = writer.page.get_by_role("region", name="Chapters")
    expect(chapters.locator(".chapter .name")).to_have_text(["Once upon a time,", "First night", "Second night"])
    writer.press("Alt+ArrowUp")
    expect(chapters.locator(".chapter .name")).to_have_text(["Once upon a time,", "Second night", "First night"])
    by_model = writer.page.evaluate(
        """desk.story.pieces(desk.head.node, desk.head.at).filter(({ by }) => by === "model")
            .map(({ from, to }) => desk.text.slice(from, to))"""
    )
    assert "".join(by_model).strip() == taken
    assert writer.page.evaluate("desk.text").split("\n\n")[:3] == [
        "Once upon a time,",
        "## Second night",
        "Nobody came.",
    ]
    writer.wait_until_saved().reload()
    writer.wait("desk.text.includes('Second night')")
    writer.press("Alt+c")
    expect(chapters.locator(".chapter .name")).to_have_text(["Once upon a time,", "Second night", "First night"])


def test_a_text_without_chapters_is_told_how_one_begins(writer: Writer) -> None:
    chapters = opened(writer, "Once upon a time.")
    expect(chapters.locator(".chapter .name")).to_have_text("Once upon a time.")
    expect(chapters).to_contain_text("## The Salt Road")
    expect(chapters.get_by_role("button", name="Move up")).to_be_disabled()


@in_each_look
def test_the_list_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, Any]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url)
    opened(writer, "# Part One\n\n" + BOOK)
    assert violations(page) == []


def test_a_phone_jumps_and_moves_by_tap(make_page: MakePage, slow: Server) -> None:
    page: Page = make_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    writer = Writer(page, slow.url)
    page.keyboard.insert_text(BOOK)
    page.get_by_role("button", name="More").tap()
    page.get_by_role("button", name="Chapters").tap()
    chapters = page.get_by_role("region", name="Chapters")
    chapters.get_by_role("button", name="Move up: Home").tap()
    expect(chapters.locator(".chapter .name")).to_have_text(["The Salt Road", "Home", "The Lamp"])
    for button in chapters.locator(".line button:visible").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44
    chapters.get_by_role("button", name="The Salt Road", exact=True).tap()
    expect(chapters.locator("[aria-current=true]")).to_have_text("The Salt Road")
    assert page.evaluate("desk.manuscript.caret()") == 0
    assert writer.page.evaluate("document.documentElement.scrollWidth") == 390
