"""WCAG 2.2, levels A and AA, in each state of the whole desk: as on a desktop, in the dark, and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import EACH_LOOK, violations
from tests.page.conftest import MakePage, Troubles
from tests.page.paused import pause
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

DIALOGS = ["stories", "settings", "formats", "help", "reading", "task", "palette"]


@pytest.fixture(params=EACH_LOOK)
def page(make_page: MakePage, request: pytest.FixtureRequest) -> Page:
    return make_page(bypass_csp=True, **request.param)


def test_an_empty_desk_has_no_barriers(page: Page, slow: Server) -> None:
    Writer(page, slow.url)
    assert violations(page) == []


@pytest.mark.smoke
def test_a_round_has_no_barriers_while_it_runs_and_when_it_has_ended(writer: Writer) -> None:
    writer.write(START).go()
    assert violations(writer.page) == []
    writer.press("Escape").wait_for_end()
    writer.page.locator("srb-branches article.card").first.focus()
    writer.press("x", "ArrowRight", "b", "Control+ArrowRight")
    writer.page.evaluate("desk.openDialog('outline')")  # on a phone, its button is in the menu
    writer.page.get_by_role("tree").wait_for()
    assert violations(writer.page) == []


def test_the_side_panel_has_no_barriers_empty_or_full(writer: Writer) -> None:
    page = writer.write(START).page
    page.get_by_role("button", name="Memory and note").click()
    assert violations(page) == []
    page.get_by_label("Memory", exact=True).fill("Dora is old. " * 40)
    page.get_by_label("Author’s note").fill("Sad.")
    page.locator("summary", has_text="What the model reads").click()
    assert violations(page) == []


def test_no_dialog_has_barriers(writer: Writer) -> None:
    page = writer.set(max_tokens=8).write(START).page
    writer.press("Control+Enter").wait_for_end()
    found = {}
    for name in DIALOGS:
        dialog = writer.open_dialog(name)
        found[name] = violations(page)
        writer.press("Escape")
        expect(dialog).to_be_hidden()
    page.locator("srb-branches article.card").first.focus()
    for name, key, dialog in (
        ("note", "n", page.get_by_role("dialog", name="Note")),
        ("menu", "ContextMenu", page.get_by_role("dialog", name="What can be done with this card")),
        ("alternatives", "t", page.locator("srb-alternatives dialog").filter(has=page.get_by_role("listitem"))),
    ):
        writer.press(key)
        expect(dialog).to_be_visible()
        found[name] = violations(page)
        writer.press("Escape")
        expect(dialog).to_be_hidden()
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_map_has_no_barriers_and_is_reached_by_f6(writer: Writer) -> None:
    page = writer.set(max_tokens=8).write(START).page
    writer.press("Control+Enter").wait_for_end()
    page.evaluate("desk.openDialog('map')")
    canvas = page.get_by_role("application", name="Map of the story")
    expect(canvas).to_be_focused()
    writer.press("ArrowRight")
    assert violations(page) == []
    writer.press("Escape", "Escape")
    expect(page.locator("srb-manuscript")).to_be_focused()
    writer.press("F6")
    expect(canvas).to_be_focused()


def test_what_is_told_of_a_server_that_is_away_has_no_barriers(page: Page, slow: Server, troubles: Troubles) -> None:
    troubles.allow("status of 503")
    pause(page, "*/v1/srb/server", lambda request: request.fulfill(503, json={"error": {"message": "Loading."}}))
    writer = Writer(page, slow.url)
    expect(page.locator("srb-banner .server")).to_be_visible()
    page.evaluate("desk.notice('It went wrong.', 'error', { label: 'Try again', run() {} })")
    expect(page.locator("srb-banner .error")).to_be_visible()
    assert violations(page) == []
    page.evaluate("void desk.api.askKey('The key is wrong.')")
    expect(page.get_by_role("dialog", name="API key")).to_be_visible()
    assert violations(writer.page) == []
