"""The page can be installed: a browser finds its manifest and icons, also below a prefix, and the policy lets them load."""

from __future__ import annotations

import json
import struct
from typing import Any
from urllib.parse import urljoin

import pytest
import requests
from playwright.sync_api import Page

from tests.needs import long
from tests.page.conftest import Troubles
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("prefix", ["/desk", *long("")])
def test_a_browser_finds_nothing_that_keeps_it_from_installing_the_page(
    page: Page, make_server: MakeServer, troubles: Troubles, prefix: str
) -> None:
    troubles.expect("status of 401")  # nobody has typed the key yet, which neither manifest nor icons need
    server = make_server(api_prefix=prefix, api_key="secret").start()
    page.goto(f"{server.url}{prefix}/")
    devtools = page.context.new_cdp_session(page)
    found = devtools.send("Page.getAppManifest")
    assert found["errors"] == []
    assert found["url"] == f"{server.url}{prefix}/page/manifest.webmanifest"
    manifest: dict[str, Any] = json.loads(found["data"])
    assert {urljoin(found["url"], manifest[name]) for name in ("id", "start_url", "scope")} == {
        f"{server.url}{prefix}/"
    }
    for icon in manifest["icons"]:
        answer = requests.get(urljoin(found["url"], icon["src"]), timeout=60)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, icon["type"]), icon
        if icon["type"] == "image/png":
            assert "{}x{}".format(*struct.unpack(">II", answer.content[16:24])) == icon["sizes"]
