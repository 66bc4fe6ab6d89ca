"""The dialog of stories on its own: opened, searched, renamed, binned and restored, by mouse, keys and thumb."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_stories(page)
    return page


def open_stories(page: Page) -> None:
    open_harness(page, "stories")
    page.evaluate("desk.openDialog('stories')")
    expect(stories(page)).to_have_count(3)


def stories(page: Page) -> Locator:
    return page.get_by_role("dialog").get_by_role("listitem")


def acts(page: Page) -> list[str]:
    done: list[str] = page.evaluate("desk.acts")
    return done[1:]


def test_stories_are_listed_with_words_age_and_what_is_not_saved(page: Page) -> None:
    shown = [text.split("\n")[:2] for text in stories(page).all_inner_texts()]
    assert shown[0] == ["The lighthouse", "open now · 3,214 words · just now"]
    assert shown[1] == ["Untitled", "1 word · not on the server yet · 5 minutes ago"]
    assert shown[2][1] == "0 words · 3 days ago"
    expect(page.get_by_text("Stories are kept by the server at desk.test.")).to_be_visible()


def test_stories_of_one_title_are_told_apart_by_the_time_of_their_last_change(page: Page) -> None:
    page.evaluate("desk.keeper.find('b').title = 'The lighthouse'; desk.keeper.find('c').title = 'Another'")
    page.get_by_role("button", name="Bin", exact=True).click()
    page.get_by_role("button", name="Back to the stories").click()
    time = (
        "new Intl.DateTimeFormat('en', {dateStyle: 'medium', timeStyle: 'short'}).format(desk.keeper.find(id).changed)"
    )
    times = [page.evaluate(f"(id) => {time}", story) for story in "ab"]
    assert times[0] != times[1]
    for row, when in enumerate(times):
        expect(stories(page).nth(row).locator(".facts")).to_contain_text(when)
        expect(stories(page).nth(row).locator(".bin")).to_have_accessible_name(
            f"Put “The lighthouse”, {when} into the bin"
        )
    expect(stories(page).nth(2).locator(".facts")).to_have_text("0 words · 3 days ago")


def test_a_title_is_text_whatever_is_in_it(page: Page) -> None:
    expect(stories(page).nth(2).locator(".name")).to_have_text("<b>Bold</b> \u202eesrever")
    assert page.locator("srb-stories li b").count() == 0


def test_opening_a_story_closes_the_dialog_and_goes_to_the_text(page: Page) -> None:
    page.get_by_role("button", name="Untitled 1 word").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert acts(page) == ["open b"]
    expect(page.locator("h1")).to_be_focused()


def test_a_story_that_cannot_be_opened_is_told_of_in_the_dialog(page: Page) -> None:
    stories(page).nth(2).get_by_role("button").first.click()
    expect(page.get_by_role("alert")).to_have_text("This story is not there any more.")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_the_search_finds_titles(page: Page) -> None:
    page.get_by_role("searchbox").fill("LIGHT")
    expect(stories(page)).to_have_count(1)
    page.get_by_role("searchbox").fill("nothing of the kind")
    expect(page.get_by_text("No title has “nothing of the kind”.")).to_be_visible()


def test_the_search_finds_places_in_all_texts_and_opens_one(page: Page) -> None:
    page.get_by_role("searchbox").fill("lamp & oil")
    places = page.get_by_role("list", name="In the texts").get_by_role("listitem")
    expect(places).to_have_text("<i>Salt</i> the lamp <b>went</b> out")
    expect(page.get_by_text("There may be more places")).to_be_visible()
    assert page.evaluate("desk.searched") == ["v1/srb/stories/~search?q=lamp%20%26%20oil"]
    assert page.locator("srb-stories .places :is(i, b)").count() == 0
    places.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert acts(page) == ["open b", "select 4 8"]


def test_a_story_is_renamed_by_keys_alone(page: Page) -> None:
    page.get_by_role("button", name="Rename “Untitled”").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()
    page.keyboard.type("  The ferry ")
    page.keyboard.press("Enter")
    expect(stories(page).nth(1)).to_contain_text("The ferry")
    expect(page.get_by_role("button", name="Rename “The ferry”")).to_be_focused()


def test_escape_leaves_the_title_as_it_was_and_the_dialog_open(page: Page) -> None:
    page.get_by_role("button", name="Rename “The lighthouse”").click()
    page.keyboard.type("another")
    expect(page.get_by_role("textbox", name="Title")).to_have_value("another")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Rename “The lighthouse”")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_story_goes_into_the_bin_and_comes_back(page: Page) -> None:
    page.get_by_role("button", name="Put “Untitled” into the bin").click()
    expect(page.get_by_role("status")).to_contain_text("“Untitled” is in the bin.")
    expect(stories(page)).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(stories(page)).to_have_count(3)
    page.get_by_role("button", name="Bin", exact=True).click()
    expect(stories(page)).to_have_count(1)
    expect(stories(page)).to_contain_text("goes for good in 28 days")
    expect(page.get_by_text("Stories stay in the bin for 30 days.")).to_be_visible()
    page.get_by_role("button", name="Restore “Thrown away”").click()
    expect(page.get_by_text("The bin is empty.")).to_be_visible()
    page.get_by_role("button", name="Back to the stories").click()
    expect(stories(page)).to_have_count(4)


def test_new_import_and_sample_are_one_click_away(page: Page) -> None:
    for name, act in (("New story", "new"), ("Open a sample", "import true"), ("Import…", "dialog formats")):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        page.wait_for_function("(act) => desk.acts.includes(act)", arg=act)
        page.evaluate("desk.openDialog('stories')")
        expect(stories(page)).to_have_count(3)


def test_stories_that_cannot_be_read_are_told_of_and_what_the_browser_keeps_is_listed(page: Page) -> None:
    page.evaluate("desk.keeper.trouble = 'The server cannot be reached.'")
    page.evaluate("document.querySelector('srb-stories dialog').close(); desk.openDialog('stories')")
    expect(page.get_by_role("alert")).to_have_text("The server cannot be reached.")
    expect(stories(page)).to_have_count(1)
    expect(stories(page)).to_contain_text("not on the server yet")
    expect(page.get_by_role("button", name="New story")).to_be_enabled()


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
def test_the_dialog_has_no_barriers(make_page: MakePage, scheme: str) -> None:
    page = make_page(color_scheme=scheme)
    open_stories(page)
    assert violations(page) == []
    page.get_by_role("searchbox").fill("li")
    expect(page.get_by_role("list", name="In the texts")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="Rename “The lighthouse”").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Put “Untitled” into the bin").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Bin", exact=True).click()
    expect(stories(page)).to_have_count(2)
    assert violations(page) == []


def test_on_a_phone_every_button_is_large_enough_and_nothing_is_cut_off(make_page: MakePage) -> None:
    page = make_page(viewport={"width": 412, "height": 839}, has_touch=True)
    open_stories(page)
    for button in page.get_by_role("dialog").get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["height"], box["width"]) >= 44, button.inner_text()
        assert 0 <= box["x"] <= 412 - box["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 412
    page.get_by_role("button", name="Rename “The lighthouse”").tap()
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()
