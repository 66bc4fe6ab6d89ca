"""The first minute at the page: an empty story, a server that is not ready, and the room that panes have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import STANDS_STILL
from tests.page.conftest import MakePage, Troubles
from tests.page.paused import pause
from tests.page.writer import START, Writer
from tests.processes import wait_for
from tests.servers import Server

SERVER = re.compile("/v1/srb/server$")
PHONE: dict[str, Any] = {"viewport": {"width": 412, "height": 839}, "has_touch": True, "is_mobile": True}


def refuse(page: Page, status: int, **error: Any) -> Callable[[], None]:
    """Let the server's description be refused, until what is returned is called."""
    body = json.dumps({"error": {"code": status, "message": "no", "type": "unavailable_error", **error}})
    return pause(page, "*/v1/srb/server", lambda request: request.fulfill(status, body=body))


@pytest.fixture
def phone(make_page: MakePage, slow: Server) -> Writer:
    return Writer(make_page(**PHONE), slow.url).set(max_tokens=400, stop_at="")


def box(locator: Locator) -> dict[str, float]:
    found = locator.bounding_box()
    assert found is not None
    return dict(found)


# ---- The empty page


def test_an_empty_page_says_in_three_lines_what_to_do(writer: Writer) -> None:
    steps = writer.page.locator(".first-steps")
    expect(steps.get_by_role("listitem")).to_have_count(3)
    steps.get_by_role("button", name="All keys").click()
    expect(writer.page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_an_empty_page_offers_three_sentences_and_each_begins_a_round(writer: Writer) -> None:
    openings = writer.page.locator(".openings").get_by_role("button")
    for number in range(3):
        expect(openings).to_have_count(3)
        text = openings.nth(number).inner_text()
        openings.nth(number).click()
        writer.wait("desk.round?.slots.length && desk.round.slots.every((slot) => slot.text)")
        assert writer.page.evaluate("desk.text") == text
        expect(openings).to_have_count(0)
        writer.press("Escape").wait_for_end().page.evaluate("desk.newStory()")


WINDOWS = [
    (1440, 900, False),
    (1440, 900, True),
    (1920, 1080, False),
    (800, 1024, False),
    (800, 1024, True),
    (412, 839, False),
    (390, 664, False),
    (360, 640, False),
]


def test_the_offered_sentences_stand_where_one_is_written(page: Page, slow: Server) -> None:
    Writer(page, slow.url)
    place, sentences = page.locator(".cm-placeholder"), page.locator(".openings").get_by_role("button")
    paper, opener = page.locator("srb-manuscript"), page.get_by_role("button", name="Memory and note")

    def is_below() -> bool:
        first, last, text, room = box(sentences.first), box(sentences.last), box(place), box(paper)
        return (
            abs(first["x"] - text["x"]) < 4
            and first["y"] > text["y"] + text["height"]
            and last["y"] + last["height"] <= room["y"] + room["height"]
            and last["x"] + last["width"] <= room["x"] + room["width"]
        )

    for width, height, side in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        if (opener.get_attribute("aria-expanded") == "true") != side:
            opener.click()
        expect(opener).to_have_attribute("aria-expanded", "true" if side else "false")
        wait_for(is_below, f"the sentences stand below the place at {width} × {height}, with the panel: {side}")
        expect(page.get_by_role("group", name="All branches")).to_be_hidden()  # of which there are none


@pytest.mark.parametrize(("height", "sheet"), [(844, "higher"), (600, None)], ids=["pulled up", "low window"])
def test_where_the_text_has_no_room_the_offered_sentences_stand_first_below_it(
    make_page: MakePage, slow: Server, height: int, sheet: str | None
) -> None:
    page = make_page(viewport={"width": 390, "height": height})
    Writer(page, slow.url)
    if sheet:
        page.get_by_role("button", name="Height of the cards").click()
    sentences, steps = page.locator(".openings"), page.locator(".first-steps ol")
    pane = page.locator("srb-branches")
    wait_for(lambda: box(sentences)["y"] >= box(pane)["y"], "the sentences in the sheet")
    assert box(sentences)["y"] + box(sentences)["height"] <= box(steps)["y"]


def test_a_typed_text_stays_without_the_offered_sentences(writer: Writer) -> None:
    writer.write("Once")
    expect(writer.page.locator(".openings")).to_have_count(0)
    writer.press("Control+z")
    expect(writer.page.locator(".openings").get_by_role("button")).to_have_count(3)


def test_the_sample_is_sent_in_plain_quotes_to_a_model_that_lacks_others_and_stays_as_it_is(
    make_page: MakePage, storyteller: Server
) -> None:
    writer = Writer(make_page(), storyteller.url)
    writer.page.get_by_role("button", name="Open a sample story").click()
    writer.wait("desk.story.nodes.size > 20")
    text = writer.page.evaluate("desk.text")
    assert "“" in text
    with writer.page.expect_request(lambda request: request.url.endswith("/v1/srb/completions")) as asked:
        writer.go()
    prompt = asked.value.post_data_json["prompt"]
    assert not set("“”‘’") & set(prompt)
    plain = text.translate(str.maketrans("“”‘’", "\"\"''"))
    assert all(paragraph.rstrip(" ") in prompt for paragraph in plain.split("\n"))
    assert writer.page.evaluate("desk.text") == text
    assert not any("\ufffd" in slot for slot in writer.page.evaluate("desk.round.slots.map((slot) => slot.text)"))
    writer.page.evaluate("desk.stop()")


def test_the_sample_is_a_story_of_ones_own_with_a_tree(writer: Writer) -> None:
    before = writer.story()["id"]
    writer.page.get_by_role("button", name="Open a sample story").click()
    writer.wait("desk.story.nodes.size > 20")
    sample = writer.story()
    assert sample["id"] not in (before, "sample-the-last-ferry")
    assert sample["title"] == "The last ferry"
    expect(writer.cards).not_to_have_count(0)
    writer.page.get_by_role("button", name="Outline").click()
    expect(writer.page.get_by_role("treeitem")).not_to_have_count(0)


# ---- A server that is not ready


def test_a_model_that_is_being_loaded_shows_how_much_of_it_is_there(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.allow("status of 503")
    accept = refuse(page, 503, message="Loading model, 42 %", engine="loading", model="a <b>tale</b>", percent=42)
    Writer(page, slow.url)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The model a <b>tale</b> is being loaded.")
    expect(alert.get_by_role("progressbar")).to_have_js_property("value", 42)
    accept()
    expect(alert).to_have_count(0)


def test_an_engine_that_starts_again_is_not_told_as_a_model_that_is_loaded(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.allow("status of 503")
    refuse(page, 503, engine="restarting")
    Writer(page, slow.url)
    expect(page.get_by_role("alert")).to_contain_text("is being started again. Your text is kept.")


def test_a_model_that_cannot_be_loaded_is_told_with_its_reason(page: Page, slow: Server, troubles: Troubles) -> None:
    troubles.allow("status of 503")
    accept = refuse(page, 503, message="model: tale.gguf is not a GGUF file", engine="failed")
    Writer(page, slow.url)
    expect(page.get_by_role("alert")).to_contain_text("tale.gguf is not a GGUF file")
    with page.expect_request(SERVER):
        page.get_by_role("alert").get_by_role("button", name="Try again").click()
    accept()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_who_gives_no_key_is_not_asked_again_and_again(page: Page, slow: Server, troubles: Troubles) -> None:
    troubles.allow("status of 401")
    refuse(page, 401, type="authentication_error")
    page.goto(slow.url)
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    enter = page.get_by_role("alert").get_by_role("button", name="Enter the key")
    expect(enter).to_be_visible()
    page.evaluate("desk.checkServer()")
    expect(dialog).to_be_hidden()
    enter.click()
    expect(dialog).to_be_visible()


# ---- Room


def test_a_message_moves_no_card(writer: Writer) -> None:
    writer.write("Once").go().press("Escape").wait_for_end()
    expect(writer.page.locator(".counts")).to_be_empty()  # what is drawn last
    writer.page.wait_for_function(STANDS_STILL)
    before = box(writer.card(8))
    writer.page.evaluate("desk.notice('The disk is full.', 'error', {label: 'Try again', run: () => {}})")
    expect(writer.page.get_by_role("alert")).to_contain_text("The disk is full.")
    assert box(writer.card(8)) == before


def test_the_bar_beside_the_manuscript_moves_by_mouse_and_keys_and_stays_there(writer: Writer) -> None:
    page = writer.page
    bar = page.get_by_role("separator", name="Width of the manuscript")
    at = box(bar)
    page.mouse.move(at["x"] + 3, 400)
    page.mouse.down()
    page.mouse.move(504, 400)
    page.mouse.up()
    expect(bar).to_have_attribute("aria-valuenow", "35")
    bar.press("ArrowRight")
    expect(bar).to_have_attribute("aria-valuenow", "37")
    writer.reload()
    expect(bar).to_have_attribute("aria-valuenow", "37")
    assert abs(box(page.locator("main"))["width"] - 0.37 * 1440) < 2


def test_on_a_phone_a_round_is_begun_and_taken_by_thumb(phone: Writer) -> None:
    page = phone.page
    phone.write("Once upon a time,")
    for _ in range(2):  # higher, and then away
        page.get_by_role("button", name="Height of the cards").tap()
    expect(page.locator("srb-branches")).to_be_hidden()
    go = page.get_by_role("button", name="Continue", exact=True)
    assert box(go)["y"] > 600
    go.tap()
    expect(page.locator("srb-branches")).to_be_visible()
    phone.wait("desk.round?.slots.every((slot) => slot.text)")
    page.locator(".phone-bar").get_by_role("button", name="Take", exact=True).tap()
    phone.wait("desk.text.length > 17")
    assert page.evaluate("document.documentElement.scrollWidth") == 412


def test_on_a_phone_the_outline_takes_the_place_of_the_branches(phone: Writer) -> None:
    page = phone.page
    phone.write("Once")
    page.get_by_role("button", name="More", exact=True).tap()
    page.get_by_role("button", name="Outline").tap()
    expect(page.locator("srb-branches")).to_be_hidden()
    expect(page.get_by_role("treeitem")).to_have_count(1)
    assert box(page.locator("main"))["height"] > 200


def test_with_a_phones_keyboard_the_room_belongs_to_the_text(phone: Writer) -> None:
    phone.page.set_viewport_size({"width": 412, "height": 450})
    phone.write("Once")
    expect(phone.page.locator("srb-branches")).to_be_hidden()
    assert box(phone.page.locator("main"))["height"] > 300


def test_what_to_do_first_is_told_until_a_browser_has_shown_cards(writer: Writer) -> None:
    steps = writer.page.locator(".first-steps ol")
    writer.write(START)
    expect(steps).to_be_visible()
    writer.set(n=2, max_tokens=4).go().wait_for_end().wait_until_saved()
    writer.page.evaluate("desk.newStory()")
    expect(steps).to_be_visible()
    writer.write("Another story.")
    expect(steps).to_be_hidden()
    expect(writer.page.get_by_role("button", name="Go on from my text")).to_be_visible()
