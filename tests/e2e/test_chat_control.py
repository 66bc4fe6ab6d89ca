"""Chats whose thoughts are ended, on a whole server with two workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.processes import wait_for
from tests.servers import Server

CHAT = "/v1/chat/completions"
THINKING = "{% for message in messages %}{{ message.content }}{% endfor %}<think>"
ENDLESS = {"messages": [{"role": "user", "content": "Once"}], "ignore_eos": True, "stream": True, "seed": 7}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers and a template whose replies begin inside thoughts; do not kill any part of it."""
    with Server(tmp_path_factory.mktemp("chats"), workers=2, chat_template=THINKING) as server:
        yield server.start()


def chunks(response: requests.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines(chunk_size=None):
        if line.startswith(b"data: {"):
            yield orjson.loads(line.removeprefix(b"data: "))


def control(server: Server, completion: str, **body: Any) -> dict[str, Any]:
    """Send a control on a connection of its own, which either worker may get."""
    body = {"id": completion, "action": "reasoning_end", **body}
    said: dict[str, Any] = requests.post(f"{server.url}{CHAT}/control", json=body, timeout=60).json()
    return said


def test_the_thoughts_of_one_branch_end_and_then_those_of_all(pair: Server) -> None:
    body = {**ENDLESS, "n": 3, "reasoning_control": True, "max_tokens": 20_000}
    with pair.post(CHAT, body, stream=True) as response:
        found = chunks(response)
        completion = next(found)["id"]
        kinds: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}

        def read_until(done: Any) -> None:
            while not done():
                for choice in next(found)["choices"]:
                    kinds[choice["index"]] |= {name for name, text in choice["delta"].items() if text}

        read_until(lambda: all("reasoning_content" in each for each in kinds.values()))
        assert control(pair, completion, index=1) == {"success": True, "branches": [1]}
        read_until(lambda: "content" in kinds[1])
        assert "content" not in kinds[0] | kinds[2]
        assert control(pair, completion) == {"success": True, "branches": [0, 2]}
        read_until(lambda: all("content" in each for each in kinds.values()))
        assert control(pair, completion) == {"success": True, "branches": []}
    wait_for(lambda: not pair.metric("requests_processing"), "the request ends with its client")
    assert control(pair, completion) == {"success": False, "message": "no active completion for this id"}
