"""The side panel: memory and note beside the text, which stays in view and in use."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import MakePage, Troubles
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

MEMORY = "Dora keeps the light.\nShe is old."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def panel(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Memory and note")


def memory(page: Page) -> Locator:
    return panel(page).get_by_label("Memory", exact=True)


def opener(page: Page) -> Locator:
    return page.get_by_role("button", name="Memory and note")


def box(each: Locator) -> dict[str, Any]:
    found = each.bounding_box()
    assert found is not None
    return dict(found)


def test_memory_and_note_are_written_beside_the_text_and_go_into_the_story(writer: Writer) -> None:
    page = writer.write(START).page
    writer.press("Alt+m")
    expect(memory(page)).to_be_focused()
    page.keyboard.type(MEMORY)
    panel(page).get_by_label("Author’s note").fill("[Sad.]")
    panel(page).get_by_label("Paragraphs behind the note").select_option("5")
    writer.press("Escape").write(" there lived")
    writer.expect_text(f"{START} there lived")
    expect(panel(page)).to_be_visible()
    story = writer.story()
    assert (story["memory"], story["note"]) == (MEMORY, {"text": "[Sad.]", "depth": 5})


@pytest.mark.parametrize(
    ("note", "frame", "sent"),
    [
        ("Sad.", None, "[Author's note: Sad.]"),
        ("[Sad.]", None, "[Sad.]"),
        ("Sad.", "(OOC: <|>)", "(OOC: Sad.)"),
        ("Sad.", "", "Sad."),
    ],
    ids=["default", "in brackets", "own", "bare"],
)
def test_the_note_is_sent_in_the_frame_that_the_panel_shows(
    writer: Writer, note: str, frame: str | None, sent: str
) -> None:
    page = writer.write(f"{START}\n\nTwo.").page
    opener(page).click()
    panel(page).get_by_label("Author’s note").fill(note)
    panel(page).get_by_label("Paragraphs behind the note").select_option("1")
    field = panel(page).get_by_label("is read as")
    expect(field).to_have_value("<|>" if note.startswith("[") else "[Author's note: <|>]")
    if frame is not None:
        field.fill(frame)
    expect(field).to_have_accessible_description(
        "<|> is the note, which stands alone without it." if frame == "" else "<|> is the note."
    )
    with page.expect_request("**/v1/srb/completions") as asked:
        page.evaluate("void desk.go()")
    assert asked.value.post_data_json["prompt"] == f"{START}\n\n{sent}\n\nTwo."
    page.evaluate("desk.stop()")
    writer.wait_until_saved().reload()
    expect(field).to_have_value(
        frame if frame is not None else "<|>" if note.startswith("[") else "[Author's note: <|>]"
    )


def test_the_depth_keeps_the_focus_while_it_changes(writer: Writer) -> None:
    opener(writer.page).click()
    panel(writer.page).get_by_label("Author’s note").fill("Sad.")
    depth = panel(writer.page).get_by_label("Paragraphs behind the note")
    depth.focus()
    for key, value in (("Home", "1"), ("End", "20")):
        writer.press(key)
        expect(depth).to_have_value(value)
        expect(depth).to_be_focused()


def test_a_depth_that_the_panel_does_not_offer_and_words_of_other_programs_stay(writer: Writer) -> None:
    page = writer.page
    page.evaluate("desk.setNote({ text: 'Sad.', depth: 7, theirs: '[<|>]' })")
    opener(page).click()
    expect(panel(page).get_by_label("Paragraphs behind the note")).to_have_value("7")
    panel(page).get_by_label("Author’s note").fill("Glad.")
    assert writer.story()["note"] == {"text": "Glad.", "depth": 7, "theirs": "[<|>]"}


@pytest.mark.parametrize("look", [{}, {"viewport": {"width": 768, "height": 1024}}, PHONE])
def test_the_text_stays_in_view_beside_the_panel(make_page: MakePage, slow: Server, look: dict[str, Any]) -> None:
    page = make_page(**look)
    writer = Writer(page, slow.url).write(START)
    opener(page).click()
    expect(opener(page)).to_have_attribute("aria-expanded", "true")
    text, side = box(page.locator("srb-manuscript")), box(panel(page))
    assert text["width"] > 200
    assert text["height"] > 200
    beside = side["x"] + side["width"] <= text["x"] + 1
    below = side["y"] >= text["y"] + text["height"] - 1
    assert beside or below
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("srb-manuscript").click()
    writer.write(" one")
    writer.expect_text(f"{START} one")


def test_the_key_goes_to_an_open_panel_and_closes_it_from_within(writer: Writer) -> None:
    page = writer.page
    opener(page).click()
    page.locator("srb-manuscript").click()
    writer.press("Alt+m")
    expect(memory(page)).to_be_focused()
    writer.press("Alt+m")
    expect(panel(page)).to_be_hidden()
    expect(page.locator("srb-manuscript")).to_be_focused()


def test_the_panel_is_as_open_after_a_reload_as_before_and_has_its_place_at_once(
    writer: Writer, troubles: Troubles
) -> None:
    troubles.expect("ERR_FAILED.*side_panel.js")
    page = writer.page
    opener(page).click()
    memory(page).fill(MEMORY)
    writer.press("Escape").wait_until_saved()
    there = box(page.locator("srb-manuscript"))
    page.route("**/parts/side_panel.js", lambda route: route.abort())  # before it is there, too
    with page.expect_console_message(lambda message: "ERR_FAILED" in message.text):
        page.reload()
    expect(page.locator("srb-manuscript")).to_be_focused()
    assert box(page.locator("srb-manuscript"))["x"] == there["x"]
    page.unroute("**/parts/side_panel.js")
    page.reload()
    expect(memory(page)).to_have_value(MEMORY)
    opener(page).click()
    writer.reload()
    expect(opener(page)).to_have_attribute("aria-expanded", "false")
    expect(panel(page)).to_be_hidden()


def test_the_panel_tells_how_many_words_of_every_prompt_it_takes(writer: Writer) -> None:
    page = writer.page
    opener(page).click()
    footer = panel(page).locator(".foot")
    expect(footer).not_to_contain_text("of every prompt")
    memory(page).fill("word " * 117)
    panel(page).get_by_label("Author’s note").fill("Quiet, and sad.")
    expect(panel(page).locator(".count")).to_have_text(["117 words", "3 words"])
    expect(footer).to_contain_text("About 120 words of every prompt.")
    expect(footer).to_contain_text("of the story fit beside it")


def test_the_round_begins_from_the_panel_with_what_was_just_typed(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=8).write(START).press("Alt+m").page
    with page.expect_request(lambda request: request.url.endswith("/completions")) as asked:
        page.keyboard.type("Dora is old.")
        writer.press("Control+Enter")
    assert asked.value.post_data_json["prompt"] == f"Dora is old.\n\n{START}"
    writer.wait_for_end()


def test_a_phone_shows_either_the_panel_or_the_outline(make_page: MakePage, slow: Server) -> None:
    page = make_page(**PHONE)
    Writer(page, slow.url).write(START)
    opener(page).tap()
    page.get_by_role("button", name="More", exact=True).tap()
    page.locator("#header-menu").get_by_role("button", name="Outline").tap()
    outline = page.locator("srb-outline .bar button").first
    expect(outline).to_have_attribute("aria-expanded", "true")
    expect(panel(page)).to_be_hidden()
    opener(page).tap()
    expect(panel(page)).to_be_visible()
    expect(outline).to_have_attribute("aria-expanded", "false")
    panel(page).get_by_role("button", name="Close").tap()
    expect(page.locator("srb-branches")).to_be_visible()
