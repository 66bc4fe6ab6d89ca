"""The manuscript with the real desk and story: after any acts it shows the story's text, and all can be undone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness

STEPS = 300


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "desk")
    return page


@pytest.mark.parametrize("seed", range(8))
def test_everything_is_undone_to_the_beginning_and_done_again(page: Page, seed: int) -> None:
    """After each of the random acts the manuscript is the story's text."""
    assert page.evaluate("([seed, steps]) => walk(seed, steps)", [seed, STEPS]) is None
    ends = page.evaluate("thereAndBack()")
    assert ends["first"] == ""
    assert ends["again"] == ends["last"] != ""
    assert page.evaluate("manuscript.text === desk.text")


def test_nothing_that_was_undone_is_lost_from_the_story(page: Page) -> None:
    page.evaluate("manuscript.focus()")
    page.keyboard.type("One two")
    page.keyboard.press("Control+z")
    page.keyboard.type("Three")
    texts = page.evaluate("[...desk.story.nodes.keys()].map((id) => desk.story.text(id))")
    assert "One two" in texts
    assert "Three" in texts
