"""Events of the models' states: what of a change is told, and the end of a stream that is not read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from srb.models.control import ModelState
from srb.web.ops.models import MAX_UNREAD, ModelEvents, changes


def states(**words: str) -> dict[str, ModelState]:
    return {
        name: ModelState(name, "fake:", {}, word, "no file" if word == "failed" else "", 0, 0, 0)
        for name, word in words.items()
    }


class Source:
    """Stands in for the models' client and for the open calls."""

    def __init__(self) -> None:
        self.watcher: Any = None

    @contextmanager
    def watched(self, watcher: Any) -> Iterator[None]:
        self.watcher = watcher
        yield
        self.watcher = None

    @contextmanager
    def listening(self, *_: Any) -> Iterator[None]:
        yield


def stream(source: Any, interval: float | None = None) -> ModelEvents:
    return ModelEvents(source, source, {}, interval)


def test_a_change_of_the_shown_state_is_an_event() -> None:
    told = list(changes(states(a="loaded", b="unloaded"), states(a="ending", b="loading")))
    assert told == [{"model": "b", "event": "model_status", "data": {"status": "loading"}}], "a is loaded until its end"
    assert list(changes(states(a="loading"), states(a="failed"))) == [
        {
            "model": "a",
            "event": "status_change",
            "data": {"status": "unloaded", "exit_code": 1, "reason": "no file"},
        }
    ]
    assert list(changes(states(a="loaded"), states(a="loaded", b="unloaded"))) == [
        {"model": "*", "event": "models_reload"}
    ]


def test_a_stream_begins_at_once_and_says_when_nothing_changes() -> None:
    source = Source()
    events = stream(source, 0.001)
    assert [next(events), next(events)] == [b": ping\n\n"] * 2
    source.watcher(states(a="loading"), states(a="loaded"))
    event = {"model": "a", "event": "status_change", "data": {"status": "loaded"}}
    assert next(events) == b"data: " + orjson.dumps(event) + b"\n\n"
    events.close()
    events.close()
    assert source.watcher is None
    assert list(events) == []


def test_a_stream_that_is_not_read_ends() -> None:
    source = Source()
    events = stream(source)
    next(events)
    for _ in range(MAX_UNREAD):
        source.watcher(states(a="loading"), states(a="loaded"))
    assert next(events).startswith(b"data: ")
    for _ in range(2):
        source.watcher(states(a="loading"), states(a="loaded"))
    assert list(events) == []
