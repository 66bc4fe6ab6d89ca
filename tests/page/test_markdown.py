"""Markdown in the manuscript: shown as what it means with its signs beside it, and put on and taken off by two keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness
from tests.page.test_manuscript import MODEL, expect_marked, take, text
from tests.page.writer import Writer
from tests.processes import wait_for

WITH_MARKDOWN = "import('/page/parts/prose_markdown.js').then((module) => manuscript.extend(module.proseMarkdown))"


@pytest.fixture
def page(make_page: MakePage) -> Page:
    return opened(make_page)


def opened(make_page: MakePage, **options: object) -> Page:
    page = make_page(**options)
    open_harness(page, "manuscript")
    page.evaluate(WITH_MARKDOWN)
    return page


def write(page: Page, written: str) -> None:
    page.keyboard.insert_text(written)


def test_emphasis_headings_and_breaks_are_shown_and_their_signs_stay(page: Page) -> None:
    written = "## The *Salt* Road\nShe said *never*, and **always**.\n* * *\nsnake_case, 2 * 3 and *nothing"
    write(page, written)
    expect_marked(page, ".em", ["Salt", "never"])
    expect_marked(page, ".strong", ["always"])
    expect_marked(page, ".sign", ["## ", "*", "*", "*", "*", "**", "**", "* * *"])
    expect_marked(page, ".cm-line.heading", ["## The *Salt* Road"])
    expect_marked(page, ".cm-line.break", ["* * *"])
    assert text(page) == written
    style = "(each) => [getComputedStyle(each).fontStyle, Number(getComputedStyle(each).fontWeight)]"
    assert page.locator(".em").last.evaluate(style) == ["italic", 400]
    assert page.locator(".strong").evaluate(style) == ["normal", 700]
    assert page.locator(".heading").evaluate(style) == ["normal", 700]
    assert page.locator(".sign").last.evaluate(style) == ["normal", 400]


def test_what_is_written_is_read_anew_at_each_key(page: Page) -> None:
    page.keyboard.type("She said *never")
    expect_marked(page, ".em", [])
    page.keyboard.type("*")
    expect_marked(page, ".em", ["never"])
    page.keyboard.press("Backspace")
    expect_marked(page, ".em", [])
    page.keyboard.press("Home")
    page.keyboard.type("# ")
    expect_marked(page, ".cm-line.heading", ["# She said *never"])


def test_a_headings_line_is_as_high_as_any_other_so_nothing_moves_when_the_look_comes(make_page: MakePage) -> None:
    page = make_page()
    open_harness(page, "manuscript")
    write(page, "# The Salt Road\nShe said *never*, and **always**.\n***\nThe end.")
    tops = "[...manuscript.shadowRoot.querySelectorAll('.cm-line')].map((each) => each.getBoundingClientRect().top)"
    before = page.evaluate(tops)
    page.evaluate(WITH_MARKDOWN)
    expect_marked(page, ".cm-line.heading", ["# The Salt Road"])
    page.evaluate("document.fonts.ready.then(() => true)")  # another face stands for the bold one until it is loaded
    wait_for(lambda: page.evaluate(tops) == pytest.approx(before, abs=0.6), "each line is where it was")


TOGGLES = [
    ("She said never.", (9, 14), "Control+i", "She said *never*."),
    ("She said never.", (9, 14), "Control+b", "She said **never**."),
    ("She said *never*.", (10, 15), "Control+i", "She said never."),
    ("She said *never*.", (9, 16), "Control+i", "She said never."),  # with its signs
    ("She said *never*.", (10, 15), "Control+b", "She said ***never***."),
    ("one two three", (4, 8), "Control+i", "one *two* three"),  # the space behind stays outside
    ("one\n\n* * *\ntwo", (0, 14), "Control+b", "**one**\n\n* * *\n**two**"),  # line by line; a break is no word
    ("*one*\ntwo", (0, 9), "Control+i", "*one*\n*two*"),  # on where not all is on
    ("*one*\n*two*", (0, 11), "Control+i", "one\ntwo"),
    ("## The Road", (0, 11), "Control+i", "## *The Road*"),
    ("one never two", (6, 6), "Control+i", "one *never* two"),  # the word around the caret
    ("one *never* two", (7, 7), "Control+i", "one never two"),
]


def test_a_key_gives_emphasis_or_takes_it_as_one_step(page: Page) -> None:
    for before, selected, key, after in TOGGLES:
        page.evaluate("manuscript.select(0, manuscript.text.length)")
        page.keyboard.press("Delete")
        write(page, before)
        page.evaluate("([from, to]) => manuscript.select(from, to)", selected)
        page.keyboard.press(key)
        assert text(page) == after
        page.keyboard.press("Control+z")
        assert text(page) == before


def test_the_words_stay_selected_and_the_key_once_more_is_the_way_back(page: Page) -> None:
    write(page, "She said never ever.")
    page.evaluate("manuscript.select(9, 19)")
    for key, after in [("i", "*never ever*"), ("b", "***never ever***"), ("i", "**never ever**"), ("b", "never ever")]:
        page.keyboard.press(f"Control+{key}")
        assert text(page) == f"She said {after}."
    page.keyboard.type("so")
    assert text(page) == "She said so."


def test_the_key_begins_emphasis_at_the_caret_and_ends_it(page: Page) -> None:
    page.keyboard.type("She said ")
    page.keyboard.press("Control+i")
    page.keyboard.type("never")
    page.keyboard.press("Control+i")
    page.keyboard.type(", and ")
    page.keyboard.press("Control+b")
    page.keyboard.type("always")
    page.keyboard.press("Control+b")
    page.keyboard.type(".")
    assert text(page) == "She said *never*, and **always**."
    page.keyboard.type(" ")
    for key in "ib":
        page.keyboard.press(f"Control+{key}")
        page.keyboard.press(f"Control+{key}")  # nothing was typed between: its signs go
        assert text(page) == "She said *never*, and **always**. "


def test_the_models_words_stay_the_models_when_they_are_emphasised(page: Page) -> None:
    page.keyboard.type("Once,")
    take(page, " there lived a keeper of a light.")
    page.evaluate("manuscript.select(20, 26)")
    page.keyboard.press("Control+i")
    assert text(page) == "Once, there lived a *keeper* of a light."
    page.wait_for_function(
        """([mark, wanted]) => {
          const marked = [...manuscript.shadowRoot.querySelectorAll(mark)];
          return marked.map((each) => each.textContent).join("") === wanted;
        }""",
        arg=[MODEL, " there lived a keeper of a light."],
    )


def test_of_a_book_only_the_lines_in_view_are_read(page: Page) -> None:
    page.evaluate(
        """() => {
          const text = "## Chapter\\n\\nThe *keeper* climbed the **stairs** again.\\n\\n".repeat(12_000);
          desk.story.nodes.set("book", { text, pieces: [{ from: 0, to: text.length, node: "book", by: "import" }] });
          desk.head = { node: "book", at: text.length };
          desk.load();
        }"""
    )
    expect(page.locator(".em").first).to_be_visible()
    assert 1 < page.locator(".em").count() < 100
    page.evaluate("manuscript.select(300_000)")
    page.keyboard.type("*Here* ")
    expect(page.locator(".em", has_text="Here")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), *long((390, 844))])
def test_axe_finds_nothing_wrong_with_it(make_page: MakePage, scheme: str, width: int, height: int) -> None:
    page = opened(make_page, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": height})
    write(page, "# The *Salt* Road\n\nShe said *never*, **always** and ***both***.\n\n***\n\nThe end.")
    expect_marked(page, ".strong", ["always", "both"])
    assert violations(page) == []


def test_the_page_shows_it_in_faces_of_its_own(writer: Writer) -> None:
    writer.write("She said *never*, and **always**.")
    expect(writer.page.locator("srb-manuscript .em")).to_have_text("never")
    faces = (
        "[...document.fonts].filter((face) => face.status === 'loaded').map((face) => `${face.style} ${face.weight}`)"
    )
    writer.wait(f"['italic 400', 'normal 700'].every((face) => {faces}.includes(face))")
