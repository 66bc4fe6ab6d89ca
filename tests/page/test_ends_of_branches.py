"""Each end of a branch is told in words: those of the card, and those that a screen reader says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Troubles
from tests.page.paused import pause
from tests.page.scripted import Event, answer_rounds, start, stop, text
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

DONE: Event = {"event": "done", "count": 1}
FAILED: Event = {"event": "error", "index": 0, "message": "the sampler failed", "code": "engine_error"}


ENDS: list[tuple[list[Event], str, str]] = [
    ([stop(0, "eos", stop=1), DONE], "The model would end here.", "The model would end the text here."),
    ([stop(0, "word", stop=1, stopping_word=";"), DONE], "", "Ended at the stop word “;”."),
    ([stop(0, "boundary", stop=1), DONE], "", "Ended: the sentence is complete."),
    ([stop(0, "limit"), DONE], "cut off here", "Ended at its full length; it can go on."),
    ([stop(0, "limit", truncated=True), DONE], "the context is full", "Ended: the model's context is full."),
    ([stop(0, "cancelled"), DONE], "stopped", "Stopped."),
    ([FAILED, DONE], "failed: the sampler failed", "Failed: the sampler failed."),
    ([], "the connection was lost", "The connection was lost: the connection ended."),
]


def test_an_end_is_told_in_words(page: Page, slow: Server) -> None:
    writer = Writer(page, slow.url)
    for end, words, description in ENDS:
        go_on = answer_rounds(page, start(1), text(0, " there lived a keeper"), *end)
        writer.set(n=1, stop_at="sentence").write(START).press("Control+Enter").wait_for_end()
        expect(writer.card(1).locator(".end")).to_have_text(words)
        expect(writer.card(1)).to_have_accessible_description(f"{description} Key 1 takes it.")
        expect(writer.card(1).locator(".text")).to_contain_text("there lived a keeper")
        go_on()
        page.evaluate("desk.newStory()")
        expect(writer.cards).to_have_count(0)


def test_a_card_that_the_model_ends_at_once_says_so_before_and_after_a_reload_and_goes_on_anyway(
    page: Page, slow: Server
) -> None:
    ended = [stop(0, "eos", stop=1), text(1, " there lived a keeper"), stop(1, "eos", stop=1), DONE]
    go_on = answer_rounds(page, start(2), *ended)
    writer = Writer(page, slow.url).set(n=2, stop_at="sentence").write(START)
    writer.press("Control+Enter").wait_for_end().wait_until_saved()
    go_on()
    for _ in range(2):
        for number in (1, 2):
            card = writer.card(number)
            expect(card.locator(".end")).to_have_text("The model would end here.")
            expect(card).to_have_accessible_description(re.compile(r"^The model would end the text here\."))
            expect(card.get_by_role("button", name="Go on anyway")).to_be_visible()
            card.focus()  # so that its other buttons are shown
            expect(card.get_by_role("button", name="Vary" if number == 2 else "Read")).to_be_visible()
            expect(card.get_by_role("button", name="Go on", exact=True)).to_have_count(0)
        writer.press("Shift+1").expect_text(START)
        expect(page.get_by_role("status").filter(has_text="has written nothing")).to_be_visible()
        writer.reload()
    with page.expect_request("**/v1/srb/completions") as asked:
        writer.card(1).get_by_role("button", name="Go on anyway").click()
    assert asked.value.post_data_json["ignore_eos"] is True
    writer.wait("desk.round.slots[0].text.length > 10")
    page.evaluate("desk.stop()")


def test_a_story_that_never_ends_says_so_to_the_server(writer: Writer) -> None:
    dialog = writer.open_dialog("settings")
    dialog.get_by_label("Never end").check()
    dialog.get_by_label("Close").click()
    writer.page.locator("srb-manuscript").click()
    writer.write(START)
    with writer.page.expect_request("**/v1/srb/completions") as asked:
        writer.go()
    assert asked.value.post_data_json["ignore_eos"] is True


def test_a_refused_round_says_why_on_its_cards_and_offers_another_try(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.expect("status of 503")
    refusal: dict[str, Any] = {"error": {"message": "The queue is full.", "type": "overloaded", "code": 503}}
    go_on = pause(page, "*/v1/srb/completions", lambda request: request.fulfill(503, json=refusal))
    writer = Writer(page, slow.url).set(n=2).write(START)
    writer.press("Control+Enter").wait_for_end()
    expect(writer.card(2)).to_have_accessible_description("Failed: The queue is full. Key 2 takes it.")
    go_on()
    page.get_by_role("alert").get_by_role("button", name="Try again").click()
    writer.wait("desk.round.slots.every((slot) => slot.text)")


def test_a_stopped_round_says_so_on_each_card(writer: Writer) -> None:
    writer.write(START).go().press("Escape").wait_for_end()
    for number in (1, 8):
        expect(writer.card(number)).to_have_accessible_description(
            re.compile(rf"^Stopped\. .*Key {number} takes it\.$")
        )


def test_a_pruned_branch_says_so(writer: Writer) -> None:
    writer.write(START).go().to_cards().press("x")
    expect(writer.card(1)).to_have_accessible_description("Set aside. Key 1 takes it.")
