"""The line that is being written stays in view when the manuscript gets another size, and a text opens at its end."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
PARAGRAPHS = "\n\n".join(["The keeper climbed the stairs again, as on every evening of that long year. " * 8] * 12)
VIEW = """() => {
  const manuscript = document.querySelector("srb-manuscript");
  const scroller = manuscript.shadowRoot.querySelector(".cm-scroller");
  const { top, bottom, height } = scroller.getBoundingClientRect();
  const caret = manuscript.rect(manuscript.caret());
  const isIn = caret !== null && caret.top >= top - 1 && caret.bottom <= bottom + 1;
  return { isIn, height, part: caret && (caret.bottom - top) / height, scrolled: scroller.scrollTop };
}"""
IN_VIEW = f"({VIEW})().isIn"
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def view(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(VIEW)
    return found


def wait_for_height(writer: Writer, before: float) -> None:
    writer.wait(f"({VIEW})().height < argument - 20", before)


@pytest.fixture
def long(writer: Writer) -> Writer:
    """A text of some pages, whose last line stands at the lower edge of the view."""
    writer.page.keyboard.insert_text(PARAGRAPHS)
    writer.wait(IN_VIEW)
    put_caret_at_lower_edge(writer)
    return writer


def put_caret_at_lower_edge(writer: Writer) -> None:
    """Scroll as a person does, until the caret's line is the last one in view."""
    writer.page.evaluate(f"""() => {{
      const {{ part, height }} = ({VIEW})();
      document.querySelector("srb-manuscript").shadowRoot.querySelector(".cm-scroller").scrollTop -= (1 - part) * height - 2;
    }}""")
    writer.page.evaluate(FRAMES)
    found = view(writer.page)
    assert found["isIn"]
    assert (1 - found["part"]) * found["height"] < 5


@pytest.mark.parametrize("pane", ["outline", "search", "side panel", "window"])
def test_the_carets_line_stays_in_view_when_a_pane_takes_room(long: Writer, pane: str) -> None:
    page = long.page
    before = view(page)["height"]
    if pane == "side panel":
        page.get_by_role("button", name="Memory and note").click()
        expect(page.get_by_role("complementary", name="Memory and note")).to_be_visible()
        page.evaluate(FRAMES)
    else:
        if pane == "outline":
            page.get_by_role("button", name="Outline").click()
        elif pane == "search":
            long.press("Control+f")
        else:
            page.set_viewport_size({"width": 1440, "height": 500})
        wait_for_height(long, before)
    long.wait(IN_VIEW)


def test_a_name_that_is_asked_for_leaves_the_carets_line_in_view(long: Writer) -> None:
    page = long.page
    before = view(page)["height"]
    page.get_by_role("button", name="Outline").click()
    wait_for_height(long, before)
    long.wait(IN_VIEW)
    put_caret_at_lower_edge(long)
    page.get_by_role("button", name="Name: a chapter").click()
    expect(page.get_by_role("textbox", name="Name (a chapter")).to_be_focused()
    page.evaluate(FRAMES)
    long.wait(IN_VIEW)


def test_a_text_that_a_person_has_scrolled_stays_where_it_is(long: Writer) -> None:
    page = long.page
    page.mouse.move(300, 300)
    page.mouse.wheel(0, -2000)
    long.wait(f"!({IN_VIEW})")
    page.evaluate(FRAMES)
    scrolled = view(page)["scrolled"]
    before = view(page)["height"]
    page.get_by_role("button", name="Outline").click()
    wait_for_height(long, before)
    page.evaluate(FRAMES)
    assert view(page)["scrolled"] == scrolled


def test_the_sample_opens_with_its_end_at_two_thirds_of_the_view_on_a_phone(make_page: MakePage, slow: Server) -> None:
    writer = Writer(make_page(**PHONE), slow.url)
    writer.page.get_by_role("button", name="Open a sample story").click()
    writer.wait("desk.story.nodes.size > 20")
    writer.wait(IN_VIEW)
    writer.wait(f"Math.abs(({VIEW})().part - 2 / 3) < 0.06")


def test_a_phone_whose_sheet_grows_keeps_the_carets_line_in_view(make_page: MakePage, slow: Server) -> None:
    writer = Writer(make_page(**PHONE), slow.url)
    # Sentences to begin with go with the first word, and the sheet takes their room.
    expect(writer.page.locator(".openings")).to_be_visible()
    writer.page.keyboard.insert_text(PARAGRAPHS)
    writer.wait(IN_VIEW)
    before = view(writer.page)["height"]
    writer.page.get_by_role("button", name="Height of the cards").click()
    wait_for_height(writer, before)
    writer.wait(IN_VIEW)
