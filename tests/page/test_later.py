"""Dialogs are loaded when they are first opened, or while the page is idle, and are there when the server is gone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Troubles
from tests.page.writer import Writer, expect_loaded
from tests.servers import Server

pytestmark = pytest.mark.e2e

DIALOGS = ["stories", "settings", "formats", "help", "map", "versions"]
NEVER_IDLE = "window.requestIdleCallback = () => 0"


def loaded(page: Page) -> set[str]:
    """The names of all files that the page has loaded."""
    names: list[str] = page.evaluate(
        "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname.split('/').at(-1))"
    )
    return set(names)


def test_a_dialog_is_loaded_when_it_is_first_opened(page: Page, slow: Server) -> None:
    page.add_init_script(NEVER_IDLE)
    writer = Writer(page, slow.url, is_whole=False)
    assert loaded(page) & {"map.js", "map.css", "hierarchy.js", "help.js"} == set()
    writer.open_dialog("map")
    assert {"map.js", "map.css", "hierarchy.js"} <= loaded(page)
    assert "help.js" not in loaded(page)
    writer.press("Escape")
    writer.open_dialog("map")
    assert page.locator("srb-map").count() == 1


def test_a_page_that_was_idle_opens_every_dialog_without_its_server(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.allow("net::ERR")
    writer = Writer(page, slow.url)
    page.route("**/*", lambda route: route.abort())
    for name in DIALOGS:
        writer.open_dialog(name)
        writer.press("Escape")


def test_dialogs_that_a_server_could_not_send_come_when_it_is_back(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.expect("net::ERR")
    page.route("**/settings.*", lambda route: route.abort())
    writer = Writer(page, slow.url, is_whole=False)
    page.route("**/v1/srb/server", lambda route: route.abort())
    writer.wait("desk.checkServer() && desk.server.state === 'gone'")
    page.unroute_all()
    page.evaluate("desk.checkServer()")
    expect_loaded(page)


def test_a_dialog_that_cannot_be_loaded_is_told_of_and_can_be_opened_later(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.expect("net::ERR")
    page.add_init_script(NEVER_IDLE)
    writer = Writer(page, slow.url, is_whole=False)
    page.route("**/help.*", lambda route: route.abort())
    page.evaluate("desk.openDialog('help')")
    expect(page.get_by_role("alert")).to_contain_text("This part of the page could not be loaded.")
    page.unroute("**/help.*")
    expect(writer.open_dialog("help")).to_contain_text("Take this branch and continue")
