"""The page loads in three steps: what a first word needs, then rounds and cards, then the dialogs while it is idle.

All of it is there when the server is gone, and no key is lost that is pressed before its part has come.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.page.conftest import Troubles
from tests.page.writer import Writer, expect_loaded, wait_for_event
from tests.servers import Server

pytestmark = pytest.mark.e2e

DIALOGS = ["stories", "settings", "formats", "help", "task", "palette"]
NEVER_IDLE = "window.requestIdleCallback = () => 0"


def loaded(page: Page) -> set[str]:
    """The names of all files that the page has loaded."""
    names: list[str] = page.evaluate(
        "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname.split('/').at(-1))"
    )
    return set(names)


def hold(page: Page, pattern: str) -> list[Route]:
    """Hold requests back until they are let go."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route))
    return held


def test_nothing_of_the_rest_is_asked_for_before_the_caret_is_in_the_text(page: Page, slow: Server) -> None:
    held = hold(page, "**/v1/srb/stories*")
    page.goto(slow.url)
    wait_for_event(page, lambda: held, "the stories are not asked for")
    page.wait_for_function("() => desk.server.state === 'ready'")
    assert loaded(page) & {"rest.js", "rounds.js", "branches.css"} == set()
    held.pop().continue_()
    page.unroute("**/v1/srb/stories*")
    expect(page.locator("srb-manuscript")).to_be_focused()
    expect_loaded(page)


@pytest.mark.parametrize(
    ("keys", "shown", "part"),
    [("Control+k", "dialog[open]", "palette"), ("Alt+c", "srb-plan .name:focus", "plan")],
)
def test_what_is_typed_while_a_dialog_or_the_chapters_are_being_loaded_replaces_nothing(
    page: Page, server: Server, keys: str, shown: str, part: str
) -> None:
    held = hold(page, f"**/parts/{part}.js")
    writer = Writer(page, server.url, is_whole=False).write("Once upon a time,")
    expect(page.locator("srb-pictures")).to_be_attached()  # with the rest come its keys
    page.evaluate("desk.manuscript.select(0, 4)")
    writer.press(keys)
    wait_for_event(page, lambda: held, "it is not asked for")
    writer.write("gone").press("Enter", "Backspace")
    assert (writer.text, page.evaluate("desk.selected")) == ("Once upon a time,", "Once")
    held.pop().continue_()
    expect(page.locator(shown)).to_be_visible()
    writer.press("Escape").write("Twice")
    writer.expect_text("Twice upon a time,")


def test_keys_that_are_pressed_before_the_rounds_have_come_are_done_when_they_come(page: Page, slow: Server) -> None:
    held = hold(page, "**/desk/rounds.js")
    writer = Writer(page, slow.url, is_whole=False).write("Once upon a time,")
    writer.press("Control+Enter").write(" and").press("F6")
    writer.wait_until_saved()
    wait_for_event(page, lambda: held, "the rounds are not asked for")
    assert page.evaluate("[desk.rounds, desk.isRunning]") == [None, True]
    held.pop().continue_()
    writer.wait("desk.round?.slots.length === 8 && desk.round.slots.every((slot) => slot.text)")
    expect(writer.cards).to_have_count(8)
    assert writer.text.startswith("Once upon a time,")


def test_a_round_that_is_stopped_before_the_rounds_have_come_is_not_begun(page: Page, slow: Server) -> None:
    held = hold(page, "**/desk/rounds.js")
    Writer(page, slow.url, is_whole=False).write("Once upon a time,").press("Control+Enter", "Escape")
    wait_for_event(page, lambda: held, "the rounds are not asked for")
    held.pop().continue_()
    expect_loaded(page)
    assert page.evaluate("[desk.round, desk.isRunning]") == [None, False]


def test_what_is_said_before_the_messages_have_come_is_shown_when_they_come(page: Page, slow: Server) -> None:
    held = hold(page, "**/parts/status.js")
    writer = Writer(page, slow.url, is_whole=False).press("Control+s")
    wait_for_event(page, lambda: held, "the messages are not asked for")
    page.evaluate("desk.openDialog('help')")
    held.pop().continue_()
    expect(page.locator("srb-banner")).to_contain_text("Saved")
    expect(page.locator("srb-help dialog[open]")).to_be_visible()
    expect(writer.page.locator("srb-outline button").first).to_be_attached()


def test_the_rest_of_the_page_comes_when_the_server_is_back(page: Page, slow: Server, troubles: Troubles) -> None:
    troubles.expect("net::ERR")
    page.route("**/parts/rest.js", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: request.url.endswith("rest.js")):
        writer = Writer(page, slow.url, is_whole=False).write("Once")
    page.unroute_all()
    expect_loaded(page)
    writer.go()


def test_a_dialog_is_loaded_when_it_is_first_opened(page: Page, slow: Server) -> None:
    page.add_init_script(NEVER_IDLE)
    writer = Writer(page, slow.url, is_whole=False)
    assert loaded(page) & {"settings.js", "settings.css", "help.js"} == set()
    writer.open_dialog("settings")
    assert {"settings.js", "settings.css"} <= loaded(page)
    assert "help.js" not in loaded(page)
    writer.press("Escape")
    writer.open_dialog("settings")
    assert page.locator("srb-settings").count() == 1


def test_a_page_that_was_idle_opens_every_dialog_without_its_server(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.allow("net::ERR")
    writer = Writer(page, slow.url)
    page.route("**/*", lambda route: route.abort())
    for name in DIALOGS:
        writer.open_dialog(name)
        writer.press("Escape")
    page.evaluate("desk.openDialog('map')")
    expect(page.get_by_role("application", name="Map of the story")).to_be_focused()


def test_a_page_that_was_idle_imports_files_of_every_format_without_its_server(
    page: Page, slow: Server, troubles: Troubles
) -> None:
    troubles.allow("net::ERR")
    writer = Writer(page, slow.url)  # with its last dialogs, which come behind the importers
    page.route("**/*", lambda route: route.abort())
    file = {"name": "lamp.rtf", "mimeType": "", "buffer": rb"{\rtf1 Once upon a lamp}"}
    writer.open_dialog("formats").get_by_label("Choose files").set_input_files([file])  # type: ignore[list-item]
    expect(page.get_by_text("Once upon a lamp").first).to_be_visible()


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
