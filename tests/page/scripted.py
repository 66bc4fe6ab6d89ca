"""Streams of a scripted model: the answer to a page's request for a round, as server-sent events that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from tests.page.paused import Paused, pause

Event = dict[str, Any]


def start(count: int) -> Event:
    return {"event": "start", "count": count, "id": "scripted", "seeds": list(range(count)), "prompt_tokens": 5}


def text(index: int, words: str) -> Event:
    return {"event": "stream", "index": index, "text": words}


def stop(index: int, reason: str, **more: Any) -> Event:
    return {"event": "stop", "index": index, "length": 12, "stop": 0, "reason": reason, "stopping_word": "", **more}


def answer_rounds(page: Page, *events: Event) -> Callable[[], None]:
    """Answer each request for a round by these events, after which the connection ends. Return what ends it."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def answer(request: Paused) -> None:
        if request.method == "POST":
            request.fulfill(200, content_type="text/event-stream", body=body)
        else:
            request.continue_()

    return pause(page, "*/v1/srb/completions", answer)
