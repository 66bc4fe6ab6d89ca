"""News of one replica, which bridges without a registry tell each other through its door: frames to it, lines of JSON back.

A bridge names the replica as its own list does, so the door's news have no name. They are as those of `shared_marks`: of
texts under "", and of requests under homes' sign.

Pure: no I/O and no clock.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from srb.cluster.affinity import News
from srb.cluster.homes import SIGN
from srb.cluster.marks import MARK_SIZE

MOST_TOLD = 128 * 1024  # bytes of a frame, and of what is heard in one line; of more the rest is dropped
MOST_KEPT = 1024 * 1024  # bytes of news at a door, for bridges that start later
_KINDS = {"": "texts", SIGN: "requests"}


def of_replica(news: News, name: str) -> News:
    """Return what some news say of one replica, without its name, and no more than a frame has."""
    most = MOST_TOLD // 4 // MARK_SIZE * MARK_SIZE  # of each kind, with a third more as text
    return {kind: data[:most] for kind in _KINDS if (data := news.get(kind + name))}


def named(news: News, name: str) -> News:
    """Return a door's news with the name of its replica."""
    return {kind + name: data for kind, data in news.items()}


def to_json(news: News) -> dict[str, str]:
    return {_KINDS[kind]: b64encode(data).decode() for kind, data in news.items()}


def from_json(said: Any) -> News:
    """Return news as they were before `to_json`. Raise ValueError for anything else."""
    if not isinstance(said, dict):
        raise ValueError("news are no object")
    try:
        news = {kind: b64decode(said[word], validate=True) for kind, word in _KINDS.items() if word in said}
    except TypeError as error:
        raise ValueError(str(error)) from None
    if any(len(data) % MARK_SIZE for data in news.values()):
        raise ValueError("marks have 16 bytes each")
    return news


def frame_of(bridge: str, news: News) -> bytes:
    """Return the payload of a frame with a bridge's news."""
    return orjson.dumps({"bridge": bridge, **to_json(news)})


def in_frame(payload: bytes) -> tuple[str, News]:
    """Return the bridge and its news. Raise ValueError for anything else."""
    said = orjson.loads(payload)
    news = from_json(said)
    if not isinstance(bridge := said.get("bridge"), str):
        raise ValueError("a bridge has not said its name")
    return bridge, news


def in_lines(heard: Iterable[News]) -> Iterator[list[dict[str, str]]]:
    """Yield news in lists of which each has room in a line."""
    line: list[dict[str, str]] = []
    size = 0
    for news in heard:
        said = to_json(news)
        size += sum(map(len, said.values()))
        if line and size > MOST_TOLD:
            yield line
            line, size = [], sum(map(len, said.values()))
        line.append(said)
    if line:
        yield line
