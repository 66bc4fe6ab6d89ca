"""A person writes first: cards stay covered until a sentence of hers stands where they go."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

YOURS_FIRST = "Your own sentence first: the cards open when it stands."


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    return writer.set(seed=11, n=4, max_tokens=8, stop_at="", writes_first=True)


def test_cards_open_when_a_sentence_of_her_own_stands_and_no_key_shows_them_before(fixed: Writer) -> None:
    page = fixed.write("The bus").ask().wait_for_end().page
    cover = page.locator("srb-branches .cover")
    expect(cover).to_contain_text(YOURS_FIRST)
    expect(fixed.cards.first).to_be_hidden()
    expect(page.get_by_role("button", name="Sort")).to_be_disabled()
    fixed.press("Alt+ArrowRight")  # would show one in the text
    assert page.evaluate("desk.ghost") is None
    fixed.to_cards()
    expect(page.get_by_role("button", name="Show them now")).to_be_focused()
    fixed.press("1", "x")
    assert fixed.text == "The bus"
    assert [slot["state"] for slot in fixed.slots()] == ["ended"] * 4
    page.evaluate("desk.manuscript.focus()")
    fixed.write(" had left.")
    expect(cover).to_have_count(0)
    expect(fixed.cards.first).to_be_visible()
    assert all(text.strip() for text in fixed.shown())


def test_a_card_that_is_taken_is_no_sentence_of_hers_and_she_may_look_all_the_same(fixed: Writer) -> None:
    page = fixed.write("The bus had left.").go().wait_for_end().page
    expect(page.locator("srb-branches .cover")).to_have_count(0)
    fixed.to_cards().press("2").wait("desk.rounds.isCovered").wait_for_end()
    page.get_by_role("button", name="Show them now").click()
    expect(fixed.cards.first).to_be_visible()
    fixed.press("1").wait("desk.rounds.isCovered")  # the next round's cards are covered again


def test_it_is_a_setting_of_the_page_which_a_new_story_has_too(writer: Writer) -> None:
    page = writer.page
    writer.open_dialog("settings").get_by_role("button", name="Page", exact=True).click()
    page.get_by_role("checkbox", name="Write first").check()
    writer.press("Escape")
    page.evaluate("desk.newStory()")
    assert page.evaluate("desk.settings.writes_first") is True


@in_each_look
def test_a_cover_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).set(max_tokens=8, stop_at="", n=4, writes_first=True).write("The bus")
    writer.ask().wait_for_end()
    expect(page.locator("srb-branches .cover")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
