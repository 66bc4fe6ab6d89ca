"""Words are searched for in all stories and branches, and replaced in the manuscript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e


def search(writer: Writer, words: str) -> None:
    """Search for words that one place has, and open it."""
    dialog = writer.open_dialog("stories")
    dialog.get_by_role("searchbox").fill(words)
    places = dialog.get_by_role("list", name="In the texts").get_by_role("button")
    expect(places).to_have_count(1)
    places.click()
    expect(dialog).to_be_hidden()


def selected(page: Page) -> str:
    found: str = page.evaluate("desk.selected")
    return found


def test_a_place_in_another_story_is_opened_with_its_words_selected(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write("The ferry waits. A Quince tree stood there. The end.").wait_until_saved()
    story = writer.story()["id"]
    page.evaluate("desk.newStory()")
    writer.write("Another story.").wait_until_saved()
    search(writer, "quince  TREE")
    writer.wait("desk.story.id === argument", story)
    assert selected(page) == "Quince tree"
    writer.expect_text("The ferry waits. A Quince tree stood there. The end.")
    expect(page.locator("srb-manuscript")).to_be_focused()


def test_a_place_far_in_a_text_is_shown_from_a_whole_word_on(page: Page, server: Server) -> None:
    writer = Writer(page, server.url)
    page.keyboard.insert_text(30 * "Lanterns everywhere. " + "A medlar tree.")
    writer.wait_until_saved()
    dialog = writer.open_dialog("stories")
    dialog.get_by_role("searchbox").fill("medlar")
    words = dialog.get_by_role("list", name="In the texts").locator(".words")
    expect(words).to_have_text(re.compile(r"^… (Lanterns|everywhere)\b.* A medlar tree\.$"))


def test_a_place_in_a_branch_that_was_not_taken_shows_the_branch(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).set(n=2, max_tokens=8).write(START).go().wait_for_end()
    branch = writer.slots()[1]
    words = branch["text"].strip()
    assert words not in page.evaluate("desk.text")
    writer.wait_until_saved()
    search(writer, words)
    writer.wait("desk.selected === argument", words)
    assert page.evaluate("desk.head.node") == branch["node"]
    page.evaluate("desk.goBack()")
    writer.expect_text(START)


def test_all_places_are_replaced_as_one_step_of_undo(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write("The cat saw the cat. Cats!").press("Control+f")
    panel = page.locator("srb-manuscript .cm-search")
    panel.locator("input[name=search]").fill("cat")
    expect(panel.get_by_text("3", exact=True)).to_be_visible()
    panel.get_by_role("button", name="Replace", exact=True).click()
    panel.locator("input[name=replace]").fill("fox")
    panel.locator("button[name=replaceAll]").click()
    writer.expect_text("The fox saw the fox. foxs!")
    assert page.evaluate("desk.text") == "The fox saw the fox. foxs!"
    writer.press("Escape", "Control+z")
    writer.expect_text("The cat saw the cat. Cats!")
    writer.press("Control+Shift+z")
    writer.expect_text("The fox saw the fox. foxs!")


def test_the_panel_counts_the_places_and_goes_through_them(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write("Tom saw Tom.\n\nTomorrow tom will go.").press("Control+f")
    panel = page.locator("srb-manuscript .cm-search")
    count = panel.get_by_role("status")
    page.keyboard.type("Tom")
    expect(count).to_have_text("4")
    writer.press("Enter")
    expect(count).to_have_text("1 of 4")
    writer.press("Shift+Enter")
    expect(count).to_have_text("4 of 4")
    assert selected(page) == "tom"
    panel.get_by_role("button", name="Match capitals").click()
    expect(count).to_have_text("3")
    panel.get_by_role("button", name="Whole words").click()
    expect(count).to_have_text("2")
    assert page.locator("srb-manuscript .ticks").evaluate(
        "(canvas) => canvas.getContext('2d').getImageData(0, 0, 6, canvas.height).data.some((each) => each > 0)"
    ), "the scroll bar has ticks"
    panel.locator("input[name=search]").fill("nobody")
    expect(count).to_have_text("not there")
    panel.get_by_role("button", name="Regular expression").click()
    panel.locator("input[name=search]").fill("(")
    expect(count).to_have_text("no pattern")
    expect(panel.locator("input[name=search]")).to_have_attribute("aria-invalid", "true")
    panel.locator("input[name=search]").fill("T.m")
    expect(count).to_have_text("2")
    page.evaluate("desk.manuscript.insert('Tom ')")
    expect(count).to_have_text("3")
    panel.get_by_role("button", name="Close").click()
    expect(page.locator("srb-manuscript .ticks")).to_have_count(0)
