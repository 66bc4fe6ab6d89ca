"""The text alone, and the caret's line in the middle."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

PANES = ("srb-header header", "srb-branches", "srb-outline", "#divider")
PLACE = """() => {
    const view = document.querySelector("srb-manuscript").getBoundingClientRect();
    const line = desk.manuscript.rect(desk.manuscript.caret());
    return (line.top - view.top) / view.height;
}"""


def test_focus_shows_the_text_alone_until_cards_come(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).set(n=2, max_tokens=8).write(START).press("Alt+f")
    for pane in PANES:
        expect(page.locator(pane)).to_be_hidden()
    width = page.locator("srb-manuscript").evaluate("(text) => text.clientWidth")
    assert width > 0.95 * page.evaluate("innerWidth")
    writer.write(" there").go()
    for pane in PANES:
        expect(page.locator(pane)).to_be_visible()
    assert page.evaluate("desk.text").startswith(f"{START} there")


def test_focus_ends_by_its_key_and_by_its_button(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).press("Alt+f")
    end = page.get_by_role("button", name="Show everything")
    expect(end).to_be_visible()
    writer.press("Alt+f")
    expect(end).to_be_hidden()
    expect(page.locator("srb-branches")).to_be_visible()
    writer.press("Alt+f")
    end.click()
    expect(page.locator("srb-branches")).to_be_visible()
    expect(page.locator("srb-manuscript")).to_be_focused()


def test_the_typewriter_keeps_the_line_in_the_middle_also_after_a_reload(page: Page, server: Server) -> None:
    writer = Writer(page, server.url)
    page.keyboard.insert_text("\n".join(f"Line {number}." for number in range(100)))
    writer.choose_action("typewriter")
    page.wait_for_function(f"() => Math.abs(({PLACE})() - 0.5) < 0.1")
    for key in ("Enter", "Control+Home", "Control+End", "PageUp"):
        writer.press(key)
        page.wait_for_function(f"() => Math.abs(({PLACE})() - 0.5) < 0.1")
    writer.wait_until_saved().reload()
    writer.press("Control+End", "ArrowUp").write("x")
    page.wait_for_function(f"() => Math.abs(({PLACE})() - 0.5) < 0.1")
    writer.choose_action("typewriter").press("Control+Home")
    page.wait_for_function(f"() => ({PLACE})() < 0.2")
