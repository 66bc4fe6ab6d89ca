"""The summary of a beginning that the model no longer reads."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import violations
from tests.page.conftest import MakePage, Troubles
from tests.page.paused import pause
from tests.page.writer import Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

PARAGRAPH = "Dora keeps the light and walks along the shore. " * 6 + "\n\n"


@pytest.fixture
def small(server_with: MakeServer, troubles: Troubles) -> Server:
    """A model that reads little. It has more tokens than a page expects: the first part is too long for it."""
    troubles.allow("status of 400")
    return server_with(model="fake:2000", n_ctx=1024, ignore_eos="true")


def long_story(page: Page, server: Server) -> Writer:
    """A story of which that model reads the end alone."""
    writer = Writer(page, server.url).set(n=2, max_tokens=8, stop_at="")
    page.evaluate("(text) => desk.manuscript.insert(text)", PARAGRAPH * 25)
    page.evaluate("desk.setMemory('Mara is old.')")
    return writer


def opened(page: Page) -> Locator:
    page.evaluate("desk.openDialog('reading')")
    dialog = page.get_by_role("dialog", name="What the model reads")
    expect(dialog).to_be_visible()
    return dialog


def field(dialog: Locator) -> Locator:
    return dialog.get_by_label("Summary", exact=True)


def test_a_text_that_fits_has_no_summary(small: Server, page: Page) -> None:
    Writer(page, small.url).write("Once upon a time,")
    dialog = opened(page)
    expect(dialog.get_by_role("document", name="Prompt")).to_be_visible()
    expect(field(dialog)).to_have_count(0)


def test_the_model_summarizes_what_is_cut_and_reads_that_in_its_place(small: Server, make_page: MakePage) -> None:
    page = make_page(bypass_csp=True)  # axe puts styles into the document
    writer = long_story(page, small)
    text = page.evaluate("desk.text")
    dialog = opened(page)
    expect(dialog.get_by_text("The model no longer reads the first")).to_be_visible()
    dialog.get_by_role("button", name="Let the model write it").click()
    expect(dialog.get_by_text("The summary tells of all of them")).to_be_visible()
    expect(field(dialog)).not_to_have_value("")
    expect(field(dialog)).to_be_focused()
    assert violations(page) == []
    field(dialog).fill("Dora <i>fell</i>.")
    expect(dialog.locator(".reading > [data-origin=summary]").last).to_contain_text("Dora <i>fell</i>.")
    assert page.evaluate("desk.text") == text
    page.keyboard.press("Escape")
    page.locator("srb-manuscript").click()
    writer.press("Control+End")
    with page.expect_request("**/v1/srb/completions") as sent:
        writer.press("Control+Enter")
    assert json.loads(sent.value.post_data or "")["prompt"].startswith(
        "Mara is old.\n\n[The story so far: Dora <i>fell</i>.]\n\n"
    )
    writer.wait_for_end().wait_until_saved().reload()
    expect(field(opened(page))).to_have_value("Dora <i>fell</i>.")


def test_undo_takes_back_the_edit_and_then_the_models_words(small: Server, page: Page) -> None:
    writer = long_story(page, small)
    dialog = opened(page)
    dialog.get_by_role("button", name="Let the model write it").click()
    expect(dialog.get_by_text("The summary tells of all of them")).to_be_visible()
    told = field(dialog).input_value()
    field(dialog).press("End")
    page.keyboard.type(" And more.")
    page.keyboard.press("Escape")
    assert page.evaluate("desk.story.meta('summary').text") != told
    page.locator("srb-manuscript").click()
    writer.press("Control+z").wait("desk.story.meta('summary').text === argument", told)
    writer.press("Control+z").wait("!desk.story.meta('summary')")
    writer.press("Control+Shift+z").wait("desk.story.meta('summary')?.text === argument", told)


def test_another_window_shows_it_while_it_is_open(small: Server, page: Page) -> None:
    writer = long_story(page, small)
    writer.wait_until_saved()
    other = page.context.new_page()
    Writer(other, small.url, is_new=False)
    shown = field(opened(other))
    expect(shown).to_have_value("")
    field(opened(page)).fill("Dora fell.")
    expect(shown).to_have_value("Dora fell.")
    expect(other.locator("srb-reading .reading > [data-origin=summary]").last).to_contain_text("Dora fell.")


def test_a_summary_that_is_being_written_can_be_stopped(small: Server, page: Page) -> None:
    long_story(page, small)
    pause(page, "*/v1/srb/completions", lambda _request: None)  # nothing is answered
    dialog = opened(page)
    dialog.get_by_role("button", name="Let the model write it").click()
    dialog.get_by_role("button", name="Stop").click()
    expect(dialog.get_by_role("button", name="Let the model write it")).to_be_visible()
    expect(field(dialog)).to_have_value("")
    expect(page.get_by_role("alert")).to_have_count(0)
