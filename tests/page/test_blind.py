"""A blind round: nothing on the page says which card is whose, or how likely it is, until one is taken."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.writer import START, Writer
from tests.processes import wait_for

pytestmark = pytest.mark.e2e


def bars(page: Page) -> Locator:
    return page.locator(".card .bar[data-step]")


def test_likelihood_mood_and_order_are_hidden_until_a_card_is_taken(writer: Writer) -> None:
    page = writer.page
    dialog = writer.open_dialog("settings")
    dialog.get_by_label("Blind", exact=False).check()
    writer.press("Escape")
    writer.set(seed=5, n=6, max_tokens=4, stop_at="", likelihood=True, logprobs=True)
    page.locator("srb-manuscript").click()
    writer.write(START).go().wait_for_end()
    order: list[int] = page.evaluate("desk.round.order")
    assert sorted(order) == list(range(6))
    texts: list[str] = page.evaluate("desk.round.slots.map(({ text }) => text)")
    wait_for(lambda: [text.strip() for text in writer.shown()] == [texts[number].strip() for number in order], "drawn")
    expect(bars(page)).to_have_count(0)
    page.get_by_role("button", name="Sort").click()
    expect(page.locator("#cards-order button")).to_have_text(["Group the same"])
    writer.press("Escape")
    writer.wait_until_saved().reload()
    expect(bars(page)).to_have_count(0)
    assert page.evaluate("Object.values(JSON.parse(JSON.stringify(desk.story)).runs)[0].request.blind") is True
    writer.to_cards().press("Shift+Digit2")
    expect(bars(page)).not_to_have_count(0)
