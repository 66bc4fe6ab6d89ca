"""Words that are typed while cards are shown or grow: a take keeps them, wherever they stand, or says where they are."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.writer import START, Writer

pytestmark = pytest.mark.e2e

STORY = "It was a fox."
MORE = " It was red."


def seam(page: Page) -> Locator:
    return page.locator("srb-branches header").filter(has_text="These go on from")


def notice(page: Page) -> Locator:
    return page.locator("srb-banner p")


def card_text(writer: Writer, number: int) -> str:
    text: str = writer.slots()[number - 1]["text"]
    return text.rstrip(" ")


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    """A writer whose cards are the same on every machine."""
    return writer.set(seed=11, max_tokens=8, n=4)


def test_a_typo_that_is_mended_while_cards_are_shown_stays_mended(fixed: Writer) -> None:
    fixed.write(START).go().wait_for_end()
    fixed.press("Control+Home", "Control+Delete").write("Twice")
    expect(seam(fixed.page)).to_have_count(0)
    fixed.to_cards().press("Shift+Digit2")
    fixed.expect_text(START.replace("Once", "Twice") + card_text(fixed, 2))
    fixed.press("Control+z").expect_text(START.replace("Once", "Twice"))


def test_words_typed_while_cards_grow_dim_them_and_stay_before_the_card_that_is_taken(writer: Writer) -> None:
    page = writer.set(n=4).write(STORY).go().write(MORE).page
    expect(seam(page)).to_contain_text(f"These go on from “{STORY}”")
    expect(page.locator(".cards[data-stale]")).to_be_visible()
    writer.press("Escape").wait_for_end().to_cards().press("Shift+Digit3")
    expect(notice(page)).to_contain_text(f"behind what you typed meanwhile: “{MORE.strip()}”")
    assert writer.text.startswith(STORY + MORE)
    assert card_text(writer, 3).strip() in writer.text
    writer.press("Control+z").expect_text(STORY + MORE)


def test_no_word_of_what_the_cards_go_on_from_is_cut(writer: Writer) -> None:
    page = writer.set(n=4).write("Nobody understood such extraordinary watchfulness.").go().write(MORE).page
    words = seam(page).locator("p")
    for width in (1440, 800, 390):
        page.set_viewport_size({"width": width, "height": 844})
        expect(words).to_contain_text("watchfulness.”")
        assert words.evaluate("(words) => words.scrollWidth <= words.clientWidth"), f"at {width} px"


def test_typed_words_give_way_on_request_and_are_told_of_and_one_undo_has_them_again(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    page.get_by_role("button", name="in place of them").click()
    expect(page.get_by_role("button", name="in place of them")).to_have_attribute("aria-pressed", "true")
    fixed.press("Shift+Digit2").expect_text(STORY + card_text(fixed, 2))
    expect(notice(page)).to_contain_text(f"“{MORE.strip()}” is not in this text. The outline has it.")
    fixed.press("Control+z").expect_text(STORY + MORE)
    assert any(node["text"] == MORE for node in fixed.story()["nodes"].values())


def test_a_card_that_stands_behind_typed_words_is_put_in_their_place_by_a_button(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    card = card_text(fixed, 2)
    fixed.to_cards().press("2").wait("desk.text.length > argument", len(STORY + MORE))
    page.get_by_role("button", name="In place of it").click()
    fixed.expect_text(STORY + card)


def test_a_new_round_goes_on_from_the_typed_words(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    page.get_by_role("button", name="New round").click()
    fixed.wait("desk.round.slots.every((slot) => slot.text) && desk.seam === null")
    expect(seam(page)).to_have_count(0)
    fixed.wait_for_end().press("Shift+Digit1").expect_text(STORY + MORE + card_text(fixed, 1))
