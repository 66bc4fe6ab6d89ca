"""Streams of a scripted model: the answer to a page's request for a round, as server-sent events that a test makes up."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, Route

Event = dict[str, Any]


def start(count: int) -> Event:
    return {"event": "start", "count": count, "id": "scripted", "seeds": list(range(count)), "prompt_tokens": 5}


def text(index: int, words: str) -> Event:
    return {"event": "stream", "index": index, "text": words}


def stop(index: int, reason: str, **more: Any) -> Event:
    return {"event": "stop", "index": index, "length": 12, "stop": 0, "reason": reason, "stopping_word": "", **more}


def answer_rounds(page: Page, *events: Event) -> None:
    """Answer each request for a round by these events, after which the connection ends."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=200, content_type="text/event-stream", body=body)
        else:
            route.continue_()

    page.route("**/v1/srb/completions", answer)
