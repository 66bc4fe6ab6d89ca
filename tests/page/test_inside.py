"""Rounds in the middle of the text: they go on where the caret is, and what follows stays behind the card that is taken."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

FIRST, SECOND = "The lake was still.", " Nobody came."


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    """A writer whose caret stands behind the first of two sentences, and whose cards end."""
    writer.set(seed=11, max_tokens=8, n=4).write(FIRST + SECOND)
    writer.page.evaluate("(at) => desk.manuscript.select(at)", len(FIRST))
    return writer


def card_text(writer: Writer, number: int) -> str:
    text: str = writer.slots()[number - 1]["text"]
    return text.rstrip(" ")


def place(page: Page) -> str:
    return page.locator("srb-branches .counts").inner_text()


def test_a_round_goes_on_at_the_caret_and_a_take_leaves_what_follows_behind_the_card(fixed: Writer) -> None:
    page = fixed.page
    expect(page.get_by_role("button", name="Continue here")).to_be_visible()
    fixed.go().wait_for_end()
    assert place(page) == f"after “{FIRST}”"
    expect(page.locator("srb-manuscript .gap")).to_be_attached()
    card = card_text(fixed, 2)
    fixed.to_cards().press("Shift+2").expect_text(FIRST + card + SECOND)
    assert page.evaluate("desk.manuscript.caret()") == len(FIRST + card)
    page.evaluate("desk.manuscript.focus()")
    fixed.press("Control+z").expect_text(FIRST + SECOND)
    assert [slot["text"].rstrip(" ") for slot in fixed.slots()][1] == card
    fixed.press("Control+Shift+z").expect_text(FIRST + card + SECOND)


def test_the_round_after_a_take_goes_on_behind_the_card(fixed: Writer) -> None:
    fixed.go().wait_for_end()
    card = card_text(fixed, 1)
    fixed.to_cards().press("1").wait("desk.round.keep > argument", len(FIRST))
    fixed.wait_for_end()
    assert place(fixed.page).startswith("after “")
    second = card_text(fixed, 3)
    fixed.press("Shift+3").expect_text(FIRST + card + second + SECOND)


def test_the_text_can_be_continued_at_its_end_from_anywhere(fixed: Writer) -> None:
    fixed.press("Control+Shift+Enter").wait_for_end()
    expect(fixed.page.locator("srb-manuscript .gap")).to_have_count(0)
    card = card_text(fixed, 1)
    fixed.to_cards().press("Shift+1").expect_text(FIRST + SECOND + card)
    expect(fixed.page.get_by_role("button", name="Continue", exact=True)).to_be_visible()


def test_after_a_reload_the_cards_go_where_they_went(fixed: Writer) -> None:
    fixed.go().wait_for_end().wait_until_saved()
    card = card_text(fixed, 2)
    fixed.reload()
    fixed.wait("desk.round?.slots.length === 4")
    expect(fixed.page.locator("srb-manuscript .gap")).to_be_attached()
    fixed.to_cards().press("Shift+2").expect_text(FIRST + card + SECOND)


@in_each_look
def test_a_round_at_the_caret_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).set(max_tokens=8, stop_at="", n=4).write(FIRST + SECOND)
    page.evaluate("(at) => desk.manuscript.select(at)", len(FIRST))
    writer.go().wait_for_end()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def likelihoods(texts: list[str], answer: dict[str, Any], behind: str) -> list[float]:
    """The mean log-probability of what stands behind each card, at the end of the texts that a server has read."""
    means = []
    for text, read in zip(texts, answer["texts"], strict=True):
        assert text.endswith(behind)
        begins = len(text) - len(behind)
        values = [token["logprob"] for token in read["tokens"] if token["start"] >= begins]
        means.append(sum(values) / len(values))
    return means


def test_cards_are_sorted_by_how_likely_what_follows_becomes(fixed: Writer) -> None:
    page = fixed.page
    button = page.get_by_role("button", name="By what follows")
    fixed.go().wait_for_end()
    with page.expect_response("**/v1/srb/surprise") as answered:
        page.get_by_role("button", name="Sort").click()
        button.click()
    sent = answered.value.request.post_data_json
    assert sent["prompt"] == FIRST  # which the server knows
    means = likelihoods(sent["texts"], answered.value.json(), SECOND)
    assert len(means) == 4
    fixed.wait("desk.round.order.join() === argument", ",".join(map(str, sorted(range(4), key=lambda n: -means[n]))))
    page.evaluate("desk.manuscript.focus()")
    fixed.press("Control+z").wait("desk.round.order.join() === '0,1,2,3'")


def test_where_nothing_follows_it_is_not_offered(fixed: Writer) -> None:
    page = fixed.page
    fixed.press("Control+Shift+Enter").wait("desk.round?.slots.length === 4").wait_for_end()
    expect(page.get_by_role("button", name="Sort")).to_be_visible()
    expect(page.get_by_role("button", name="By what follows")).to_have_count(0)
    fixed.to_cards().press("ContextMenu")
    expect(page.get_by_role("button", name="first the cards after which")).to_be_disabled()
