"""Requests of a page that a test answers itself or holds back. All other requests, and the browser's cache, are left alone.

Playwright's `page.route` asks about each request of the page and switches the cache off: a load takes four times the work.
It is for the page's own files, which the cache would answer.
"""

from __future__ import annotations

import json as json_
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from playwright.sync_api import CDPSession, Page


class Paused:
    """A request that waits for one of: to go on, an answer, an end."""

    def __init__(self, devtools: CDPSession, event: dict[str, Any]) -> None:
        self._devtools = devtools
        self._id = event["requestId"]
        self.method: str = event["request"]["method"]

    def continue_(self) -> None:
        self._devtools.send("Fetch.continueRequest", {"requestId": self._id})

    def fulfill(self, status: int, *, json: Any = None, body: str = "", content_type: str = "application/json") -> None:
        content = body if json is None else json_.dumps(json)
        self._devtools.send(
            "Fetch.fulfillRequest",
            {
                "requestId": self._id,
                "responseCode": status,
                "responseHeaders": [{"name": "Content-Type", "value": content_type}],
                "body": b64encode(content.encode()).decode(),
            },
        )

    def abort(self) -> None:
        self._devtools.send("Fetch.failRequest", {"requestId": self._id, "errorReason": "Failed"})


def pause(page: Page, pattern: str, answer: Callable[[Paused], object]) -> Callable[[], None]:
    """Give `answer` each request whose address is this, where `*` is anything. Return what ends it: others go on then."""
    devtools = page.context.new_cdp_session(page)
    devtools.on("Fetch.requestPaused", lambda event: answer(Paused(devtools, event)))
    devtools.send("Fetch.enable", {"patterns": [{"urlPattern": pattern}]})
    return lambda: devtools.send("Fetch.disable") and None
