"""The outline of a story that was written with the desk: every branch of every round is in it and can be opened."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.page.writer import START, Writer

pytestmark = pytest.mark.e2e


@pytest.fixture
def written(writer: Writer) -> Writer:
    """A story of three rounds, of which the second, third and fourth card were taken."""
    writer.set(max_tokens=6).write(START)
    for digit in (2, 3, 4):
        writer.press("Control+Enter").wait_for_end().to_cards()
        writer.press(f"Shift+Digit{digit}").wait("desk.head.at > argument", len(START)).to_text()
    return writer


def test_every_branch_of_every_round_is_in_the_outline(written: Writer) -> None:
    page = written.page
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("tree").wait_for()
    model = {name for name, node in written.story()["nodes"].items() if node["by"] == "model"}
    assert len(model) == 24
    seen: set[str] = set()
    page.get_by_role("tree").focus()
    written.press("Home")
    for _ in range(len(written.story()["nodes"])):
        seen |= {str(item.get_attribute("id")).removeprefix("outline-") for item in page.get_by_role("treeitem").all()}
        written.press("PageDown")
        if model <= seen:
            break
    assert model <= seen


def test_an_unpicked_branch_of_three_rounds_ago_is_opened_and_the_present_restored(written: Writer) -> None:
    page, present = written.page, written.text
    first = [(name, node) for name, node in written.story()["nodes"].items() if node["by"] == "model"][:8]
    node, unpicked = next((name, node["text"]) for name, node in first if node["slot"] == 6)
    shown = max(re.findall(r"[ -~]+", unpicked), key=len).strip()[:30]  # signs stand for control characters
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("searchbox", name="Search").fill(shown)  # a field of one line drops what ends a line
    row = page.locator(f"#outline-{node}")
    row.click()
    row.get_by_role("button", name="Open").click()
    written.expect_text(START + unpicked)
    expect(written.card(7)).to_contain_text(shown)
    page.get_by_role("button", name="Back to where I was").click()
    written.expect_text(present)


def test_below_the_text_stands_where_the_caret_is(writer: Writer) -> None:
    page = writer.set(n=4, max_tokens=6, seed=11).write("# Book\n\n## The *Salt* Road\n\nOne.\n\nTwo").page
    place = page.get_by_role("navigation", name="Where the caret is").locator(".crumb")
    expect(place).to_have_text("The Salt Road · paragraph 2")
    writer.press("ArrowUp", "ArrowUp")
    expect(place).to_have_text("The Salt Road · paragraph 1")
    writer.press("ArrowUp", "ArrowUp")
    expect(place).to_have_text("The Salt Road")
    place.click()
    expect(page.locator("srb-plan").get_by_role("button", name="The Salt Road", exact=True)).to_be_focused()
    writer.press("Escape")
    page.evaluate("desk.manuscript.focus()")
    writer.press("Control+End").go().wait_for_end().to_cards()
    writer.press("Shift+Digit1")
    page.get_by_role("button", name="one of 4 ways").click()
    expect(page.get_by_role("tree")).to_be_focused()


def test_a_text_ends_at_one_of_its_own_rows_by_a_verb_of_its_own(written: Writer) -> None:
    page, text = written.page, written.text
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("tree").focus()
    written.press("Home")
    page.get_by_role("treeitem", selected=True).get_by_role("button", name="End the text here").click()
    written.expect_text(START)
    page.get_by_role("button", name="Back to where I was").click()
    written.expect_text(text)


def test_undo_leads_back_from_an_opened_branch(written: Writer) -> None:
    present = written.text
    first = next(name for name, node in written.story()["nodes"].items() if node["by"] == "model")
    written.page.evaluate("(id) => desk.openNode(id)", first)
    written.wait("desk.text !== argument", present)
    written.press("Control+z").expect_text(present)


def test_a_closed_fork_stays_closed_when_another_tab_changes_the_story(writer: Writer) -> None:
    page = writer.page
    writer.set(max_tokens=6).write(START).press("Control+Enter").wait_for_end().wait_until_saved()
    page.get_by_role("button", name="Outline").click()
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(9)
    page.get_by_role("button", name="Close the fork").click()
    expect(rows).to_have_count(1)
    other = page.context.new_page()
    other_writer = Writer(other, page.url, is_new=False)
    other.evaluate("(id) => desk.openStory(id)", page.evaluate("desk.story.id"))
    other_writer.set(max_tokens=7).wait_until_saved()
    writer.wait("desk.settings.max_tokens === 7 && !document.querySelector('srb-outline').timer")  # and it is drawn
    expect(rows).to_have_count(1)
    writer.set(max_tokens=6).wait_until_saved()
    page.evaluate("desk.newStory()")
    expect(rows).to_have_count(0)
