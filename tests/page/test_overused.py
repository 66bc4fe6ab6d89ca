"""Words that come too often: found in the manuscript, and with a click never in a card again, or seldom."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

TEXT = " ".join(f"Number {i} waited for a moment. And suddenly her eyes glinted, in room {i}." for i in range(30))


def open_list(writer: Writer, text: str = TEXT) -> Locator:
    writer.page.evaluate("(text) => { desk.setMeta('language', 'en'); desk.manuscript.insert(text); }", text)
    dialog = writer.open_dialog("overused")
    expect(dialog.get_by_role("status")).to_contain_text("word")
    return dialog


def row(dialog: Locator, words: str) -> Locator:
    return dialog.get_by_role("listitem").filter(has=dialog.page.get_by_text(words, exact=True))


def lists(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.evaluate("[desk.settings.banned_strings, desk.settings.seldom_strings]")
    return found


def test_a_click_bans_or_weakens_what_comes_too_often_and_another_one_allows_it_again(writer: Writer) -> None:
    page = writer.page
    dialog = open_list(writer)
    expect(row(dialog, "suddenly")).to_contain_text("30 ×, elsewhere 0 ×")
    dialog.get_by_role("button", name="Never: suddenly", exact=True).click()
    dialog.get_by_role("button", name="Seldom: waited for a moment", exact=True).click()
    eyes = dialog.get_by_role("button", name="Seldom: eyes that glint, gleam, sparkle, twinkle")
    eyes.click()
    expect(eyes).to_have_attribute("aria-pressed", "true")
    never, seldom = lists(page)
    assert (never, seldom[0]) == (["suddenly"], "waited for a moment")
    assert seldom[1].startswith("/")
    dialog.get_by_role("button", name="Never: waited for a moment", exact=True).click()
    eyes.click()
    assert lists(page) == [["suddenly", "waited for a moment"], []]
    dialog.get_by_role("button", name="Seldom: suddenly", exact=True).click()
    sent: list[dict[str, Any]] = []
    page.on("request", lambda request: sent.append(request.post_data_json) if "completions" in request.url else None)
    writer.press("Escape")
    writer.set(n=3).go()
    assert sent[0]["banned_patterns"] == [
        {"pattern": r"\bwaited\s+for\s+a\s+moment\b"},
        {"pattern": r"\bsuddenly\b", "weight": 0.2},
    ]
    writer.wait_until_saved().reload()
    assert lists(page) == [["waited for a moment"], ["suddenly"]]


def test_all_that_models_overuse_is_banned_at_once_and_the_server_takes_it(writer: Writer) -> None:
    page = writer.page
    dialog = open_list(writer, "Once.")
    dialog.locator("summary").click()
    everything = dialog.get_by_role("button", name="Never: all phrases that models overuse")
    everything.click()
    assert len(lists(page)[0]) > 200
    writer.press("Escape")
    writer.set(n=2).go()
    assert page.evaluate("desk.round.slots.every((slot) => slot.state !== 'failed')")
    writer.choose_action("Words that come too often")
    dialog.locator("summary").click()
    everything.click()
    assert lists(page) == [[], []]


def test_a_text_with_nothing_of_it_says_so(writer: Writer) -> None:
    dialog = open_list(writer, "A short text.")
    expect(dialog.get_by_role("status")).to_have_text("3 words. Nothing comes too often.")


@in_each_look
def test_the_list_has_no_barriers(make_page: MakePage, server: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, server.url)
    dialog = open_list(writer)
    dialog.get_by_role("button", name="Never: suddenly", exact=True).click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
