"""How the page looks: its face, its inks and its measures."""

from __future__ import annotations

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
