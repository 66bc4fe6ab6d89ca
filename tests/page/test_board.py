"""The board that stays: cards that are pinned above later rounds, and what is shown of the cards of one."""

from __future__ import annotations

import re

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


def shown(page: Page) -> list[str]:
    return page.locator("srb-branches .card-place:not([hidden]) .text").all_inner_texts()


def test_only_cards_that_pass_are_shown_and_their_digits_take_them(page: Page, slow: Server) -> None:
    writer = written(page, slow).press("b", "l")
    field = page.get_by_role("group", name="Which cards are shown").get_by_label("Has")
    expect(field).to_be_focused()
    writer.write("tom")
    expect(page.get_by_text("1 of 3 cards")).to_be_visible()
    assert shown(page) == ["Tom slept on the pier."]
    field.fill("")
    page.get_by_role("button", name="★ Starred").click()
    expect(page.get_by_text("1 of 3 cards")).to_be_visible()
    assert shown(page) == ["One little lamp burned."]
    page.get_by_role("button", name="★ Starred").click()
    page.get_by_role("button", name="Filter").click()
    expect(writer.card(1)).to_be_focused()
    writer.press("l")
    page.get_by_role("button", name="Not in the text").click()
    expect(page.get_by_text("3 of 3 cards")).to_be_visible()
    page.locator("srb-branches article.card:visible").first.focus()
    writer.press("Shift+Digit1").expect_text(START + CARDS[0])
    expect(page.get_by_text("2 of 3 cards")).to_be_visible()
    expect(page.get_by_text("You took 1 of 3 cards.")).to_be_visible()
    writer.press("Shift+Digit1").expect_text(START + CARDS[1])
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("srb-branches .card-place:not([hidden])")).to_have_count(3)


def test_the_steps_that_a_person_takes_become_the_ladder_and_undo_takes_that_back(page: Page, slow: Server) -> None:
    writer = written(page, slow).set(ladder={"name": "temperature", "from": 0.5, "to": 1.1})
    for take in "2122223222":
        before = page.evaluate("desk.text")
        page.evaluate("desk.go({ isAtEnd: true })")
        writer.wait("desk.round.base.at === argument", len(before)).wait_for_end()
        page.evaluate("take => desk.take(take - 1, { go: false })", int(take))
        writer.wait("desk.text !== argument", before)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("from step 2 (Temperature 0.8):")).to_be_visible()
    page.get_by_role("button", name="use these").click()
    writer.wait("desk.settings.ladder.from === 0.8 && desk.settings.ladder.to === 0.8")
    page.evaluate("desk.undo()")
    writer.wait("desk.settings.ladder.from === 0.5 && desk.settings.ladder.to === 1.1")


@in_each_look
def test_the_board_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    written(page, slow).press("p", "ArrowRight", "b")
    page.get_by_text("Starred: 1").click()
    page.evaluate("document.querySelector('srb-branches').filters.toggle()")
    expect(page.get_by_role("group", name="Which cards are shown")).to_be_visible()
    expect(pins(page)).to_have_count(1)
    assert violations(page) == []


def test_each_card_says_the_mood_that_it_was_written_in_also_after_a_reload(page: Page, slow: Server) -> None:
    events = [event for number, words in enumerate(CARDS) for event in (text(number, words), stop(number, "eos"))]
    answer_rounds(page, start(3), *events, {"event": "done", "count": 3})
    writer = Writer(page, slow.url).set(n=3, stop_at="", ladder={"name": "mood dread", "from": -1, "to": 1})
    page.evaluate("desk.watch.server = { ...desk.server, control_vectors: ['dread'] }")
    with page.expect_request("**/v1/srb/completions") as asked:
        writer.write(START).press("Control+Enter").wait_for_end()
    scales = [branch["control_vectors"] for branch in asked.value.post_data_json["branches"]]
    assert scales == [[{"name": "dread", "scale": scale}] for scale in (-1, 0, 1)]
    moods = page.locator("srb-branches .card .mood").filter(has_text="dread")
    expect(moods).to_have_text(["dread −1", "dread 0", "dread +1"])
    expect(page.locator("srb-branches .card").first).to_have_accessible_description(re.compile("Mood: dread −1."))
    writer.wait_until_saved().reload()
    expect(moods).to_have_text(["dread −1", "dread 0", "dread +1"])
