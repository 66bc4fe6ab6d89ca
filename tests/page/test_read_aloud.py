"""Reading aloud: the card with the focus, what is selected, or the text from the caret on, in its language; and its end."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

# A voice that says nothing, and ends a piece when the test says so; the browser of the tests has none.
VOICE = """
    globalThis.said = [];
    const voice = {
      getVoices: () => [],
      speak: (piece) => { said.push([piece.text, piece.lang]); voice.now = piece; },
      cancel: () => { const { now } = voice; voice.now = null; now?.onerror?.({ error: "canceled" }); },
    };
    globalThis.endPiece = () => { const { now } = voice; voice.now = null; now.onend(); };
    globalThis.isSilent = () => !voice.now;
    Object.defineProperty(window, "speechSynthesis", { value: voice });
"""
TEXT = "The lamp went out. *Nobody* came.\n\nThe sea was dark."


@pytest.fixture
def writer(page: Page, server: Server) -> Writer:
    page.add_init_script(VOICE)
    writer = Writer(page, server.url)
    page.keyboard.insert_text(TEXT)
    return writer


def read_aloud(writer: Writer) -> None:
    writer.choose_action("read aloud")


def said(writer: Writer) -> Any:
    """End each piece that is being read, until it is silent; return all pieces."""
    writer.page.evaluate("() => { while (!isSilent()) endPiece(); }")
    return [text for text, _ in writer.page.evaluate("said")]


def test_the_text_is_read_from_the_caret_on_sentence_by_sentence(writer: Writer) -> None:
    writer.press("Control+Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    read_aloud(writer)
    assert writer.page.evaluate("said") == [["lamp went out.", "en-US"]]
    assert said(writer) == ["lamp went out.", "Nobody came.", "The sea was dark."]
    expect(writer.page.get_by_role("textbox", name="Manuscript")).to_be_focused()


def test_what_is_selected_is_read_alone_in_the_storys_language(writer: Writer) -> None:
    writer.page.evaluate("desk.setMeta('language', 'de-CH')")
    writer.page.evaluate("desk.manuscript.select(4, 8)")
    read_aloud(writer)
    assert said(writer) == ["lamp"]
    assert writer.page.evaluate("said")[0][1] == "de-CH"


def test_the_card_with_the_focus_is_read(writer: Writer) -> None:
    writer.set(n=2, max_tokens=8).go().wait_for_end().to_cards().press("ArrowDown")
    current = writer.page.evaluate("document.querySelector('srb-branches').board.current")
    text = writer.slots()[current]["text"]
    read_aloud(writer)
    # A random text's sentences may end where no space is, so what is compared has none.
    assert "".join("".join(said(writer)).split()) == "".join(text.split())


def test_the_action_ends_what_it_began_and_says_that_nothing_is_there(writer: Writer) -> None:
    writer.press("Control+Home")
    read_aloud(writer)
    read_aloud(writer)
    assert writer.page.evaluate("isSilent()")
    assert len(writer.page.evaluate("said")) == 1
    writer.press("Control+End")
    read_aloud(writer)
    expect(writer.page.get_by_text("There is nothing to read from here on.")).to_be_visible()
    writer.press("Control+Home")
    read_aloud(writer)
    assert said(writer)[1:] == ["The lamp went out.", "Nobody came.", "The sea was dark."]
