"""A passage that is selected is written anew in n ways, and a round is told what happens next."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

FIRST, PASSAGE, LAST = "The lake was still.", "Nobody came.", "It froze."
TEXT = f"{FIRST} {PASSAGE} {LAST}"


def select(page: Page) -> None:
    page.evaluate("([from, to]) => desk.manuscript.select(from, to)", [len(FIRST) + 1, len(FIRST) + 1 + len(PASSAGE)])


def dialog(writer: Writer) -> Locator:
    """Ask what becomes of the selected passage."""
    writer.press("Control+Enter")
    return writer.page.get_by_role("dialog", name=f"Revise “{PASSAGE}”")


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    writer.set(seed=11, n=4, stop_at="").write(TEXT)
    select(writer.page)
    return writer


def card_text(writer: Writer, number: int) -> str:
    text: str = writer.slots()[number - 1]["text"]
    return text.strip()


def test_a_selected_passage_is_written_anew_by_one_click_and_a_card_takes_its_place(fixed: Writer) -> None:
    page = fixed.page
    expect(page.get_by_role("button", name="Revise …")).to_be_visible()
    asked = dialog(fixed)
    expect(page.locator("srb-manuscript .passage")).to_have_text(PASSAGE)  # which the popover does not hide
    passage, box = page.locator("srb-manuscript .passage").bounding_box(), asked.bounding_box()
    assert passage
    assert box
    assert not page.evaluate(
        "([a, b]) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height",
        [passage, box],
    )
    with page.expect_request("**/v1/srb/completions") as request:
        asked.get_by_role("button", name="Shorter").click()
    assert "Rewrite the passage so that it is shorter." in request.value.post_data_json["prompt"]
    expect(asked).to_be_hidden()
    fixed.wait("desk.round?.slots.length === 4 && desk.round.slots.every(({text}) => text)").wait_for_end()
    expect(page.locator("srb-branches .counts")).to_contain_text(f"in place of “{PASSAGE}”")
    card = card_text(fixed, 2)
    fixed.to_cards().press("2").expect_text(f"{FIRST} {card} {LAST}")
    expect(page.locator("srb-banner p")).to_contain_text(f"“{PASSAGE}” is not in this text. The outline has it.")
    page.evaluate("desk.manuscript.focus()")
    fixed.press("Control+z").expect_text(TEXT)


def test_a_passage_is_named_without_its_signs(writer: Writer) -> None:
    writer.page.keyboard.insert_text("She *never* came **home**.")
    writer.page.evaluate("desk.manuscript.select(4, 25)")
    writer.press("Control+Enter")
    expect(writer.page.get_by_role("dialog", name="Revise “never came home”")).to_be_visible()


def test_keys_alone_choose_how_or_begin_an_instruction_which_escape_keeps(fixed: Writer) -> None:
    page = fixed.page
    asked = dialog(fixed)
    expect(asked.get_by_role("button", name="Rewrite")).to_be_focused()
    fixed.press("ArrowDown")
    expect(asked.get_by_role("button", name="Shorter")).to_be_focused()
    fixed.write("as a letter")
    field = asked.get_by_label("In your own words")
    expect(field).to_have_value("as a letter")
    fixed.press("Escape")
    expect(asked).to_be_hidden()
    expect(page.locator("srb-manuscript")).to_be_focused()
    expect(page.locator("srb-manuscript .passage")).to_have_count(0)
    expect(dialog(fixed).get_by_label("In your own words")).to_have_value("as a letter")
    with page.expect_request("**/v1/srb/completions") as request:
        fixed.press("Control+Enter")
    assert "as a letter" in request.value.post_data_json["prompt"]


def test_the_gap_that_a_passage_leaves_is_filled(fixed: Writer) -> None:
    asked = dialog(fixed)
    with fixed.page.expect_request("**/v1/srb/completions") as request:
        asked.get_by_role("button", name="Fill the gap").click()
    assert request.value.post_data_json["prompt"] == FIRST


def test_a_round_is_told_what_happens_next(fixed: Writer) -> None:
    page = fixed.press("Control+End").page
    page.get_by_role("button", name="Say what happens next").click()
    asked = page.get_by_role("dialog", name="What happens next")
    asked.get_by_label("For this round").fill("Tom refuses.")
    with page.expect_request("**/v1/srb/completions") as request:
        asked.get_by_role("button", name="Continue, 4 ways").click()
    assert request.value.post_data_json["prompt"] == f"[What happens next: Tom refuses.]\n\n{TEXT}"
    fixed.wait("desk.round?.slots.length === 4 && desk.round.slots.every(({text}) => text)")
    expect(page.locator("srb-branches .counts")).to_contain_text("as asked: “Tom refuses.”")
    page.evaluate("desk.stop()")
    with page.expect_request("**/v1/srb/completions") as request:
        fixed.press("Control+Enter")
    assert request.value.post_data_json["prompt"] == TEXT


def test_what_was_begun_is_there_after_escape_and_a_reload_and_what_was_asked_for_is_offered(fixed: Writer) -> None:
    page = fixed.press("Control+End").page

    def ask() -> Locator:
        page.get_by_role("button", name="Say what happens next").click()
        return page.get_by_role("dialog", name="What happens next").get_by_label("For this round")

    ask().fill("Tom refuses.")
    fixed.press("Escape").wait_until_saved().reload()
    field = ask()
    expect(field).to_have_value("Tom refuses.")
    with page.expect_request("**/v1/srb/completions") as request:
        field.press("Control+Enter")
    assert "Tom refuses." in request.value.post_data_json["prompt"]
    fixed.wait("desk.round?.slots.length === 4 && desk.round.slots.every(({text}) => text)")
    page.evaluate("desk.stop()")
    field = ask()
    expect(field).to_have_value("")
    field.press("ArrowUp")
    expect(field).to_have_value("Tom refuses.")


@in_each_look
def test_revising_has_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).set(max_tokens=8, stop_at="", n=4).write(TEXT)
    select(page)
    asked = dialog(writer)
    assert violations(page) == []
    asked.get_by_role("button", name="tasted").click()
    writer.wait("desk.round?.slots.length === 4").wait_for_end()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
