"""The plan in the side panel: a line for each chapter and scene, and beats, of which a round writes the next one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

TEXT = "## The Road\n\nMara walks.\n\n***\n\nA dog comes.\n\n## The Sea\n\nThe boat lies there."


def opened(writer: Writer, text: str = TEXT) -> Locator:
    """The plan of a story, beside its text."""
    writer.page.evaluate("(text) => desk.manuscript.insert(text)", text)
    writer.choose_action("Chapters")
    plan = writer.page.locator("srb-plan")
    expect(plan.get_by_role("button", name="The Sea", exact=True)).to_be_focused()
    return plan


def add(plan: Locator, *beats: str) -> None:
    for beat in beats:
        plan.get_by_label("Another beat").fill(beat)
        plan.page.keyboard.press("Enter")
    expect(plan.locator(".beats li")).to_have_count(len(beats))


def asked(page: Page, act: str) -> dict[str, object]:
    """The body of the request that an act sends."""
    with page.expect_request("**/v1/srb/completions") as sent:
        page.evaluate(act)
    body: dict[str, object] = json.loads(sent.value.post_data or "")
    return body


def test_a_chapters_line_is_read_before_its_words_and_told_word_for_word(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=4).page
    plan = opened(writer)
    plan.get_by_label("What happens in “The Road”").fill("Mara <b>leaves</b>.")
    plan.get_by_label("What happens in “The Sea”").fill("The ferryman finds out.")
    body = asked(page, "void desk.go()")
    first, second = "[In this chapter: Mara <b>leaves</b>.]", "[In this chapter: The ferryman finds out.]"
    assert body["prompt"] == f"{first}\n\n{TEXT}".replace("## The Sea", f"{second}\n\n## The Sea")
    assert body["banned_strings"] == ["[In this chapter:"]
    writer.wait_for_end().wait_until_saved().reload()
    expect(plan.get_by_label("What happens in “The Road”")).to_have_value("Mara <b>leaves</b>.")
    page.locator("srb-side-panel summary").get_by_text("What the model reads").click()
    expect(page.get_by_role("row", name="Plan")).to_be_visible()
    page.evaluate("desk.openDialog('reading')")
    reading = page.locator(".reading > [data-origin=plan]:not(.origin)")
    expect(reading.first).to_have_text("[In this chapter: Mara <b>leaves</b>.]")
    assert page.evaluate("desk.text") == TEXT


def test_the_scenes_of_the_chapter_with_the_caret_have_a_line_each(writer: Writer) -> None:
    plan = opened(writer)
    expect(plan.locator(".scene")).to_have_count(0)
    plan.get_by_role("button", name="The Road", exact=True).click()
    expect(plan.locator(".scene .name")).to_have_text(["Mara walks.", "A dog comes."])
    plan.get_by_label("What happens in the scene “A dog comes.”").fill("She is not alone.")
    assert "[In this scene: She is not alone.]\n\nA dog comes." in str(
        asked(writer.page, "void desk.go({ isAtEnd: true })")["prompt"]
    )


def test_a_round_writes_the_next_beat_and_its_tick_is_offered_when_its_card_is_taken(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=4).page
    plan = opened(writer)
    add(plan, "a storm begins", "she lies")
    body = asked(page, "document.querySelector('srb-plan .main').click()")
    assert body["directions"] == ["a storm begins", "a storm begins"]
    writer.wait_for_end()
    expect(plan.get_by_role("button", name="tick it")).to_have_count(0)
    page.evaluate("desk.take(0, { go: false })")
    assert "storm" not in page.evaluate("desk.text")
    plan.get_by_role("button", name="tick it").click()
    expect(plan.get_by_label("Beat 1 is written")).to_be_checked()
    page.evaluate("desk.undo()")
    expect(plan.get_by_label("Beat 1 is written")).not_to_be_checked()
    page.evaluate("desk.redo()")
    expect(plan.get_by_label("Beat 1 is written")).to_be_checked()
    assert asked(page, "document.querySelector('srb-plan .main').click()")["directions"] == ["she lies", "she lies"]
    writer.wait_for_end().wait_until_saved().reload()
    expect(plan.get_by_label("Beat 1 is written")).to_be_checked()
    page.evaluate(f"desk.openNode(desk.head.node, {len(TEXT)})")  # before the card
    expect(plan.get_by_label("Beat 1 is written")).not_to_be_checked()


def test_pasted_lines_are_beats_which_change_their_places(writer: Writer) -> None:
    page = writer.page
    plan = opened(writer)
    page.evaluate(
        """() => {
          const field = document.querySelector("srb-plan .add input");
          const data = new DataTransfer();
          data.setData("text/plain", "one\\n\\n two \\nthree");
          field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    texts = plan.locator(".beats textarea")
    expect(texts).to_have_count(3)
    plan.get_by_label("Move up: beat 3").click()
    expect(texts.nth(1)).to_have_value("three")
    plan.get_by_label("Take away beat 1").click()
    expect(texts).to_have_count(2)
    expect(plan.get_by_label("Another beat")).to_be_focused()
    page.evaluate("desk.undo()")
    expect(texts.nth(0)).to_have_value("one")


@in_each_look
def test_the_plan_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, Any]) -> None:
    page = make_page(bypass_csp=True, **look)  # axe puts styles into the document
    plan = opened(Writer(page, slow.url))
    add(plan, "a storm begins")
    assert violations(page) == []
