"""One story in two windows that drift apart: each says what the other has more, and both become one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import MakePage
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e


def elsewhere(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="goes on in another window")


@pytest.fixture
def other(writer: Writer, slow: Server) -> Writer:
    """A second window with the writer's story, in which both have written."""
    writer.write(START).wait_until_saved()
    other = Writer(writer.page.context.new_page(), slow.url, is_new=False)
    other.expect_text(START)
    writer.write(" one two")
    other.write(" three four five")
    return other


def test_two_windows_say_what_goes_on_in_the_other_and_join_it(writer: Writer, other: Writer) -> None:
    expect(elsewhere(writer.page)).to_contain_text("another window: 3 words")
    expect(elsewhere(other.page)).to_contain_text("another window: 2 words")
    assert (writer.text, other.text) == (START + " one two", START + " three four five")
    elsewhere(writer.page).get_by_role("button", name="Join").click()
    writer.expect_text(START + " one two three four five")
    expect(elsewhere(writer.page)).to_have_count(0)
    other.expect_text(START + " one two three four five")
    expect(other.page.get_by_text("The texts of two windows were joined in the other one.")).to_be_visible()
    writer.page.locator("srb-manuscript").click()
    writer.press("Control+z").expect_text(START + " one two")


def test_two_changes_at_one_place_are_asked_about_and_both_windows_have_one_text(writer: Writer, slow: Server) -> None:
    writer.write("The red fox sleeps.").wait_until_saved()
    other = Writer(writer.page.context.new_page(), slow.url, is_new=False)
    other.expect_text("The red fox sleeps.")
    for each, word in ((writer, "blue"), (other, "green")):
        each.page.evaluate("desk.manuscript.select(4, 7)")
        each.write(word).wait_until_saved()
    elsewhere(writer.page).get_by_role("button", name="Join").click()
    asked = writer.page.get_by_role("status").filter(
        has_text="This place is “blue” here, and “green” in the other window."
    )
    expect(asked.get_by_role("button")).to_have_text(["Keep mine", "Keep theirs", "Keep both"])
    assert writer.page.evaluate("desk.selected") == "blue"
    asked.get_by_role("button", name="Keep theirs").click()
    for each in (writer, other):
        each.expect_text("The green fox sleeps.")
        expect(each.page.get_by_role("status").filter(has=each.page.get_by_role("button", name="Join"))).to_have_count(
            0
        )


def test_a_window_that_is_read_anew_after_another_wrote_last_tells_its_own_words(writer: Writer, other: Writer) -> None:
    for each in (writer, other):
        each.wait_until_saved()
    expect(elsewhere(writer.page)).to_be_visible()
    writer.reload()
    writer.expect_text(START + " three four five")
    own = writer.page.get_by_role("status").filter(has_text="of this window")
    expect(own).to_contain_text("Your 2 words of this window are in the outline")
    other.write(" six").wait_until_saved()
    expect(own).to_be_visible()
    own.get_by_role("button", name="Join").click()
    writer.wait("desk.text.includes(' one two') && desk.text.includes(' three four five')")
    expect(own).to_have_count(0)
    writer.wait_until_saved().reload()
    writer.wait("desk.rounds !== null")
    expect(own).to_have_count(0)


def test_words_that_are_joined_leave_the_cards_where_they_are(writer: Writer, slow: Server) -> None:
    page = writer.set(n=3, max_tokens=8).write(START).go().wait_for_end().wait_until_saved().page
    cards = writer.slots()
    other = Writer(page.context.new_page(), slow.url, is_new=False)
    other.expect_text(START)
    other.write(" three four five").wait_until_saved()
    expect(elsewhere(page)).to_be_visible()
    elsewhere(page).get_by_role("button", name="Join").click()
    writer.expect_text(START + " three four five")
    assert writer.slots() == cards
    expect(page.locator(".branches-head").filter(has_text="These go on from")).to_be_visible()
    page.locator("srb-manuscript").click()
    writer.to_cards().press("Shift+Digit2").wait("desk.text.includes(argument)", cards[1]["text"].strip())
    assert writer.text.startswith(START + " three four five")


def test_the_other_windows_text_is_shown_and_left_again(writer: Writer, other: Writer) -> None:
    expect(elsewhere(writer.page)).to_contain_text("another window: 3 words")  # all of them
    elsewhere(writer.page).get_by_role("button", name="Show").click()
    writer.expect_text(START + " three four five")
    notice = writer.page.locator("srb-banner p").filter(has_text="“one two” is not in this text")
    notice.get_by_role("button", name="Back to where I was").click()
    writer.expect_text(START + " one two")


def test_windows_of_two_languages_are_one_story(writer: Writer, slow: Server, make_page: MakePage) -> None:
    writer.set(n=3, max_tokens=8).write(START).go().wait_for_end().wait_until_saved()
    german = Writer(make_page(locale="de-DE"), slow.url, is_new=False)
    german.expect_text(START)
    assert german.slots() == writer.slots()
    german.write(" drei vier fünf").wait_until_saved()
    writer.write(" one two").wait_until_saved()
    expect(elsewhere(writer.page)).to_contain_text("another window: 3 words")
    elsewhere(writer.page).get_by_role("button", name="Join").click()
    both = START + " drei vier fünf one two"  # in the order of writing
    writer.expect_text(both)
    german.expect_text(both)
    expect(german.page.get_by_text("Die Texte zweier Fenster wurden im anderen zusammengeführt.")).to_be_visible()
    german.wait_until_saved()
    german.reload()
    german.expect_text(both)
