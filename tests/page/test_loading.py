"""The page loads: under its policy, at each address that a server may have, and says what to do where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import violations
from tests.page.conftest import MakePage, Troubles
from tests.page.writer import expect_loaded
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

MINE = "<!doctype html><title>Mine</title><link rel=icon href='data:,'>"


def expect_desk(page: Page) -> None:
    """Expect that a text can be written."""
    expect(page.get_by_role("textbox", name="Manuscript")).to_be_visible()
    expect_loaded(page)


@pytest.mark.smoke
def test_the_page_loads_and_its_console_is_silent(page: Page, server: Server) -> None:
    page.goto(server.url)
    expect_desk(page)


def test_the_page_loads_without_a_key(page: Page, make_server: MakeServer, troubles: Troubles) -> None:
    troubles.allow("status of 401")
    server = make_server(api_key="secret").start()
    page.goto(server.url)
    expect_desk(page)


def test_without_ui_there_is_no_page(page: Page, make_server: MakeServer, troubles: Troubles) -> None:
    troubles.expect("status of 404")
    server = make_server(ui="false").start()
    response = page.goto(server.url)
    assert response is not None
    assert response.status == 404
    assert server.get("/page/main.js").status_code == 404


def test_without_javascript_the_page_shows_a_command_to_try(make_page: MakePage, server: Server) -> None:
    page = make_page(java_script_enabled=False)
    page.goto(server.url)
    expect(page.locator("pre")).to_have_text(
        f"""curl -N {server.url}/v1/srb/completions -d '{{"prompt": "Once upon a time,", "n": 8}}'"""
    )


def test_a_page_of_the_user_comes_before_ours(page: Page, make_server: MakeServer, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(MINE)
    page.goto(make_server(static_path=tmp_path).start().url)
    expect(page).to_have_title("Mine")


# The watch over all pages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "event", "trouble"),
    [
        ("setTimeout(() => { throw new Error('oh no') })", "pageerror", "^error: oh no"),
        ("console.error('oh no')", "console", "^console: oh no"),
        ("document.body.setAttribute('style', 'color: red')", "console", "style-src 'self'"),
        ("document.body.innerHTML = '<b>'", "console", "'TrustedHTML'"),
        ("fetch('http://127.0.0.2:1/')", "console", "connect-src 'self'"),
        ("navigator.sendBeacon('http://127.0.0.2:1/')", "console", "connect-src 'self'"),
        ("new Image().src = 'http://127.0.0.2:1/'", "console", "img-src"),
        (
            "document.body.append(document.createElement('iframe')), frames[0].location = 'http://127.0.0.2:1/'",
            "console",
            "frame-src|default-src",
        ),
        ("fetch('nowhere')", "console", "status of 404"),
    ],
)
def test_errors_and_breaches_of_the_policy_are_noticed(
    page: Page, server: Server, troubles: Troubles, script: str, event: Literal["console", "pageerror"], trouble: str
) -> None:
    page.goto(server.url)
    expect_desk(page)
    with page.expect_event(event):
        page.evaluate(f"async () => {{ try {{ await ({script}) }} catch {{}} }}")
    with pytest.raises(AssertionError, match=trouble):
        troubles.check()
    troubles.expect(".")


def test_an_expected_trouble_must_come() -> None:
    troubles = Troubles()
    troubles.expect("never")
    with pytest.raises(AssertionError, match="never"):
        troubles.check()


def test_violations_of_the_guidelines_are_found(make_page: MakePage, server: Server) -> None:
    page = make_page(bypass_csp=True)  # axe puts styles into the document
    page.goto(server.url)
    expect_desk(page)
    assert violations(page) == []
    page.evaluate("() => document.body.append(document.createElement('button'))")
    assert [found for found in violations(page) if found.startswith("button-name: ")]
