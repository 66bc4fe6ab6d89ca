"""The board that stays: cards that are pinned above later rounds, and what is shown of the cards of one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.scripted import answer_rounds, start, stop, text
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

START = "The lake was still."
CARDS = [" One *little* lamp burned.", " Tom slept on the pier.", " Two gulls sat there."]


def written(page: Page, server: Server) -> Writer:
    """Return a writer whose round of three cards has ended, with the focus on the first."""
    events = [event for number, words in enumerate(CARDS) for event in (text(number, words), stop(number, "eos"))]
    answer_rounds(page, start(3), *events, {"event": "done", "count": 3})
    writer = Writer(page, server.url).set(n=3, stop_at="").write(START)
    return writer.press("Control+Enter").wait_for_end().to_cards()


def pins(page: Page) -> Locator:
    return page.get_by_role("list", name="Pinned cards").get_by_role("listitem")


def test_a_pinned_card_stands_above_the_next_round_and_goes_to_the_caret(page: Page, slow: Server) -> None:
    writer = written(page, slow).press("p")
    expect(pins(page)).to_contain_text(["One little lamp burned."], use_inner_text=True)
    expect(pins(page)).to_contain_text([f"after “{START}”"])
    writer.press("2").wait_for_end()
    expect(pins(page)).to_have_count(1)
    page.evaluate("desk.manuscript.select(desk.text.length)")
    pins(page).get_by_role("button", name="Put at the caret").click()
    writer.expect_text(START + CARDS[1] + CARDS[0])
    expect(pins(page).get_by_title("In the text.")).to_be_visible()
    writer.press("Control+z").expect_text(START + CARDS[1])
    pins(page).get_by_role("button", name="Put in its place").click()
    writer.expect_text(START + CARDS[0] + CARDS[1])
    writer.wait_until_saved().reload()
    expect(pins(page)).to_have_count(1)
    pins(page).get_by_role("button", name="Take off the board").click()
    expect(pins(page)).to_have_count(0)


def test_a_pinned_card_says_when_what_it_went_on_from_is_gone(page: Page, slow: Server) -> None:
    writer = written(page, slow).press("p")
    page.locator("srb-manuscript").click()
    writer.press("Control+a").write("Another lake.")
    writer.wait("desk.text === 'Another lake.'")
    expect(pins(page)).to_contain_text(["which is not in the text any more"])
    expect(pins(page).get_by_role("button", name="Put in its place")).to_have_count(0)


def test_starred_cards_are_offered_to_the_board(page: Page, slow: Server) -> None:
    writer = written(page, slow).press("ArrowRight", "b")
    page.get_by_text("Starred: 1").click()
    stars = page.get_by_role("list", name="Starred cards").get_by_role("listitem")
    expect(stars).to_contain_text(["Tom slept on the pier."])
    stars.get_by_role("button", name="Pin", exact=True).click()
    expect(pins(page)).to_contain_text(["Tom slept on the pier."])
    expect(page.get_by_text("Starred: 1")).to_have_count(0)
    writer.press("Control+z")
    expect(pins(page)).to_have_count(0)


def test_a_card_that_another_window_pins_is_there(page: Page, make_page: MakePage, slow: Server) -> None:
    writer = written(page, slow).wait_until_saved()
    story = page.evaluate("desk.story.id")
    other = make_page()
    window = Writer(other, slow.url, is_new=False)
    other.evaluate("id => desk.openStory(id)", story)
    window.wait("desk.text === argument", START)
    writer.press("p").wait_until_saved()
    expect(pins(other)).to_contain_text(["One little lamp burned."], use_inner_text=True)


@in_each_look
def test_the_board_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    written(page, slow).press("p", "ArrowRight", "b")
    page.get_by_text("Starred: 1").click()
    expect(pins(page)).to_have_count(1)
    assert violations(page) == []
