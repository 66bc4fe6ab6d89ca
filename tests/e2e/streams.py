"""Streamed answers in tests, event by event, and what is asked for to get one."""

from __future__ import annotations

from typing import Any

import orjson
import requests

from tests.servers import Server

BRIEF = {"prompt": "Once upon a time,", "n": 2, "max_tokens": 4}
ENDLESS = {"prompt": "Once upon a time,", "n": 3, "max_tokens": -1, "ignore_eos": True, "format": "srb"}
SOON = 60.0  # seconds in which a request ends that is cancelled, on a busy machine; by itself none ends so soon


class Stream:
    """A streamed answer in the srb dialect, event by event."""

    def __init__(self, server: Server, body: dict[str, Any], **options: Any) -> None:
        self._open(server.post("/v1/srb/completions", body, stream=True, **options))

    def _open(self, response: requests.Response) -> None:
        self._response = response
        assert self._response.status_code == 200, self._response.text
        self._lines = self._response.iter_lines(chunk_size=None)  # as they arrive

    def next(self) -> dict[str, Any]:
        for line in self._lines:
            if line.startswith(b"data: {"):
                event: dict[str, Any] = orjson.loads(line.removeprefix(b"data: "))
                return event
        raise EOFError

    def until(self, *kinds: str) -> dict[str, Any]:
        while (event := self.next())["event"] not in kinds:
            pass
        return event

    def rest(self) -> list[dict[str, Any]]:
        """Return all events up to the end of the response, which has to be a clean one."""
        events = []
        while True:
            try:
                events.append(self.next())
            except EOFError:
                return events

    def close(self) -> None:
        self._response.close()


def texts(server: Server) -> dict[int, str]:
    """Return what a brief seeded request writes, by branch."""
    written: dict[int, str] = {}
    for event in Stream(server, BRIEF | {"seed": 7}).rest():
        if event["event"] == "stream":
            written[event["index"]] = written.get(event["index"], "") + event["text"]
    return written
