"""How the page looks: its face, its inks and its measures."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.writer import START, Writer

FACES = "[...document.fonts].filter((face) => face.status === 'loaded').map((face) => face.family)"


def test_text_and_cards_are_set_in_the_face_that_the_page_brings(writer: Writer) -> None:
    page = writer.write(START).go().press("Escape").wait_for_end().page
    writer.wait(f"{FACES}.some((family) => /literata/i.test(family))")
    text = page.locator("srb-manuscript .cm-content").evaluate("(each) => getComputedStyle(each).fontFamily")
    assert text.split(",")[0].lower() == "literata"
    assert writer.cards.first.locator(".body").evaluate("(each) => getComputedStyle(each).fontFamily") == text


def test_who_wrote_what_is_shown_only_to_those_who_ask(writer: Writer) -> None:
    page = writer.write(START).go().press("Escape").wait_for_end().page
    writer.to_cards().press("Shift+Digit1").wait("document.activeElement && !desk.isRunning")
    ink = "(each) => getComputedStyle(each).color"
    words, line = page.locator(".cm-line .by-model").first, page.locator(".cm-line").first
    assert words.evaluate(ink) == line.evaluate(ink)
    writer.set(authors=True)
    assert words.evaluate(ink) != line.evaluate(ink)
    assert page.get_by_text("the model's words").is_visible()


CROSSED = """() => {
  const all = [...document.querySelectorAll("srb-header button, srb-header select, srb-header .facts")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }) && each.getClientRects().length);
  const named = all.map((each) => [each.getAttribute("aria-label") ?? each.className, each.getBoundingClientRect()]);
  const found = named.filter(([, box]) => box.right > innerWidth + 1 || box.left < -1).map(([name]) => `${name} is outside`);
  for (const [index, [name, a]] of named.entries())
    for (const [other, b] of named.slice(index + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
        found.push(`${name} lies over ${other}`);
  return found;
}"""


@pytest.mark.parametrize("title", ["Short", "The keeper of the light that nobody had lit for eleven years"])
def test_nothing_in_the_header_lies_over_another_at_any_width(writer: Writer, title: str) -> None:
    page = writer.page
    page.evaluate("(title) => desk.setTitle(title)", title)
    expect(page.locator("srb-header .title")).to_contain_text(title)
    for width in [320, 360, 412, 480, 640, 699, 701, 720, 768, 790, 900, 1024, 1280, 1920]:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CROSSED) == [], f"at {width} px"


def test_the_menu_gives_the_focus_back_after_its_dialog(writer: Writer) -> None:
    page = writer.page
    more = page.locator("srb-header").get_by_role("button", name="More")
    for name in ("Map of the story", "Import and export", "Settings", "Keys and help"):
        more.click()
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name=name)).to_be_hidden()
        expect(page.locator("dialog[open]")).to_be_visible()
        page.keyboard.press("Escape")
        expect(more).to_be_focused()


def test_saving_moves_nothing_in_the_header(writer: Writer) -> None:
    page = writer.page
    place = "document.querySelector('srb-header .words').getBoundingClientRect().x"
    page.evaluate("desk.setTitle('The lighthouse')")
    writer.write(START).wait_until_saved()
    writer.wait("document.querySelector('srb-header .saved').textContent === 'saved'")
    saved = page.evaluate(place)
    writer.write(" a").wait("document.querySelector('srb-header .saved').textContent === 'saving …'")
    assert page.evaluate(place) == saved
