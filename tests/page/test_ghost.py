"""A card that is shown in the manuscript, at its place, before it is taken."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.scripted import answer_rounds, start, stop, text
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

BEFORE, BEHIND = "The lake was still.", "Nobody came."
CARDS = [" *One* little lamp burned.", " Two gulls sat on the pier.\n\nThey slept."]


def beside(page: Page, server: Server) -> Writer:
    """Return a writer whose cards stand in the middle of the text."""
    events = [event for number, words in enumerate(CARDS) for event in (text(number, words), stop(number, "eos"))]
    answer_rounds(page, start(2), *events, {"event": "done", "count": 2})
    writer = Writer(page, server.url).set(n=2, stop_at="").write(f"{BEFORE} {BEHIND}")
    page.evaluate("at => desk.manuscript.select(at)", len(BEFORE))
    return writer.press("Control+Enter").wait_for_end().to_cards()


def test_a_card_stands_in_the_text_while_it_is_looked_at_and_the_text_is_as_it_was(page: Page, slow: Server) -> None:
    writer = beside(page, slow)
    ghost = page.locator("srb-manuscript .ghost")
    writer.press("Space")
    expect(ghost.locator("em")).to_have_text("One")
    assert page.locator("srb-manuscript .cm-content").inner_text() == f"{BEFORE} One little lamp burned. {BEHIND}"
    writer.press("ArrowRight")
    expect(ghost).to_contain_text("Two gulls sat on the pier.")
    assert "pier.\n\nThey slept." in page.locator("srb-manuscript .cm-content").inner_text()
    assert page.evaluate("desk.text") == f"{BEFORE} {BEHIND}"
    writer.press("Space")
    expect(ghost).to_have_count(0)
    writer.press("Space")
    expect(ghost).to_have_count(1)
    writer.press("Escape")
    expect(ghost).to_have_count(0)
    expect(writer.card(2)).to_be_focused()
    writer.press("Space", "Shift+Enter").wait("desk.text === argument", f"{BEFORE}{CARDS[1]} {BEHIND}")
    expect(ghost).to_have_count(0)


def test_cards_are_shown_and_taken_from_the_text_by_its_own_keys(page: Page, slow: Server) -> None:
    writer = beside(page, slow)
    ghost = page.locator("srb-manuscript .ghost")
    page.evaluate("desk.manuscript.focus()")
    writer.press("Alt+ArrowLeft")
    expect(ghost).to_contain_text("Two gulls")
    expect(page.locator("srb-manuscript .ghost")).to_have_count(1)
    writer.press("Alt+ArrowRight")
    expect(ghost.locator("em")).to_have_text("One")
    writer.press("Enter").wait("desk.text === argument", f"{BEFORE}{CARDS[0]} {BEHIND}")
    writer.press("Enter").wait("desk.text.includes('\\n')")


def test_a_card_that_the_text_has_is_ticked_until_it_is_taken_back(page: Page, slow: Server) -> None:
    writer = beside(page, slow)
    taken = re.compile("In the text")
    expect(writer.card(1)).not_to_have_accessible_description(taken)
    writer.press("Shift+Digit1")
    expect(writer.card(1)).to_have_accessible_description(taken)
    expect(writer.card(1).locator(".marks")).to_have_text("✓")
    expect(writer.card(2)).not_to_have_accessible_description(taken)
    writer.press("Control+z")
    expect(writer.card(1)).not_to_have_accessible_description(taken)


def test_a_ghost_goes_when_a_person_writes_on(page: Page, slow: Server) -> None:
    writer = beside(page, slow).press("Space")
    expect(page.locator("srb-manuscript .ghost")).to_have_count(1)
    page.locator("srb-manuscript").click()
    expect(page.locator("srb-manuscript .ghost")).to_have_count(0)
    writer.press("Control+End").write(" Then").expect_text(f"{BEFORE} {BEHIND} Then")


def test_what_a_past_round_offered_stands_in_its_place_and_enter_puts_it_there(page: Page, slow: Server) -> None:
    writer = beside(page, slow)
    first = page.evaluate("desk.round.id")
    taken = f"{BEFORE}{CARDS[0]} {BEHIND}"
    writer.press("1").wait("desk.round.id !== argument", first).wait_for_end().to_text().expect_text(taken)
    writer.press(*["ArrowLeft"] * 5)
    ghost = page.locator("srb-manuscript .ghost")
    writer.press("Alt+ArrowRight")
    expect(ghost).to_contain_text("Two gulls sat on the pier.")
    expect(page.locator("srb-manuscript .ghost-instead").first).to_contain_text("lamp burned")
    writer.press("Alt+ArrowRight")  # around, to the one that the text has
    expect(ghost).to_have_count(0)
    expect(page.locator("srb-manuscript .ghost-there").first).to_be_visible()
    writer.press("Alt+ArrowLeft", "Escape")
    expect(ghost).to_have_count(0)
    writer.press("Alt+ArrowRight", "Enter").wait("desk.text === argument", f"{BEFORE}{CARDS[1]} {BEHIND}")
    writer.press("Control+z").expect_text(taken)


def test_what_is_marked_of_a_card_is_dragged_to_a_place_of_the_text(page: Page, slow: Server) -> None:
    writer = beside(page, slow)
    text = CARDS[1].strip()
    writer.press("ArrowRight", "Control+ArrowRight", "Control+ArrowRight").wait("desk.round.slots[1].mark !== null")
    words = page.evaluate("desk.round.slots[1].text.slice(0, desk.round.slots[1].mark).trim()")
    assert words == text[: len(words)]
    centre = "({ left, top, width, height }) => [left + width / 2, top + height / 2]"
    card = page.evaluate(f"({centre})(document.querySelector('srb-branches').board.cards.get(1).content.rect(2, 4))")
    place = page.evaluate("({ left, top }) => [left + 1, top + 8]", page.evaluate("desk.manuscript.rect(0).toJSON()"))
    page.mouse.move(*card)
    page.mouse.down()
    page.mouse.move(*place, steps=5)
    page.mouse.up()
    writer.wait("desk.text.trimStart().startsWith(argument)", words)
    node = page.evaluate("desk.story.pieces(desk.head.node, desk.head.at)[0].by")
    assert node == "model", "the words are whose they were"


@in_each_look
def test_a_ghost_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    beside(page, slow).press("Space")
    expect(page.locator("srb-manuscript .ghost")).to_have_count(1)
    assert violations(page) == []
