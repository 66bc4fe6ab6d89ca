"""A phone: 412 by 839, by touch alone. Nothing scrolls sideways, and each gesture has a button for a thumb."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import MakePage
from tests.page.writer import START, Writer

pytestmark = pytest.mark.e2e

SMALL = """() => [...document.querySelectorAll("button, select, summary")].filter((each) => {
  const { width, height } = each.getBoundingClientRect();
  return each.checkVisibility({ visibilityProperty: true }) && width > 0 && (width < 44 || height < 44);
}).map((each) => `${each.textContent.trim() || each.getAttribute("aria-label")}: ${each.outerHTML.slice(0, 120)}`)"""
WIDE = "document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth"
GESTURES = [
    *("Take, and go on", "Take without", "Show it in the text", "Go on", "Vary", "Set aside", "Other words", "Star", "Note"),
    *("Mark one word more", "Mark one word less", "Mark up to the sentence", "Sort: the likeliest", "Sort: first"),
    *("Group the same", "Group what means", "Try others", "More branches", "Stop all"),
]  # fmt: skip
GESTURES_OF_THE_OUTLINE = ["Star", "Name", "Note", "Set aside", "Compare with the text"]


@pytest.fixture
def page(make_page: MakePage) -> Page:
    return make_page(viewport={"width": 412, "height": 839}, has_touch=True, is_mobile=True, device_scale_factor=2)


def expect_room_for_thumbs(page: Page) -> None:
    assert not page.evaluate(WIDE)
    assert page.evaluate(SMALL) == []


@pytest.mark.smoke
def test_write_continue_and_take_by_tap_alone(writer: Writer) -> None:
    page = writer.page
    page.locator("srb-manuscript .cm-line").tap()
    writer.write(START)
    page.get_by_role("button", name="Continue").tap()
    writer.wait("desk.round?.slots.length && desk.round.slots.every((slot) => slot.text)")
    expect_room_for_thumbs(page)
    first = page.evaluate("desk.round.id")
    writer.card(2).tap(position={"x": 200, "y": 8})
    expect(writer.card(2)).to_have_attribute("aria-current", "true")
    page.get_by_role("group", name="This card").get_by_role("button", name="Take", exact=True).tap()
    writer.wait("desk.round.id !== argument && desk.round.slots.every((slot) => slot.text)", first)
    second = next(node["text"] for node in writer.story()["nodes"].values() if node.get("slot") == 1)
    assert writer.text.startswith(START + second[:4])
    assert writer.text != START


def test_a_tapped_word_is_marked_and_taken_up_to_it(writer: Writer) -> None:
    page = writer.page
    writer.set(seed=11).write(START)
    page.get_by_role("button", name="Continue").tap()
    expect(writer.card(1).locator("[data-more]")).to_be_attached()
    text = writer.card(1).locator(".text")
    text.tap(position={"x": 60, "y": 10})  # opens the card
    expect(writer.card(1).locator("[data-more]")).to_have_count(0)
    text.tap(position={"x": 60, "y": 10})
    writer.wait("desk.round.slots[0].mark !== null")
    marked = writer.slots()[0]["text"][: page.evaluate("desk.round.slots[0].mark")]
    assert 0 < len(marked) < 60
    expect_room_for_thumbs(page)
    page.get_by_role("button", name="Take what is marked", exact=True).tap()
    writer.expect_text(START + marked)


def test_every_gesture_has_a_button_for_a_thumb(writer: Writer) -> None:
    page = writer.page
    writer.set(max_tokens=8).write(START)
    page.get_by_role("button", name="Continue").tap()
    writer.wait_for_end()
    expect_room_for_thumbs(page)
    page.get_by_role("group", name="This card").get_by_role("button", name="All that can be done").tap()
    menu = page.get_by_role("dialog", name="What can be done with this card")
    for gesture in GESTURES:
        expect(menu.get_by_role("button", name=re.compile(f"^{gesture}"))).to_have_count(1)
    expect_room_for_thumbs(page)
    menu.get_by_role("button", name=re.compile("^Star")).tap()
    expect(writer.card(1).locator(".marks")).to_contain_text("★")


def outline_of_a_round(writer: Writer) -> Page:
    """Write a round, and open the outline; return the page."""
    page = writer.page
    writer.set(max_tokens=8).write(START)
    page.get_by_role("button", name="Continue").tap()
    writer.wait_for_end()
    page.get_by_role("button", name="More", exact=True).tap()
    page.locator("#header-menu").get_by_role("button", name="Outline").tap()
    return page


def test_every_gesture_of_the_outline_has_a_button_for_a_thumb(writer: Writer) -> None:
    page = outline_of_a_round(writer)
    page.get_by_role("treeitem").last.tap()
    expect_room_for_thumbs(page)
    node = page.evaluate("document.querySelector('srb-outline').current")
    row = page.locator(f"#outline-{node}")
    acts = page.get_by_role("group", name="The chosen branch")
    for gesture in GESTURES_OF_THE_OUTLINE:
        expect(acts.get_by_role("button", name=re.compile(f"^{gesture}"))).to_have_count(1)
    acts.get_by_role("button", name="Name").tap()
    page.get_by_role("textbox", name="Name (a chapter").fill("Two")
    expect_room_for_thumbs(page)
    page.get_by_role("button", name="Keep").tap()
    expect(row.locator("b")).to_have_text("Two")
    acts.get_by_role("button", name="Note").tap()
    page.get_by_role("textbox", name="Note on this branch").fill("Too short?")
    page.get_by_role("button", name="Keep").tap()
    for gesture in ("Star", "Set aside"):
        acts.get_by_role("button", name=gesture).tap()
        expect(acts.get_by_role("button", name=gesture)).to_have_attribute("aria-pressed", "true")
    marks = page.evaluate("(id) => desk.story.mark(id)", node)
    assert [marks[key] for key in ("star", "name", "note", "pruned")] == [True, "Two", "Too short?", True]
    acts.get_by_role("button", name="Set aside").tap()
    expect(acts.get_by_role("button", name="Set aside")).to_have_attribute("aria-pressed", "false")


def test_what_is_done_with_a_branch_of_the_outline_takes_one_line(writer: Writer) -> None:
    page = outline_of_a_round(writer)
    acts = page.get_by_role("group", name="The chosen branch").get_by_role("button")
    for width in (412, 390, 360):
        page.set_viewport_size({"width": width, "height": 839})
        expect(acts).to_have_count(len(GESTURES_OF_THE_OUTLINE))
        boxes = acts.evaluate_all("(all) => all.map((each) => [each.offsetTop, each.scrollWidth <= each.clientWidth])")
        assert len({top for top, _ in boxes}) == 1, f"at {width} px"
        assert all(is_whole for _, is_whole in boxes), f"at {width} px"
        expect_room_for_thumbs(page)
    acts.last.tap()
    expect(page.get_by_role("region", name="Side by side")).to_be_visible()


def test_no_card_moves_when_the_last_branch_has_ended(writer: Writer) -> None:
    page = writer.page
    writer.set(max_tokens=400).write(START)
    page.get_by_role("button", name="Continue").tap()
    expect(page.locator(".counts")).to_contain_text("being written")
    top = "document.querySelector('srb-branches .cards').getBoundingClientRect().top"
    running = page.evaluate(top)
    page.evaluate("desk.stop()")
    writer.wait_for_end()
    expect(page.locator(".counts")).to_be_empty()
    assert page.evaluate(top) == running


def test_a_fork_of_the_outline_is_closed_and_opened_by_tap(writer: Writer) -> None:
    page = outline_of_a_round(writer)
    expect(page.get_by_role("treeitem")).to_have_count(9)
    page.get_by_role("button", name="Close the fork").tap()
    expect(page.get_by_role("treeitem")).to_have_count(1)
    page.get_by_role("button", name="Open the fork").tap()
    expect(page.get_by_role("treeitem")).to_have_count(9)


def test_a_dialog_fits_the_phone(writer: Writer) -> None:
    writer.set(max_tokens=8).write(START).press("Control+Enter").wait_for_end()
    for name in ("stories", "settings", "formats", "help", "task", "palette"):
        dialog = writer.open_dialog(name)
        expect_room_for_thumbs(writer.page)
        writer.press("Escape")
        expect(dialog).to_be_hidden()


def test_the_map_is_pinched_and_tapped_in_the_place_of_the_cards(writer: Writer) -> None:
    page = writer.page
    writer.set(max_tokens=8).write(START).press("Control+Enter").wait_for_end()
    page.evaluate("desk.openDialog('map')")
    expect(page.get_by_role("application", name="Map of the story")).to_be_focused()
    expect_room_for_thumbs(page)
    card = page.evaluate("desk.round.slots[0].node")
    before = page.evaluate(
        """(id) => {
      const map = document.querySelector("srb-map");
      map.walk(id);
      const clientY = map.canvas.getBoundingClientRect().y + 60;
      const finger = (type, pointerId, clientX) => map.canvas.dispatchEvent(
        new PointerEvent(type, { pointerId, pointerType: "touch", clientX, clientY }));
      map.canvas.setPointerCapture = () => {}; // these are no real fingers
      const { scale } = map.view;
      finger("pointerdown", 1, 100);
      finger("pointerdown", 2, 160);
      finger("pointermove", 2, 220);
      finger("pointerup", 1, 100);
      finger("pointerup", 2, 220);
      return [scale, map.view.scale];
    }""",
        card,
    )
    assert before[1] == pytest.approx(2 * before[0])
    page.get_by_role("region", name="Map").get_by_role("button", name="Open").tap()
    writer.wait("desk.head.node === argument", card)


CHROME = """() => innerHeight - ["main", ".cards"].reduce(
  (sum, each) => sum + document.querySelector(each).getBoundingClientRect().height, 0)"""


def test_text_and_cards_have_all_but_120_px(writer: Writer) -> None:
    page = writer.page
    page.set_viewport_size({"width": 390, "height": 844})
    writer.set(max_tokens=8).write(START)
    assert page.evaluate(CHROME.replace('"main", ".cards"', '"main", "srb-branches"')) <= 120
    writer.press("Control+Enter").wait_for_end()
    assert page.evaluate(CHROME) <= 120
    bar = [page.locator(each).bounding_box() for each in ("#sheet-handle", ".phone-bar", "srb-header .split")]
    assert all(one and other and one["x"] + one["width"] <= other["x"] for one, other in pairwise(bar))
    writer.press("Control+Home")
    expect(page.get_by_role("button", name="Continue here")).to_be_visible()
    expect_room_for_thumbs(page)


def test_undo_and_redo_have_buttons(writer: Writer) -> None:
    page = writer.page
    writer.set(max_tokens=8).write(START).press("Control+Enter").wait_for_end()
    page.get_by_role("group", name="This card").get_by_role("button", name="Take", exact=True).tap()
    writer.wait("desk.text !== argument", START)
    page.get_by_role("button", name="Undo").tap()
    writer.expect_text(START)
    page.get_by_role("button", name="Redo").tap()
    writer.wait("desk.text !== argument", START)
    expect_room_for_thumbs(page)
