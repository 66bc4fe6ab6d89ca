"""What the model reads, word for word: of the next round, and of one that is shown."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.writer import START, Writer

pytestmark = pytest.mark.e2e


def words(dialog: Locator, origin: str) -> list[str]:
    """The stretches of an origin that the dialog shows."""
    found = dialog.locator(f".reading > span[data-origin={origin}]:not(.origin)").all_text_contents()
    return [each.strip() for each in found]


def shown(page: Page) -> Locator:
    return page.get_by_role("dialog", name="What the model reads")


def test_the_next_prompt_is_shown_as_it_will_be_sent_with_the_origin_of_each_word(writer: Writer) -> None:
    page = writer.write(START).page
    page.evaluate("desk.setMemory('Mara is <b>old</b>.'); desk.setNote({ text: 'Sad.', depth: 1 })")
    writer.press("Alt+m")
    panel = page.get_by_role("complementary", name="Memory and note")
    panel.get_by_text("What the model reads").click()
    panel.get_by_role("button", name="Word for word").click()
    dialog = shown(page)
    expect(dialog.get_by_role("document", name="Prompt")).to_be_visible()
    assert words(dialog, "memory") == ["Mara is <b>old</b>."]
    assert words(dialog, "note") == ["[Author's note: Sad.]"]
    assert words(dialog, "text")[-1] == START
    whole = "".join(dialog.locator(".reading > span:not(.origin)").all_text_contents())
    page.keyboard.press("Escape")
    page.locator("srb-manuscript").click()
    with page.expect_request("**/v1/srb/completions") as sent:
        writer.press("Control+Enter")
    assert sent.value.post_data_json["prompt"] == whole


def test_the_shown_round_tells_what_it_read_and_after_a_reload_that_it_is_made_again(writer: Writer) -> None:
    page = writer.write(START).set(n=2, max_tokens=8).page
    writer.go().wait_for_end().wait_until_saved()
    page.evaluate("desk.setMemory('Mara.')")
    page.evaluate("desk.openDialog('reading', { isNext: false })")
    dialog = shown(page)
    assert words(dialog, "text") == [START]
    assert words(dialog, "memory") == []
    expect(dialog.get_by_text("Made again from the story")).to_have_count(0)
    dialog.get_by_role("button", name="Next round").click()
    expect(dialog.locator(".reading > [data-origin=memory]").last).to_have_text("Mara.")
    writer.wait_until_saved().reload()
    page.evaluate("desk.openDialog('reading', { isNext: false })")
    expect(dialog.get_by_text("Made again from the story")).to_be_visible()
    assert words(dialog, "memory") == ["Mara."]


def test_the_cards_menu_opens_it(writer: Writer) -> None:
    page = writer.write(START).set(n=2, max_tokens=8).page
    writer.go().wait_for_end().to_cards().press("ContextMenu")
    page.get_by_role("button", name="What the model read for these cards").click()
    expect(shown(page).get_by_role("button", name="Round beside the text")).to_have_attribute("aria-pressed", "true")
