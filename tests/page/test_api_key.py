"""A server with an API key: the page asks for it once, goes on with what it was doing, and shows the key to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from tests.page.conftest import MakePage, Troubles
from tests.page.writer import START, Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

KEY = "sesame-4711"


@pytest.fixture
def server(server_with: MakeServer, troubles: Troubles) -> Server:
    troubles.allow("status of 401")
    return server_with(model="fake:25", api_key=KEY)


@pytest.mark.smoke
def test_the_first_refusal_asks_for_the_key_and_the_same_request_goes_on(server: Server, page: Page) -> None:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    page.goto(server.url)
    expect(page.get_by_role("dialog", name="API key")).to_be_visible()
    refused = {request.url for request in asked if "/v1/" in request.url}
    writer = Writer(page, server.url, key=KEY)
    assert refused <= {request.url for request in asked if (response := request.response()) and response.ok}
    writer.set(max_tokens=20, stop_at="").write(START).go().wait_for_end().wait_until_saved()
    expect(page.get_by_role("dialog", name="API key")).to_be_hidden()
    writer.reload()
    expect(page.get_by_role("dialog", name="API key")).to_be_hidden()


def test_a_round_that_is_refused_goes_on_when_the_key_is_given(server: Server, page: Page) -> None:
    writer = Writer(page, server.url, key=KEY).set(n=2, max_tokens=20, stop_at="").write(START).wait_until_saved()
    page.evaluate("desk.api.key = 'changed'")
    writer.press("Control+Enter")
    writer.give_key(KEY)
    writer.wait_for_end()
    assert [slot["state"] for slot in writer.slots()] == ["ended", "ended"]
    assert all(slot["text"] for slot in writer.slots())


def test_a_wrong_key_is_asked_for_again(server: Server, page: Page) -> None:
    page.goto(server.url)
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key", exact=True).fill("open barley")
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog.get_by_label("Key", exact=True)).to_have_value("")
    dialog.get_by_label("Key", exact=True).fill(KEY)
    dialog.get_by_role("button", name="Go on").click()
    expect(page.locator("srb-header .model")).to_have_text("fake:25")


def test_who_gives_no_key_can_write_and_give_it_later(server: Server, page: Page) -> None:
    page.goto(server.url)
    page.get_by_role("dialog", name="API key").get_by_role("button", name="Cancel").click()
    banner = page.locator("srb-banner .server")
    expect(banner).to_contain_text("API key")
    banner.get_by_role("button", name="Enter the key").click()
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key", exact=True).fill(KEY)
    dialog.get_by_role("button", name="Go on").click()
    expect(banner).to_have_count(0)


def test_the_key_is_kept_for_the_tab_and_no_longer_unless_it_is_to_be_remembered(
    server: Server, make_page: MakePage
) -> None:
    page = make_page()
    Writer(page, server.url, key=KEY)
    tab = page.context.new_page()
    tab.goto(server.url)
    dialog = tab.get_by_role("dialog", name="API key")
    dialog.get_by_label("Remember it in this browser").check()
    dialog.get_by_label("Key", exact=True).fill(KEY)
    dialog.get_by_role("button", name="Go on").click()
    expect(tab.locator("srb-header .model")).to_have_text("fake:25")
    Writer(page.context.new_page(), server.url)


def test_the_key_is_in_no_address_story_export_or_log(server: Server, page: Page) -> None:
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request))
    writer = Writer(page, server.url, key=KEY).set(max_tokens=20, stop_at="").write(START).go().wait_for_end()
    writer.to_cards().press("Shift+Digit1").wait_until_saved()
    dialog = writer.open_dialog("formats")
    for name in ("SRB story", "Plain text", "Markdown", "Obsidian Loom"):
        with page.expect_download() as download:
            dialog.get_by_role("button", name=name, exact=True).click()
        assert KEY not in Path(download.value.path()).read_text()
    assert not any(KEY in request.url or KEY in (request.post_data or "") for request in requests)
    assert any(request.headers.get("authorization") == f"Bearer {KEY}" for request in requests)
    story = server.get(f"/v1/srb/stories/{writer.story()['id']}", headers={"Authorization": f"Bearer {KEY}"})
    assert story.status_code == 200
    assert KEY not in story.text
    assert KEY not in server.logs
