"""The desk at work below a path prefix, over plain http on a LAN address, and at a server that keeps no stories."""

from __future__ import annotations

import socket

import pytest
from playwright.sync_api import Page, expect

from tests.needs import long, need
from tests.page.conftest import Troubles
from tests.page.writer import START, Writer, expect_loaded
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e


def lan_address() -> str | None:
    """The address of this machine in its network, without asking the network for anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation; no packet is sent
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address


def take_twice(writer: Writer) -> None:
    """Write, take a card and go on, take another one, and find all of it after a reload."""
    writer.set(n=3, max_tokens=8, stop_at="").write(START).press("Control+Enter").wait_for_end().to_cards()
    first = writer.page.evaluate("desk.round.id")
    writer.press("2").wait("desk.round.id !== argument && desk.round.slots.every((slot) => slot.end)", first)
    writer.press("Shift+Digit3").wait("desk.round.id === '' || desk.story.nodes.size === 7 && !desk.isRunning")
    text, texts = writer.text, sorted(writer.model_texts())
    assert len(text) > len(START)
    writer.wait_until_saved().reload()
    assert (writer.text, sorted(writer.model_texts())) == (text, texts)


@pytest.mark.parametrize("prefix", ["/tools/llm", *long("/srb")])
def test_the_desk_works_below_a_prefix(server_with: MakeServer, page: Page, prefix: str) -> None:
    server = server_with(api_prefix=prefix)
    writer = Writer(page, server.url + prefix)
    take_twice(writer)
    stories = server.get(f"{prefix}/v1/srb/stories").json()["stories"]
    assert [story["id"] for story in stories] == [writer.story()["id"]]


def test_the_page_loads_under_a_prefix_with_and_without_a_slash(page: Page, server_with: MakeServer) -> None:
    server = server_with(api_prefix="/tools/llm")
    for address in ("/tools/llm", "/tools/llm/"):
        page.goto(server.url + address)
        assert page.url == f"{server.url}/tools/llm/"
        expect_loaded(page)


def test_the_desk_works_over_plain_http_on_a_lan_address(
    make_server: MakeServer, page: Page, troubles: Troubles
) -> None:
    troubles.allow("Cross-Origin-Opener-Policy header has been ignored")
    address = lan_address()
    need(address, "an address in a network")
    server = make_server(host="0.0.0.0").start()
    writer = Writer(page, f"http://{address}:{server.port}/")
    assert not page.evaluate("isSecureContext")
    assert page.evaluate("[typeof crypto.randomUUID, typeof navigator.locks].join()") == "undefined,undefined"
    take_twice(writer)
    assert len(server.get("/v1/srb/stories").json()["stories"]) == 1
    expect(page.locator("srb-header .saved")).to_contain_text("saved")


def test_without_stories_the_desk_works_and_says_where_the_text_is_kept(
    make_server: MakeServer, page: Page, troubles: Troubles
) -> None:
    troubles.expect("status of 404.*/v1/srb/stories")
    writer = Writer(page, make_server(stories="").start().url)
    take_twice(writer)
    expect(page.locator("srb-header .saved")).to_have_text("kept in this browser only")
